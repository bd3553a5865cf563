"""Records become the columns that Google's own library reads in them; what is broken is told, and read by nobody."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.guarded_texts import GuardedTexts
from tests.protobuf_records import compiled, differences, expected, fill, message_class, mutated, random_file

from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.options.schemas.protobuf.spark_types import DEPTH_MAX, spark_type
from directkafka.payloads.protobuf.decoder import ProtobufDecoder

HEAD = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/empty.proto";
"""


def decoder_of(text: str, message: str = "") -> ProtobufDecoder:
    return ProtobufDecoder(parse_protobuf([text], message))


def rows_of(text: str, *records: bytes | None) -> list[Any]:
    decoder = decoder_of(text)
    rows = decoder.decode(pa.array(records, pa.binary()))
    rows.validate(full=True)
    assert not decoder.problems, decoder.problems
    decoded_rows: list[Any] = rows.to_pylist(maps_as_pydicts="strict")
    return decoded_rows


@pytest.mark.parametrize("seed", range(25))
def test_random_records_are_read_as_google_s_library_reads_them(seed: int) -> None:
    rng = random.Random(seed)
    text = random_file(rng)
    descriptors = compiled(text)
    schema = parse_protobuf([text], "Record")
    kind = message_class(descriptors, schema.message)
    messages = [fill(kind(), rng) for _ in range(20)]
    records = [message.SerializeToString() for message in messages]
    decoder = ProtobufDecoder(schema)
    rows = decoder.decode(pa.array(records, pa.binary()))
    rows.validate(full=True)
    assert not decoder.problems
    assert rows.to_pylist(maps_as_pydicts="strict") == [expected(message) for message in messages]
    broken = [mutated(rng.choice(records), rng, records) for _ in range(100)]
    with GuardedTexts(broken, b"") as column:
        rows = decoder.decode(column)
    rows.validate(full=True)
    assert differences(text, kind, broken, rows, decoder.problems) == []


def test_what_is_absent_is_null_or_zero_as_the_file_says() -> None:
    text = (
        HEAD
        + """
    message M {
      int32 zero = 1; optional int32 none = 2; string empty = 3; M2 inner = 4; repeated int32 list = 5;
      map<string, M2> map = 6; oneof o { int32 one = 7; string other = 8; } E e = 9; uint64 large = 10; bool no = 11;
      google.protobuf.StringValue wrapped = 12; google.protobuf.Timestamp at = 13; google.protobuf.Empty there = 14;
      double real = 15; bytes raw = 16;
    }
    message M2 { int32 x = 1; }
    enum E { FIRST = 0; }
    """
    )
    assert rows_of(text, b"", None) == [
        {
            "zero": 0, "none": None, "empty": "", "inner": None, "list": [], "map": {}, "one": None, "other": None,
            "e": "FIRST", "large": Decimal(0), "no": False, "wrapped": None, "at": None, "there": None, "real": 0.0,
            "raw": b"",
        },
        None,
    ]  # fmt: skip
    kind = message_class(compiled(text), "M")
    message = kind(inner={}, wrapped={"value": ""}, at={}, there={}, none=0, one=0, large=2**64 - 1)
    message.map["k"].SetInParent()
    [row] = rows_of(text, message.SerializeToString())
    assert (row["inner"], row["map"], row["wrapped"], row["there"]) == ({"x": 0}, {"k": {"x": 0}}, "", True)
    assert (row["at"], row["none"], row["one"]) == (datetime(1970, 1, 1, tzinfo=UTC), 0, 0)
    assert row["large"] == Decimal(2**64 - 1)


