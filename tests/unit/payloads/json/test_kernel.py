"""The kernel against the slow way, on documents of all types; and that it stays within its bounds."""

from __future__ import annotations

import ctypes
import math
import mmap
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.json_documents import EVERY_TYPE, comparable, documents, suite

from directkafka.kafka.kernels.compile import kernel
from directkafka.options.ddl import parse_ddl
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.json.decoder import JsonDecoder
from directkafka.payloads.json.numbers import nearest_double
from directkafka.payloads.json.values import JsonReader

SCHEMA = arrow_type(parse_ddl(EVERY_TYPE))
FLAT = arrow_type(parse_ddl("id BIGINT, name STRING, price DOUBLE, at TIMESTAMP, ok BOOLEAN"))


@pytest.fixture(scope="module")
def decoder() -> JsonDecoder:
    return JsonDecoder(SCHEMA)


def by_the_slow_way(texts: list[bytes | None], schema: pa.StructType = SCHEMA) -> pa.Array:
    reader = JsonReader(schema)
    return pa.array([None if text is None else reader.read(text)[0] for text in texts], schema)


def check(decoder: JsonDecoder, texts: list[bytes | None]) -> int:
    """Compare both ways; how many texts the kernel left."""
    found = decoder.decode(pa.array(texts, pa.binary()))
    found.validate(full=True)
    for text, row, wanted in zip(texts, comparable(found), comparable(by_the_slow_way(texts)), strict=True):
        assert row == wanted, text
    return decoder.left_count


@pytest.mark.parametrize("odd", [0.0, 0.02, 0.5])
def test_both_ways_read_the_same(odd: float, decoder: JsonDecoder) -> None:
    texts = [*documents(1500, seed=11, odd=odd), None]
    left = check(decoder, texts)
    assert left < {0.0: 0.5, 0.02: 0.6, 0.5: 1.0}[odd] * len(texts)


def test_the_suite_s_files_are_read_the_same_by_both_ways(decoder: JsonDecoder) -> None:
    texts = [text for _, text in suite()]
    assert len(texts) == 318
    check(decoder, texts)


def test_batches_one_after_the_other_have_nothing_of_each_other(decoder: JsonDecoder) -> None:
    texts: list[bytes | None] = [*documents(300, seed=5, odd=0.1)]
    whole = comparable(decoder.decode(pa.array(texts, pa.binary())))
    random.Random(5).shuffle(pieces := [(start, min(start + 7, 300)) for start in range(0, 300, 7)])
    for start, end in pieces:
        assert comparable(decoder.decode(pa.array(texts[start:end], pa.binary()))) == whole[start:end]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary_view()])
def test_columns_of_any_type_and_slices_of_them_are_read(kind: pa.DataType, decoder: JsonDecoder) -> None:
    texts: list[str | None] = ['{"a":1}', None, '{"a":2,"b":"zwölf"}', "", '{"a":3}']
    column = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    column = column.cast(pa.string()).cast(kind) if "view" not in str(kind) else column.cast(kind)
    found = decoder.decode(column.slice(1, 3)).to_pylist()
    assert [row and (row["a"], row["b"]) for row in found] == [None, (2, "zwölf"), None]


def test_what_is_wrong_with_a_text_is_told_by_its_row() -> None:
    decoder = JsonDecoder(FLAT)
    decoder.decode(pa.array([b'{"id":1}', b"nonsense", None, b'{"id":"x"}'], pa.binary()))
    assert decoder.problems == {1: "the word 'nonsense'", 3: "id: 'x' in place of int64"}


def test_columns_grow_with_long_texts_and_long_lists() -> None:
    schema = arrow_type(parse_ddl("t STRING, l ARRAY<STRUCT<a: INT, m: MAP<STRING, STRING>>>"))
    decoder = JsonDecoder(schema)
    long = ",".join(f'{{"a":{number},"m":{{"k{number}":"{"v" * (number % 50)}"}}}}' for number in range(5000))
    texts: list[bytes | None] = [b'{"t":"x"}', f'{{"l":[{long}],"t":"{"é" * 100_000}"}}'.encode(), b'{"l":[{"a":1}]}']
    found = decoder.decode(pa.array(texts, pa.binary()))
    assert decoder.left_count == 0
    assert found.to_pylist() == by_the_slow_way(texts, schema).to_pylist()


@pytest.mark.parametrize("padding", range(18))
def test_no_byte_is_read_outside_of_the_column(padding: int) -> None:
    """The texts end where a page ends that nobody may read behind: a byte too far ends the process."""
    decoder = JsonDecoder(FLAT)
    for text in (
        b'{"id":12345678901234567,"name":"\\ud83d\\ude00","price":1.5e3,"at":"2024-02-29T12:34:56.123Z","ok":true}',
        b'{"name":"' + b"\xf0\x9f\x98\x80" * 3 + b'"}',
        b'{"a name that nobody knows":[{"x":[1,2.5,null,true,false,"y"]}]}',
    ):
        for cut in range(len(text) + 1):
            with GuardedBytes(b" " * padding + text[:cut]) as column:
                found = decoder.decode(column).to_pylist()
            assert found == by_the_slow_way([b" " * padding + text[:cut]], FLAT).to_pylist()


class GuardedBytes:
    """A column of one text, whose last byte is the last one of its page; the page behind it may not be read."""

    def __init__(self, text: bytes) -> None:
        page = mmap.PAGESIZE
        self._memory = mmap.mmap(-1, 2 * page)
        start = page - len(text)
        self._memory[start:page] = text
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._protect(page, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0)
        data = pa.foreign_buffer(self._address + start, len(text), base=self)
        ends = pa.array([0, len(text)], pa.int32()).buffers()[1]
        self._column = pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])

    def _protect(self, page: int, rights: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(self._address + page), ctypes.c_size_t(page), rights) == 0

    def __enter__(self) -> pa.Array:
        return self._column

    def __exit__(self, *_: object) -> None:
        self._protect(mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
        del self._column


@kernel("float64(int64, int64)")
def rounded(value: int, power: int) -> float:
    return nearest_double(value, power)  # type: ignore[no-any-return]


def test_numbers_are_rounded_to_the_nearest_double() -> None:
    source = random.Random(3)
    hard = [(1, -324), (49, -325), (24703282292062327, -340), (22250738585072011, -324), (17976931348623157, 292),
            (17976931348623159, 292), (9007199254740993, 0), (5, -324), (4503599627370497, -1), (1, 23)]  # fmt: skip
    for value, power in [*hard, *((source.randrange(1, 10**18), source.randrange(-345, 312)) for _ in range(30_000))]:
        exact = float(f"{value}e{power}")
        assert rounded(value, power) == exact, (value, power)


def test_ties_between_two_doubles_go_to_the_even_one() -> None:
    source = random.Random(4)
    for _ in range(3_000):
        number = source.randrange(2**52, 2**53 - 1)
        half = Fraction(2 * number + 1, 2)
        for power in range(0, -4, -1):
            digits = half * Fraction(10) ** -power
            if digits.denominator == 1 and digits < 10**18:
                assert rounded(int(digits), power) == float(half)
    assert math.isinf(rounded(1, 309))


def test_columns_that_are_empty_are_read() -> None:
    """The first one, before there was room for any row."""
    decoder = JsonDecoder(SCHEMA, "UTC")
    empty: Any = decoder.decode(pa.array([], pa.binary()))
    assert (len(empty), empty.type) == (0, SCHEMA)
    nothing = decoder.decode(pa.nulls(3, pa.binary()))
    assert nothing.to_pylist() == [None] * 3
    assert np.asarray(decoder.left_count) == 0
