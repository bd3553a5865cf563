"""Encoding Avro: read back by fastavro and by our decoder, on random schemas; what a schema has no room for."""

from __future__ import annotations

import io
import json
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.avro_records import Schemas, plain, written

from directkafka.options.schemas.avro import parse_schema
from directkafka.payloads.avro.decoder import AvroDecoder
from directkafka.payloads.avro.encoder import AvroEncoder
from directkafka.payloads.kernels import written as written_module
from directkafka.payloads.kernels.written import TooManyBytesError


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def encoded(schema: Any, rows: pa.Array, prefix: bytes = b"") -> list[bytes | None]:
    records: list[bytes | None] = (
        AvroEncoder(parse_schema(json.dumps(schema)), rows.type, prefix=prefix).encode(rows).to_pylist()
    )
    return records


def read(schema: Any, raw: bytes | None) -> Any:
    """As fastavro reads it; nothing may be left behind it."""
    assert raw is not None
    stream = io.BytesIO(raw)
    row = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.read() == b""
    return row


@pytest.mark.parametrize("seed", range(40))
def test_what_is_decoded_and_encoded_is_read_as_it_was(seed: int) -> None:
    """In one piece, in slices, and with nulls between."""
    schemas = Schemas(seed)
    schema = schemas.record()
    records = written(schema, [schemas.value(schema) for _ in range(30)])
    reader = parse_schema(json.dumps(schema))
    rows = AvroDecoder(reader).decode(pa.array([*records, None, *records[:3]], pa.binary()))
    encoder = AvroEncoder(reader, rows.type)
    for part in (rows, rows[7:19], rows[29:33]):
        again = encoder.encode(part)
        assert again.is_null().to_pylist() == part.is_null().to_pylist()
        assert repr(AvroDecoder(reader).decode(again).to_pylist()) == repr(part.to_pylist())
    for raw, value in zip(encoder.encode(rows).to_pylist()[:30], records, strict=True):
        assert repr(read(plain(schema), raw)) == repr(read(plain(schema), value))


def test_each_record_has_the_prefix_and_a_null_has_nothing() -> None:
    records = encoded(record(("a", "int")), pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())])), b"\0\0\0\0\7")
    assert records == [b"\0\0\0\0\7\2", None]


def test_records_may_be_no_structs() -> None:
    assert encoded("string", pa.array(["a", None, ""])) == [b"\2a", None, b"\0"]
    assert encoded(["null", "long"], pa.array([5, None])) == [b"\2\n", None]


def test_room_grows_with_the_rows() -> None:
    rows = pa.array(["x" * size for size in (1, 200_000, 3, 1_000_000)])
    assert [read("string", raw) for raw in encoded("string", rows)] == rows.to_pylist()


def test_a_small_batch_after_a_large_record_is_written() -> None:
    encoder = AvroEncoder(parse_schema('"string"'), pa.string())
    for size in (3_000_000, 1, 0, 70_000):
        rows = pa.array(["x" * size] * 3)
        assert [read("string", raw) for raw in encoder.encode(rows).to_pylist()] == rows.to_pylist()


def test_more_bytes_than_a_column_holds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_module, "_BYTES_MAX", 100_000)
    with pytest.raises(TooManyBytesError, match="the records of 3 rows have more than 2 GiB together"):
        encoded("string", pa.array(["x" * 50_000] * 3))


def test_values_that_a_slice_hides_are_no_mistakes() -> None:
    schema = record(("a", "int"), ("e", ENUM))
    kind = pa.struct([("a", pa.int64()), ("e", pa.string())])
    rows = pa.array([{"a": 2**40, "e": "A"}, {"a": 5, "e": "B"}, {"a": 6, "e": "?"}], kind)
    assert encoded(schema, rows[1:2]) == [b"\n\2"]