def test_google_s_own_messages_are_columns_of_their_fields_but_for_times_wrappers_and_empty_ones() -> None:
    head = 'syntax = "proto3"; ' + "".join(
        f'import "google/protobuf/{name}.proto"; ' for name in ("any", "duration", "field_mask", "wrappers")
    )
    text = (
        head
        + """message M {
      google.protobuf.Any any = 1; google.protobuf.Duration lasted = 2; google.protobuf.FieldMask mask = 3;
      google.protobuf.BytesValue raw = 4; google.protobuf.DoubleValue real = 5; google.protobuf.UInt64Value large = 6;
      google.protobuf.BoolValue no = 7;
    }"""
    )
    message = message_class(compiled(text), "M")(
        any={"type_url": "type.googleapis.com/a.B", "value": b"\x08\x01"},
        lasted={"seconds": -1, "nanos": -5},
        mask={"paths": ["a", "b.c"]},
        raw={"value": b"\xff"}, real={"value": 1.5}, large={"value": 2**64 - 1}, no={},
    )  # fmt: skip
    assert rows_of(text, message.SerializeToString()) == [
        {
            "any": {"type_url": "type.googleapis.com/a.B", "value": b"\x08\x01"},
            "lasted": {"seconds": -1, "nanos": -5},
            "mask": {"paths": ["a", "b.c"]},
            "raw": b"\xff", "real": 1.5, "large": Decimal(2**64 - 1), "no": False,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["Struct", "Value", "ListValue"])
def test_messages_that_hold_any_json_contain_themselves(name: str) -> None:
    text = f'syntax = "proto3"; import "google/protobuf/struct.proto"; message M {{ google.protobuf.{name} x = 1; }}'
    with pytest.raises(ValueError, match=r"at x\..*contains itself"):
        decoder_of(text)


def test_the_last_of_several_counts_and_pieces_of_a_message_are_one() -> None:
    text = (
        HEAD
        + """
    message M { int32 a = 1; Inner inner = 2; oneof o { string s = 3; Inner i = 4; } repeated int32 list = 5; }
    message Inner { int32 x = 1; int32 y = 2; repeated int32 z = 3; }
    """
    )
    pieces = [b"\x08\x01\x08\x02", b"\x12\x02\x08\x01", b"\x28\x07", b"\x12\x04\x10\x05\x18\x01", b"\x2a\x02\x08\x09"]
    assert rows_of(text, b"".join([*pieces, b"\x12\x02\x18\x02"])) == [
        {"a": 2, "inner": {"x": 1, "y": 5, "z": [1, 2]}, "s": None, "i": None, "list": [7, 8, 9]}
    ]
    # Another member of a oneof takes the first one's place, whatever was in it.
    first, second = rows_of(text, b"\x22\x04\x08\x01\x18\x09\x1a\x01s", b"\x1a\x01s\x22\x04\x08\x01\x18\x09")
    assert (first["s"], first["i"]) == ("s", None)
    assert (second["s"], second["i"]) == (None, {"x": 1, "y": 0, "z": [9]})


def test_a_number_that_an_enum_has_no_name_for_is_its_digits() -> None:
    text = HEAD + "message M { repeated E e = 1; } enum E { A = 0; B = 5; C = -3; }"
    numbers = (0, 5, -3, 1, -2147483648, 2147483647, 10)
    kind = message_class(compiled(text), "M")
    [row] = rows_of(text, kind(e=numbers).SerializeToString())
    assert row["e"] == ["A", "B", "C", "1", "-2147483648", "2147483647", "10"]


@pytest.mark.parametrize(
    ("record", "expected_problem"),
    [
        (b"\x08", "a: the record ends in the middle of it"),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "a: the number is too large"),
        (b"\x08\xff\xff\xff\xff\x0f", "a: the number is too large"),
        (b"\x0a\x01x", "a: the record has a value of another type there: it was written with another schema"),
        (b"\x12\x02\xff\xfe", "s: the text is no UTF-8"),
        (b"\x12\x05ab", "s: the record ends in the middle of it"),
        (b"\x1a\x02\x08\x80", "inner.x: the record ends in the middle of it"),
        (b"\x00", "what follows is no field"),
        (b"\x0c", "a group ends that has not begun"),
        (b"\xab\x06" * 200, "too many groups in one another"),
        (b"\x22\x06\x10\x80\x94\xeb\xdc\x03", "at: a timestamp has 0 to 999999999 nanoseconds"),
    ],
)
def test_a_record_that_cannot_be_read_is_told_with_its_field(record: bytes, expected_problem: str) -> None:
    text = HEAD + "message M { int32 a = 1; string s = 2; Inner inner = 3; google.protobuf.Timestamp at = 4; }"
    decoder = decoder_of(text + "message Inner { int32 x = 1; }")
    whole = b"\x12\x02ok"
    rows = decoder.decode(pa.array([whole, record, whole], pa.binary())).to_pylist()
    assert [row["s"] for row in rows] == ["ok", None, "ok"]
    assert rows[1]["inner"] is None
    [problem] = decoder.problems.values()
    assert problem.endswith(expected_problem)


