"""The kernel against the slow way, on documents of all types; and that it stays within its bounds."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.guarded_texts import FILLERS, GuardedTexts
from tests.json_documents import EVERY_TYPE, comparable, documents, suite

from directkafka.kafka.kernels.compile import kernel
from directkafka.options.schemas.ddl import parse_ddl
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.json.decoder import JsonDecoder
from directkafka.payloads.json.kernels.numbers import nearest_double
from directkafka.payloads.json.values import JsonReader

SCHEMA = arrow_type(parse_ddl(EVERY_TYPE))
FLAT_FIELDS = "id BIGINT, name STRING, price DOUBLE, at TIMESTAMP, ok BOOLEAN"
FLAT = arrow_type(parse_ddl(FLAT_FIELDS))


@pytest.fixture(scope="module")
def decoder() -> JsonDecoder:
    return JsonDecoder(SCHEMA)


def by_the_slow_way(texts: list[bytes | None], schema: pa.StructType = SCHEMA) -> pa.Array:
    reader = JsonReader(schema)
    return pa.array([None if text is None else reader.read(text)[0] for text in texts], schema)


def check(decoder: JsonDecoder, texts: list[bytes | None]) -> int:
    """Compare both ways, rows and what is wrong with them; how many texts the kernel left."""
    rows = decoder.decode(pa.array(texts, pa.binary()))
    rows.validate(full=True)
    wanted = by_the_slow_way(texts, decoder.schema)
    for text, row, wanted_row in zip(texts, comparable(rows), comparable(wanted), strict=True):
        assert row == wanted_row, text
    reader = JsonReader(decoder.schema)
    for number, text in enumerate(texts):
        assert decoder.problems.get(number, "") == ("" if text is None else reader.read(text)[1]), text
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
    rows = decoder.decode(column.slice(1, 3)).to_pylist()
    assert [row and (row["a"], row["b"]) for row in rows] == [None, (2, "zwölf"), None]


def test_what_is_wrong_with_a_text_is_told_by_its_row() -> None:
    decoder = JsonDecoder(FLAT)
    decoder.decode(pa.array([b'{"id":1}', b"nonsense", None, b'{"id":"x"}'], pa.binary()))
    assert decoder.problems == {1: "the word 'nonsense'", 3: "id: 'x' in place of int64"}


_VALUES = (
    "1", "-1", "0", "-0", "1.5", "-0.0", "1e3", "128", "-129", "32768", "2147483648", "1234567890123456789",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "12345678901234567890", "true", "false", '""', '"x"', '"12"', '"NaN"', '"-x"', '"\\u004eaN"', '"é"', "{}", "[]",
    '{"a":[1,{"b":"]"}]}', '[{"a":1}]',
)  # fmt: skip
_TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ", "DECIMAL(10,2)", "BINARY", "STRUCT<a: INT>", "ARRAY<INT>", "MAP<STRING, INT>",
)  # fmt: skip


@pytest.mark.parametrize("kind", _TYPES)
def test_values_that_a_type_does_not_take_are_null_and_what_is_behind_them_is_read(kind: str) -> None:
    schema = arrow_type(
        parse_ddl(f"a {kind}, s STRUCT<a: {kind}, b: INT>, l ARRAY<{kind}>, m MAP<STRING, {kind}>, z INT")
    )
    texts: list[bytes | None] = []
    for value in _VALUES:
        texts += [
            f'{{"a":{value},"z":7}}'.encode(),
            f'{{"s":{{"b":5,"a": {value} }} , "z":7}}'.encode(),
            f'{{"l":[{value}],"m":{{"k":{value}}},"z":7}}'.encode(),
            f'{{"a":{value},"a":{value},"z":7}}'.encode(),
            f'{{"a":{value} x,"z":7}}'.encode(),
        ]
    assert check(JsonDecoder(schema), texts) < len(texts)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BIGINT", '"12"'),
        ("BIGINT", "1.5"),
        ("BIGINT", "9223372036854775808"),
        ("INT", "2147483648"),
        ("BOOLEAN", "1"),
        ("DOUBLE", '"x"'),
        ("DATE", '""'),
        ("TIMESTAMP", "true"),
        ("STRUCT<a: INT>", '"x"'),
        ("STRUCT<a: INT>", "[1]"),
        ("ARRAY<INT>", "{}"),
    ],
)
def test_the_kernel_itself_passes_over_values_that_a_type_does_not_take(kind: str, value: str) -> None:
    decoder = JsonDecoder(arrow_type(parse_ddl(f"a {kind}, z INT")))
    assert check(decoder, [b'{"z":1}', f'{{"a":{value},"z":2}}'.encode()]) == 0
    assert list(decoder.problems) == [1]


def test_what_nobody_asks_for_is_not_found_out() -> None:
    decoder = JsonDecoder(FLAT, explains=False)
    rows = decoder.decode(pa.array([b'{"id":"x","name":"y"}'], pa.binary()))
    assert (rows[0]["id"].as_py(), rows[0]["name"].as_py()) == (None, "y")
    assert (decoder.problems, decoder.left_count) == ({}, 0)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT", "1234567890123456789", 1234567890123456789),
        ("STRING", "0.5", "0.5"),
        ("STRING", "-12345.0625", "-12345.0625"),
        ("STRING", "0.001", "0.001"),
        ("STRING", "9999999.5", "9999999.5"),
        ("STRING", "-0.0", "-0.0"),
        ("STRING", '{"a":[1.5,2]}', '{"a":[1.5,2]}'),
    ],
)
def test_long_integers_and_usual_reals_are_read_by_the_kernel(kind: str, value: str, wanted: object) -> None:
    decoder = JsonDecoder(arrow_type(parse_ddl(f"a {kind}")))
    text = f'{{"a":{value}}}'.encode()
    assert check(decoder, [text]) == 0
    assert decoder.decode(pa.array([text], pa.binary())).to_pylist() == [{"a": wanted}]


def test_timestamps_may_be_seconds() -> None:
    decoder = JsonDecoder(arrow_type(parse_ddl("a TIMESTAMP")))
    values = ("0", "-1", "1700000000", "9223372036854", "92233720368547758", "999999999999999999")
    assert check(decoder, [f'{{"a":{value}}}'.encode() for value in values]) == 0


def test_reals_as_texts_are_written_as_java_writes_them() -> None:
    decoder = JsonDecoder(arrow_type(parse_ddl("a STRING")))
    source = random.Random(8)
    texts: list[bytes | None] = []
    for _ in range(4000):
        whole = str(source.randrange(10 ** source.randrange(1, 9)))
        places = "".join(source.choices("0001234567890", k=source.randrange(1, 18 - len(whole))))
        exponent = source.choice(["", "", "", "", "e1", "e-3", "E-3", "e-4", "e+2"])
        sign = source.choice(["", "-"])
        texts += [f'{{"a":{sign}{whole}.{places}{exponent}}}'.encode()]
    left = check(decoder, texts)
    assert 0 < left < len(texts) * 0.8


def test_columns_grow_with_long_texts_and_long_lists() -> None:
    schema = arrow_type(parse_ddl("t STRING, l ARRAY<STRUCT<a: INT, m: MAP<STRING, STRING>>>"))
    decoder = JsonDecoder(schema)
    long = ",".join(f'{{"a":{number},"m":{{"k{number}":"{"v" * (number % 50)}"}}}}' for number in range(5000))
    texts: list[bytes | None] = [b'{"t":"x"}', f'{{"l":[{long}],"t":"{"é" * 100_000}"}}'.encode(), b'{"l":[{"a":1}]}']
    rows = decoder.decode(pa.array(texts, pa.binary()))
    assert decoder.left_count == 0
    assert rows.to_pylist() == by_the_slow_way(texts, schema).to_pylist()


@pytest.mark.parametrize(
    "padding", [pytest.param(n, marks=() if n in (0, 1, 8, 15, 16, 17) else pytest.mark.slow) for n in range(18)]
)
def test_no_byte_is_read_outside_of_the_column(padding: int) -> None:
    """Behind the texts are the 16 bytes that may be read, or none, and then memory that nobody may read."""
    schema = arrow_type(parse_ddl(f"{FLAT_FIELDS}, q MAP<STRING, INT>, abcdefghijklmnopqrs INT, s STRUCT<id: INT>"))
    decoder = JsonDecoder(schema)
    for text in (
        b'{"id":12345678901234567,"name":"\\ud83d\\ude00","price":1.5e3,"at":"2024-02-29T12:34:56.123Z","ok":true}',
        b'{"name":"' + b"\xf0\x9f\x98\x80" * 3 + b'"}',
        b'{"a name that nobody knows":[{"x":[1,2.5,null,true,false,"y"]}]}',
        b'{"q":{"k":1,"l":"x","abcdefghijklmno":3},"abcdefghijklmnopqrs":1,"abcdefghijklmnoxyz":2,"name":{"a":[1.5]}}',
        b'{"id":"a text","ok":12,"price":[1,{"a":"b"}],"at":1700000000,"name":-0.0625,"s":{"id":"x"},"z":1}',
    ):
        for cut in range(len(text) + 1):
            start = b" " * padding + text[:cut]
            wanted = by_the_slow_way([start], schema).to_pylist()
            for filler in (b"", FILLERS[(cut + padding) % len(FILLERS)]):
                with GuardedTexts([start], filler) as column:
                    assert decoder.decode(column).to_pylist() == wanted


@pytest.mark.parametrize(
    ("ddl", "text", "filler"),
    [
        ("q MAP<STRING, INT>", b'{"q":{"k":1,', b'"' * 16),
        ("abcdefghijklmnopqrs INT, z INT", b'{"z":1,', b'"abcdefghijklmno'),
    ],
)
def test_nothing_is_looked_for_behind_a_text_that_ends_with_a_comma(ddl: str, text: bytes, filler: bytes) -> None:
    decoder = JsonDecoder(arrow_type(parse_ddl(ddl)))
    with GuardedTexts([text], filler) as column:
        assert decoder.decode(column).to_pylist() == by_the_slow_way([text], decoder.schema).to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["BIGINT", "BOOLEAN", "DOUBLE", "STRING", "MAP<STRING, INT>"])
@pytest.mark.parametrize(
    "value",
    [
        "1" * 999 + ".1e12",
        "0." + "0" * 998 + "1e12",
        "1" * 1001,
        f'"{"x" * 20_000_001}"',
        f'{{"{"n" * 50_001}":1}}',
    ],
    ids=["long exponent", "long fraction", "many digits", "long text", "long name"],
)
def test_what_is_too_long_for_jackson_is_left_by_the_kernel(kind: str, value: str) -> None:
    decoder = JsonDecoder(arrow_type(parse_ddl(f"a {kind}, z INT")))
    assert check(decoder, [f'{{"a":{value},"z":1}}'.encode(), f'{{"unknown":{value},"z":1}}'.encode()]) == 2


def test_a_thousand_digits_are_not_too_many() -> None:
    decoder = JsonDecoder(arrow_type(parse_ddl("a STRING, z INT")))
    value = "1" * 1000
    assert check(decoder, [f'{{"a":{value},"z":1}}'.encode(), f'{{"unknown":{value},"z":1}}'.encode()]) == 0


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