def test_narrow_numbers_widen_and_wide_ones_must_fit() -> None:
    kind = pa.struct([("a", pa.int8()), ("b", pa.float32()), ("c", pa.int64())])
    schema = record(("a", "long"), ("b", "double"), ("c", "int"))
    (raw,) = encoded(schema, pa.array([{"a": -7, "b": 1.5, "c": -(2**31)}], kind))
    assert read(schema, raw) == {"a": -7, "b": 1.5, "c": -(2**31)}
    with pytest.raises(ValueError, match="row 1: c does not fit its type"):
        encoded(schema, pa.array([{"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 0, "c": 2**31}], kind))


def test_a_uuid_in_16_bytes_is_a_text() -> None:
    schema = record(("id", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}))
    identifier = uuid.UUID("0123ABCD-4567-89ef-0000-fedcba987654")
    kind = pa.struct([("id", pa.string())])
    (raw,) = encoded(schema, pa.array([{"id": str(identifier)}], kind))
    assert raw == identifier.bytes
    with pytest.raises(ValueError, match="row 1: id has another length"):
        encoded(schema, pa.array([{"id": str(identifier)}, {"id": "0123"}], kind))


def test_times_before_1970_are_cut_downwards() -> None:
    schema = record(("at", {"type": "long", "logicalType": "timestamp-millis"}))
    rows = pa.array([{"at": -1}, {"at": -1_000}, {"at": 1_999}], pa.struct([("at", pa.int64())]))
    rows = rows.cast(pa.struct([("at", pa.timestamp("us", "UTC"))]))
    assert encoded(schema, rows) == [b"\1", b"\1", b"\2"]


@pytest.mark.parametrize(
    ("number", "raw"),
    [("0.00", b"\2\0"), ("-0.01", b"\2\xff"), ("1.27", b"\2\x7f"), ("1.28", b"\4\0\x80"), ("-1.28", b"\2\x80")],
)
def test_a_decimal_takes_as_few_bytes_as_it_can(number: str, raw: bytes) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    assert encoded(schema, pa.array([Decimal(number)], pa.decimal128(10, 2))) == [raw]


STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("schema", "kind", "told"),
    [
        (record(("a", "int")), STRUCT, "record R has no field 'b', and the rows have one"),
        (record(("a", "int"), ("b", "string"), ("c", "int")), STRUCT, "has a field 'c', and the rows have none"),
        (record(("a", "int"), ("b", "bytes")), STRUCT, "the schema has bytes at b, and the rows have string"),
        (record(("a", "int"), ("b", {"type": "array", "items": "int"})), STRUCT, "has array at b"),
        ("float", pa.float64(), "the schema has float, and the rows have double"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            pa.decimal128(5, 2),
            "decimal128(5, 2)",
        ),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us"), "the rows have timestamp[us]"),
        (["int", "string"], pa.int32(), "union of int, string"),
        # Of two alternatives that have the same type, the place alone would say which is meant.
        (["int", "string"], pa.struct([("x", pa.int32()), ("y", pa.string())]), "union of int, string"),
        (
            record(("a", "int"), ("b", "string")),
            pa.struct([("a", pa.int32()), ("a", pa.int32())]),
            "the rows have two fields of one name",
        ),
    ],
)
def test_rows_that_the_schema_has_no_room_for_are_refused(schema: Any, kind: pa.DataType, told: str) -> None:
    with pytest.raises(ValueError, match=r".*") as caught:
        AvroEncoder(parse_schema(json.dumps(schema)), kind)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "rows", "told"),
    [
        (record(("a", "int")), pa.array([{"a": None}], pa.struct([("a", pa.int32())])), "row 0: a is null, and"),
        (ENUM, pa.array(["A", "C"]), "row 1: the record is none of the enum's symbols"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"ab", b"abc"]), "row 1: the record has another length"),
        (
            ["int", "string"],
            pa.array([{"member0": 1, "member1": "a"}], pa.struct([("member0", pa.int32()), ("member1", pa.string())])),
            "has not one alternative of the union",
        ),
    ],
)
def test_values_without_an_encoding_are_refused_with_their_row(schema: Any, rows: pa.Array, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        encoded(schema, rows)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_text_that_is_no_utf8_is_refused_by_its_field(kind: pa.DataType) -> None:
    """Spark casts bytes to a string without a look, and no reader takes it."""
    texts = pa.array([b"ok", None, b"\xff"], pa.binary()).cast(
        pa.large_binary() if kind != pa.string() else pa.binary()
    )
    rows = pa.StructArray.from_arrays([texts.view(kind)], ["user"])
    schema = parse_schema('{"type":"record","name":"R","fields":[{"name":"user","type":["null","string"]}]}')
    encoder = AvroEncoder(schema, rows.type)
    assert encoder.encode(rows[:2]).to_pylist() == [b"\x02\x04ok", b"\x00"]
    with pytest.raises(ValueError, match="row 2: user is a text that is no UTF-8"):
        encoder.encode(rows)
    maps = pa.MapArray.from_arrays([0, 1], texts.view(kind)[2:], pa.array([1]))
    with pytest.raises(ValueError, match="no UTF-8"):
        AvroEncoder(parse_schema('{"type":"map","values":"long"}'), maps.type).encode(maps)