def test_columns_grow_and_batches_follow_each_other() -> None:
    text = HEAD + "message M { repeated string s = 1; repeated Inner i = 2; } message Inner { repeated int64 x = 1; }"
    kind = message_class(compiled(text), "M")
    decoder = decoder_of(text)
    for size in (1, 3_000, 2):
        message = kind(s=[f"{number}" * 10 for number in range(size)], i=[{"x": range(size % 7)}] * size)
        rows = decoder.decode(pa.array([message.SerializeToString(), b"\xff"] * 3, pa.binary()))
        rows.validate(full=True)
        assert rows[4].as_py() == expected(message)
        assert sorted(decoder.problems) == [1, 3, 5]


def test_a_record_that_begins_too_much_is_told() -> None:
    fields = " ".join(f"int64 f{number} = {number + 1};" for number in range(100))
    text = HEAD + f"message M {{ repeated Inner i = 1; }} message Inner {{ {fields} }}"
    decoder = decoder_of(text)
    rows = decoder.decode(pa.array([b"\x0a\x00" * 50_000, b"\x0a\x00"], pa.binary()))
    assert [len(row["i"] or ()) for row in rows.to_pylist()] == [0, 1]
    assert decoder.problems == {0: "i: the record begins more than 4000000 values, most of them empty"}


#: A list of messages with one in each that has a hundred columns.
WIDE_BELOW = (
    HEAD
    + "message M { repeated Inner i = 1; } message Inner { Wide wide = 1; } message Wide {"
    + " ".join(f"int64 f{number} = {number + 1};" for number in range(100))
    + "}"
)


def test_a_null_of_a_message_counts_for_each_of_its_columns() -> None:
    decoder = decoder_of(WIDE_BELOW)
    decoder.decode(pa.array([b"\x0a\x00" * 50_000, b"\x0a\x00"], pa.binary()))
    assert decoder.problems == {0: "i: the record begins more than 4000000 values, most of them empty"}


def test_a_message_that_is_there_counts_its_columns_no_more_than_twice() -> None:
    decoder = decoder_of(WIDE_BELOW)
    decoder.decode(pa.array([b"\x0a\x04\x0a\x02\x08\x01" * 15_000], pa.binary()))
    assert not decoder.problems


def test_no_column_is_for_a_message_that_contains_itself() -> None:
    text = HEAD + "message M { int32 a = 1; repeated Node nodes = 2; } message Node { Node next = 1; }"
    with pytest.raises(ValueError, match=r"at nodes\.next: Node contains itself"):
        decoder_of(text)
    deep = "".join(f"message M{number} {{ M{number + 1} m = 1; }}" for number in range(DEPTH_MAX + 1))
    with pytest.raises(ValueError, match=f"more than {DEPTH_MAX} messages in one another"):
        decoder_of(f"{HEAD}{deep} message M{DEPTH_MAX + 1} {{ int32 a = 1; }}")
    wide = "".join(f"message W{number} {{ W{number + 1} a = 1; W{number + 1} b = 2; }}" for number in range(20))
    with pytest.raises(ValueError, match="more than 20000 columns"):
        decoder_of(f"{HEAD}{wide} message W20 {{ int32 a = 1; }}")


def test_types_are_those_of_the_values() -> None:
    kinds = ("uint32", "fixed32", "uint64", "fixed64", "sint32", "sfixed64", "float", "bytes")
    text = HEAD + f"message M {{ {' '.join(f'{kind} f{at} = {at + 1};' for at, kind in enumerate(kinds))} }}"
    assert spark_type(parse_protobuf([text])).simple_string() == (
        "struct<f0:bigint,f1:bigint,f2:decimal(20,0),f3:decimal(20,0),f4:int,f5:bigint,f6:float,f7:binary>"
    )


def test_a_message_at_the_top_may_be_a_wrapper_or_a_time() -> None:
    for name, record, value in (("Timestamp", b"\x08\x01", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
                                ("Int32Value", b"\x08\x07", 7), ("Empty", b"", True)):  # fmt: skip
        schema = parse_protobuf([HEAD + "message M { int32 a = 1; }"], f"google.protobuf.{name}")
        assert ProtobufDecoder(schema).decode(pa.array([record, None], pa.binary())).to_pylist() == [value, None]
