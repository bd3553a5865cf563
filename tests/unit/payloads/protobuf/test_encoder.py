"""Encoding Protocol Buffers: read back by Google's library and by our decoder, on random files."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.protobuf_records import compiled, fill, message_class, random_file

from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.options.schemas.protobuf.schema import ProtobufSchema, schema_of_text
from directkafka.payloads.protobuf.decoder import ProtobufDecoder
from directkafka.payloads.protobuf.encoder import ProtobufEncoder


@pytest.mark.parametrize("seed", range(60))
def test_what_is_decoded_and_encoded_is_read_as_it_was(seed: int) -> None:
    """In one piece, in slices, and with nulls between."""
    rng = random.Random(seed)
    text = random_file(rng)
    schema = parse_protobuf([text], "Record")
    kind = message_class(compiled(text), schema.message)
    messages = [fill(kind(), rng) for _ in range(20)]
    records = [message.SerializeToString() for message in messages]
    rows = ProtobufDecoder(schema).decode(pa.array([*records, None, *records[:3]], pa.binary()))
    encoder = ProtobufEncoder(schema, rows.type)
    for part in (rows, rows[5:17], rows[19:23]):
        again = encoder.encode(part)
        assert again.is_null().to_pylist() == part.is_null().to_pylist()
        assert repr(ProtobufDecoder(schema).decode(again).to_pylist()) == repr(part.to_pylist())
    for raw, message in zip(encoder.encode(rows).to_pylist()[:20], messages, strict=True):
        parsed_message = kind()
        parsed_message.ParseFromString(raw)
        # What a column has no place for, such as the nanoseconds of a time, is not in it; the rest is.
        assert read(schema, parsed_message) == read(schema, message)


def read(schema: ProtobufSchema, message: Any) -> str:
    """What is in the columns, which have no order of a map's keys."""
    columns = ProtobufDecoder(schema).decode(pa.array([message.SerializeToString(deterministic=True)]))
    return repr(columns.to_pylist())


FLIGHT = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Flight {
  uint32 id = 1;
  optional string carrier = 2;
  repeated sint32 delays = 3;
  map<string, uint64> miles = 4;
  Kind kind = 5;
  oneof place { string city = 6; int32 code = 7; }
  google.protobuf.Timestamp at = 8;
  enum Kind { NONE = 0; CARGO = 3; }
}
"""


def encoded(rows: pa.Array, prefix: bytes = b"") -> list[bytes | None]:
    records: list[bytes | None] = (
        ProtobufEncoder(parse_protobuf([FLIGHT]), rows.type, prefix=prefix).encode(rows).to_pylist()
    )
    return records


def rows(**columns: Any) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def test_each_record_has_the_prefix_and_zeros_are_left_out() -> None:
    made = rows(id=pa.array([0, 300], pa.int64()), kind=pa.array(["NONE", "CARGO"]), carrier=pa.array(["", None]))
    assert encoded(made, b"\0\0\0\0\7\0") == [b"\0\0\0\0\7\0\x12\0", b"\0\0\0\0\7\0\x08\xac\x02\x28\x03"]


def test_unsigned_numbers_have_all_their_bits() -> None:
    made = rows(
        id=pa.array([2**32 - 1], pa.int64()),
        miles=pa.array([[("a", Decimal(2**64 - 1))]], pa.map_(pa.string(), pa.decimal128(20, 0))),
    )
    message = message_class(compiled(FLIGHT), "Flight")()
    message.ParseFromString(encoded(made)[0])
    assert (message.id, dict(message.miles)) == (2**32 - 1, {"a": 2**64 - 1})


def test_a_time_before_1970_has_seconds_below_it_and_nanoseconds_above() -> None:
    made = rows(at=pa.array([-1], pa.timestamp("us", "UTC")))
    message = message_class(compiled(FLIGHT), "Flight")()
    message.ParseFromString(encoded(made)[0])
    assert (message.at.seconds, message.at.nanos) == (-1, 999_999_000)


def test_an_enum_s_number_without_a_name_is_written_as_its_digits_were_read() -> None:
    made = rows(kind=pa.array(["CARGO", "17", None, "-1"]))
    schema = parse_protobuf([FLIGHT])
    again = ProtobufDecoder(schema).decode(pa.array(encoded(made), pa.binary()))
    assert again.field("kind").to_pylist() == ["CARGO", "17", "NONE", "-1"]


def test_fields_that_the_rows_do_not_have_are_left_out() -> None:
    assert encoded(rows(delays=pa.array([[1, -1], []], pa.list_(pa.int32())))) == [b"\x1a\2\2\1", b""]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (rows(id=pa.array([-1], pa.int64())), "id: Integer value -1 not in range"),
        (rows(id=pa.array([2**32], pa.int64())), "id: Integer value 4294967296 not in range"),
        (rows(kind=pa.array(["CARGO", "BUS"])), "kind: no name of the enum, and no number of 32 bits: "),
        (
            rows(miles=pa.array([[("a", None)]], pa.map_(pa.string(), pa.decimal128(20, 0)))),
            "row 0: miles has a null in its list or map",
        ),
        (rows(delays=pa.array([[1], [2, None]], pa.list_(pa.int32()))), "row 1: delays has a null in its list or map"),
        (
            rows(city=pa.array(["a", "b"]), code=pa.array([None, 1], pa.int32())),
            "row 1: several fields of the oneof place are not null",
        ),
    ],
)
def test_values_without_a_place_are_refused_with_their_field(made: pa.Array, told: str) -> None:
    with pytest.raises(ValueError, match=r".*") as caught:
        encoded(made)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (pa.string(), "the schema has message Flight, and the rows have string"),
        (pa.struct([("gate", pa.string())]), "message Flight has no field 'gate', and the rows have one"),
        (pa.struct([("id", pa.float64())]), "the schema has uint32 at id, and the rows have double"),
        (pa.struct([("delays", pa.int32())]), "the schema has a list of sint32 at delays"),
        (pa.struct([("miles", pa.string())]), "the schema has a map at miles"),
        (pa.struct([("at", pa.int64())]), "the schema has a timestamp at at"),
        (pa.struct([("kind", pa.int32())]), "the schema has enum Flight.Kind at kind"),
    ],
)
def test_rows_that_the_message_has_no_room_for_are_refused(kind: pa.DataType, told: str) -> None:
    with pytest.raises(ValueError, match=r".*") as caught:
        ProtobufEncoder(parse_protobuf([FLIGHT]), kind)
    assert told in str(caught.value)


def test_what_stands_below_a_null_is_not_looked_at() -> None:
    """Arrow puts empty texts and zeros there."""
    schema = parse_protobuf([FLIGHT], "Flight")
    kind = pa.struct([("kind", pa.string()), ("city", pa.string()), ("code", pa.int32())])
    rows = pa.array([{"kind": "CARGO", "city": "Oslo", "code": None}, None], kind)
    below = [pa.array(["CARGO", ""]), pa.array(["Oslo", ""]), pa.array([None, 0], pa.int32())]
    rows = pa.StructArray.from_arrays(below, fields=list(kind), mask=rows.is_null())
    again = ProtobufDecoder(schema).decode(ProtobufEncoder(schema, kind).encode(rows)).to_pylist()
    assert (again[0]["kind"], again[0]["city"], again[1]) == ("CARGO", "Oslo", None)


def test_of_a_slice_only_its_own_elements_are_encoded() -> None:
    """A batch whose records are too large is encoded by halves, down to one row."""
    text = """
    syntax = "proto3";
    message Day { repeated Leg legs = 1; map<string, Leg> by_name = 2; }
    message Leg { string to = 1; repeated int64 delays = 2; }
    """
    schema = parse_protobuf([text], "Day")
    legs = [{"to": f"to {number}", "delays": list(range(number))} for number in range(20)]
    days = [
        {"legs": legs[: number % 7], "by_name": [(leg["to"], leg) for leg in legs[number : number + 2]]}
        for number in range(9)
    ]
    kind = ProtobufDecoder(schema).decode(pa.array([b""], pa.binary())).type
    rows = pa.array([*days, None, *days], kind)
    encoder = ProtobufEncoder(schema, kind)
    for first in range(len(rows)):
        part = rows.slice(first, 3)
        assert ProtobufDecoder(schema).decode(encoder.encode(part)).to_pylist() == part.to_pylist()
    large = pa.array([{"legs": [{"to": "x" * 1000, "delays": []}] * 1000, "by_name": []}, days[1]], kind)
    assert len(encoder.encode(large.slice(1))[0].as_py()) < 1000


def test_each_name_of_an_enum_s_number_can_be_written_and_the_first_is_read() -> None:
    text = """
    syntax = "proto3";
    message Flight { Kind kind = 1; }
    enum Kind { option allow_alias = true; NONE = 0; FREIGHT = 3; CARGO = 3; EMPTY = 0; }
    """
    schema = parse_protobuf([text], "Flight")
    kind = pa.struct([("kind", pa.string())])
    rows = pa.array([{"kind": name} for name in ("CARGO", "FREIGHT", "NONE", "EMPTY")], kind)
    again = ProtobufDecoder(schema).decode(ProtobufEncoder(schema, kind).encode(rows)).to_pylist()
    assert [row["kind"] for row in again] == ["FREIGHT", "FREIGHT", "NONE", "NONE"]


def encoder_of(text: str, kind: pa.DataType) -> ProtobufEncoder:
    return ProtobufEncoder(parse_protobuf([text]), kind)


def test_a_text_that_is_no_utf8_is_refused_by_its_field() -> None:
    rows = pa.StructArray.from_arrays([pa.array([b"\xff"], pa.binary()).view(pa.string())], ["user"])
    with pytest.raises(ValueError, match="user: a text is no UTF-8"):
        encoder_of('syntax = "proto3"; message M { string user = 1; }', rows.type).encode(rows)


REQUIRED = [
    'syntax = "proto2"; message M { required int32 id = 1; optional string n = 2; }',
    'edition = "2023"; message M { int32 id = 1 [features.field_presence = LEGACY_REQUIRED]; string n = 2; }',
]


@pytest.mark.parametrize("text", REQUIRED)
def test_a_required_field_is_there_or_the_row_is_refused(text: str) -> None:
    """Readers in other languages refuse the record."""
    for schema in (parse_protobuf([text]), schema_of_text(parse_protobuf([text]).text())):
        with pytest.raises(ValueError, match="message M has a required field 'id', and the rows have none"):
            ProtobufEncoder(schema, pa.struct([("n", pa.string())]))
        rows = pa.array([{"id": 0}, None, {"id": None}], pa.struct([("id", pa.int32())]))
        encoder = ProtobufEncoder(schema, rows.type)
        assert encoder.encode(rows[:2]).to_pylist() == [b"\x08\x00", None]
        with pytest.raises(ValueError, match="row 2: id is null, and it is required"):
            encoder.encode(rows)


def test_a_required_message_without_fields_is_not_false() -> None:
    text = 'syntax = "proto2"; message M { required Nothing n = 1; } message Nothing {}'
    kind = pa.struct([("n", pa.bool_())])
    encoder = encoder_of(text, kind)
    assert encoder.encode(pa.array([{"n": True}], kind)).to_pylist() == [b"\x0a\x00"]
    with pytest.raises(ValueError, match="row 0: n is null, and it is required"):
        encoder.encode(pa.array([{"n": False}], kind))


def test_two_columns_of_one_name_are_refused() -> None:
    rows = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["id", "id"])
    with pytest.raises(ValueError, match="the rows have two fields of one name"):
        encoder_of('syntax = "proto3"; message M { int64 id = 1; }', rows.type)


def test_a_map_of_messages_without_fields_has_no_false_one() -> None:
    text = 'syntax = "proto3"; message Nothing {} message M { map<string, Nothing> m = 1; }'
    kind = pa.struct([("m", pa.map_(pa.string(), pa.bool_()))])
    schema = parse_protobuf([text], "M")
    encoder = ProtobufEncoder(schema, kind)
    assert encoder.encode(pa.array([{"m": [("a", True)]}], kind)).to_pylist() == [b"\x0a\x05\x0a\x01a\x12\x00"]
    with pytest.raises(ValueError, match="m has a null in its list or map"):
        encoder.encode(pa.array([{"m": [("a", False)]}], kind))
