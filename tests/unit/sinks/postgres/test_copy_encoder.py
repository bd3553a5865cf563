"""The encoder against psycopg's own reading of the binary COPY format; no server needed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import Format

from directkafka.errors import RowRejectedError
from directkafka.sinks.postgres.copy_encoder import CHUNK_BYTES, RowEncoder
from directkafka.sinks.postgres.copy_format import Wire, WireColumn

OIDS = {
    Wire.BOOL: "bool", Wire.INT2: "int2", Wire.INT4: "int4", Wire.INT8: "int8", Wire.FLOAT4: "float4",
    Wire.FLOAT8: "float8", Wire.TIMESTAMP: "timestamp", Wire.DATE: "date", Wire.UUID: "uuid",
    Wire.NUMERIC: "numeric", Wire.TEXT: "text", Wire.BYTEA: "bytea", Wire.JSONB: "jsonb", Wire.TIME: "time",
    Wire.INTERVAL: "interval",
}  # fmt: skip

_WIDE = Context(prec=60)
EPOCH = datetime(1970, 1, 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def for_all(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """``given`` without a deadline: the first call in a process loads the kernels."""
    return lambda test: settings(deadline=None)(given(*strategies)(test))


def encoder(*wires: Wire, attempt: bytes = b"") -> RowEncoder:
    columns = tuple(WireColumn(name=f"c{i}", wire=wire) for i, wire in enumerate(wires))
    return RowEncoder(columns=columns, store="postgres here", sink="flights", attempt=attempt)


def encode(arrays: list[pa.Array], *wires: Wire, attempt: bytes = b"") -> bytes:
    batch = pa.record_batch(arrays, names=[f"c{i}" for i in range(len(arrays))])
    return b"".join(bytes(chunk) for chunk in encoder(*wires, attempt=attempt).chunks(batch))


def decode(data: bytes, *types: str) -> list[tuple[Any, ...]]:
    """Rows as psycopg understands them."""
    transformer = Transformer()
    oids = [psycopg.adapters.types.get_oid(name) for name in types]
    transformer.set_loader_types(oids, Format.BINARY)
    rows, position = [], 0
    while position < len(data):
        count = int.from_bytes(data[position : position + 2], "big")
        assert count == len(types)
        position += 2
        fields: list[bytes | None] = []
        for _ in range(count):
            length = int.from_bytes(data[position : position + 4], "big", signed=True)
            position += 4
            fields.append(None if length < 0 else data[position : position + length])
            position += max(length, 0)
        rows.append(transformer.load_sequence(fields))
    return rows


def round_trip(array: pa.Array, wire: Wire) -> list[Any]:
    return [value for (value,) in decode(encode([array], wire), OIDS[wire])]


@for_all(st.lists(st.tuples(st.none() | INT64, st.none() | TEXT, st.none() | st.booleans()), max_size=50))
def test_rows_of_several_columns_come_back(rows: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = (pa.int64(), pa.string(), pa.bool_())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    data = encode(arrays, Wire.INT8, Wire.TEXT, Wire.BOOL)
    assert decode(data, "int8", "text", "bool") == rows


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        (pa.int8(), Wire.INT2), (pa.int16(), Wire.INT4), (pa.int32(), Wire.INT8), (pa.uint8(), Wire.INT2),
        (pa.uint16(), Wire.INT4), (pa.uint32(), Wire.INT8), (pa.int32(), Wire.NUMERIC),
        (pa.int64(), Wire.NUMERIC), (pa.uint64(), Wire.NUMERIC), (pa.int16(), Wire.FLOAT4),
        (pa.int32(), Wire.FLOAT8),
    ],
)  # fmt: skip
def test_integers_are_widened_to_the_column(kind: pa.DataType, wire: Wire) -> None:
    bits = kind.bit_width - pa.types.is_signed_integer(kind)
    low = -(2**bits) if pa.types.is_signed_integer(kind) else 0
    values = [low, None, 0, 1, 2**bits - 1]
    assert round_trip(pa.array(values, kind), wire) == values


@for_all(st.lists(st.none() | st.floats(allow_nan=False)))
def test_doubles_come_back(values: list[float | None]) -> None:
    assert round_trip(pa.array(values, pa.float64()), Wire.FLOAT8) == values


@for_all(st.lists(st.none() | st.floats(width=32, allow_nan=False)))
def test_floats_come_back_in_both_widths(values: list[float | None]) -> None:
    array = pa.array(values, pa.float32())
    assert round_trip(array, Wire.FLOAT4) == values
    assert round_trip(array, Wire.FLOAT8) == values


@for_all(st.integers(0, 38).flatmap(lambda scale: st.tuples(st.just(scale), st.lists(
    st.none() | st.integers(-(10**38) + 1, 10**38 - 1)))))  # fmt: skip
def test_decimals_of_every_scale_come_back(drawn: tuple[int, list[int | None]]) -> None:
    scale, unscaled = drawn
    values = [None if number is None else Decimal(number).scaleb(-scale, _WIDE) for number in unscaled]
    decimals = round_trip(pa.array(values, pa.decimal128(38, scale)), Wire.NUMERIC)
    assert decimals == values
    assert all(decimal is None or -decimal.as_tuple().exponent == scale for decimal in decimals)


@pytest.mark.parametrize("text", ["0", "1", "-1", "9999", "10000", "0.0001", "0.00001", "1234567.89", "-0.5"])
def test_decimals_at_the_borders_of_digit_groups(text: str) -> None:
    value = Decimal(text)
    scale = max(0, -int(value.as_tuple().exponent))
    for more in range(4):
        array = pa.array([value], pa.decimal128(20, scale + more))
        assert round_trip(array, Wire.NUMERIC) == [value]


@for_all(st.lists(st.none() | st.datetimes()))
def test_local_times_come_back(values: list[datetime | None]) -> None:
    assert round_trip(pa.array(values, pa.timestamp("us")), Wire.TIMESTAMP) == values


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_of_every_unit_are_instants(unit: str, zone: str | None) -> None:
    moment = datetime(1999, 12, 31, 23, 59, 59)
    array = pa.array([int((moment - EPOCH).total_seconds())], pa.int64())
    array = array.cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    if zone:
        array = array.cast(pa.int64()).cast(pa.timestamp(unit, zone))
    assert round_trip(array, Wire.TIMESTAMP) == [moment]


@for_all(st.lists(st.none() | st.dates()))
def test_dates_come_back(values: list[date | None]) -> None:
    assert round_trip(pa.array(values, pa.date32()), Wire.DATE) == values


@for_all(st.lists(st.none() | st.binary()))
def test_bytes_come_back_from_every_layout(values: list[bytes | None]) -> None:
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert round_trip(pa.array(values, kind), Wire.BYTEA) == values


@for_all(st.lists(st.none() | TEXT))
def test_texts_come_back_from_every_layout(values: list[str | None]) -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        assert round_trip(pa.array(values, kind), Wire.TEXT) == values


@for_all(st.lists(st.none() | st.uuids()))
def test_uuids_come_back_from_text_and_from_bytes(values: list[uuid.UUID | None]) -> None:
    texts = pa.array([None if identifier is None else str(identifier) for identifier in values], pa.string())
    raw = pa.array([None if identifier is None else identifier.bytes for identifier in values], pa.binary(16))
    assert round_trip(texts, Wire.UUID) == values
    assert round_trip(raw, Wire.UUID) == values


@pytest.mark.parametrize("text", ["", "x", "-", "{}", "----", "0" * 31, "0" * 33, "g" * 32])
def test_a_text_that_is_no_uuid_is_refused_by_row(text: str) -> None:
    array = pa.array([str(uuid.uuid4()), None, text])
    with pytest.raises(RowRejectedError, match=r"column 'c0'.*row 2 of 3"):
        encode([array], Wire.UUID)


@for_all(st.lists(st.none() | TEXT, min_size=1), st.data())
def test_a_slice_encodes_as_its_own_rows(values: list[str | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    count = data.draw(st.integers(0, len(values) - start))
    texts = pa.array(values, pa.string()).slice(start, count)
    numbers = pa.array([None if text is None else len(text) for text in values], pa.int32()).slice(start, count)
    flags = pa.array([None if text is None else bool(text) for text in values], pa.bool_()).slice(start, count)
    rows = decode(encode([texts, numbers, flags], Wire.TEXT, Wire.INT4, Wire.BOOL), "text", "int4", "bool")
    wanted = [(text, None, None) if text is None else (text, len(text), bool(text)) for text in values]
    assert rows == wanted[start : start + count]


def test_every_row_of_a_staging_table_carries_the_attempt() -> None:
    attempt = uuid.uuid4()
    data = encode([pa.array([1, None, 3])], Wire.INT8, attempt=attempt.bytes)
    assert decode(data, "int8", "uuid") == [(1, attempt), (None, attempt), (3, attempt)]


def test_large_batches_leave_in_bounded_chunks() -> None:
    rows = 100_000
    batch = pa.record_batch([pa.array(["x" * 100] * rows)], names=["c0"])
    sizes = [len(chunk) for chunk in encoder(Wire.TEXT).chunks(batch)]
    assert sum(sizes) == rows * (2 + 4 + 100)
    assert len(sizes) > 10
    assert max(sizes) <= CHUNK_BYTES * 1.1


def test_a_text_with_a_nul_names_column_and_kafka_position() -> None:
    batch = pa.record_batch(
        {
            "topic": ["flights"] * 3,
            "partition": [1, 1, 1],
            "offset": [10, 11, 12],
            "carrier": ["AA", None, "U\0A"],
        }
    )
    columns = (WireColumn(name="carrier", wire=Wire.TEXT),)
    refusing = RowEncoder(columns=columns, store="postgres here", sink="flights")
    with pytest.raises(RowRejectedError, match=r"'carrier'.*NUL.*topic flights, partition 1, offset 12"):
        list(refusing.chunks(batch))


@pytest.mark.parametrize("text", ['{"a":"\\u0000"}', '{"a":"x\\u0000"}', '"\\\\\\u0000"'])
def test_a_json_text_with_a_nul_names_column_and_row(text: str) -> None:
    array = pa.array(["{}", None, text, text])
    with pytest.raises(RowRejectedError, match=r"'c0': a JSON text with a NUL \(\\u0000\).*row 2 of 4"):
        encode([array], Wire.JSONB)


@pytest.mark.parametrize("text", ['"\\\\u0000"', '"\\u0001"', '"u0000"'])
def test_a_backslash_before_the_letters_is_no_nul(text: str) -> None:
    # The format's version, and the text as it came.
    assert b"\x01" + text.encode() in encode([pa.array([text])], Wire.JSONB)


def test_a_nul_under_a_null_is_nobodys() -> None:
    """Arrow may leave anything in a null's slot."""
    data, offsets = pa.py_buffer(b"a\0b"), pa.py_buffer(b"".join(i.to_bytes(4, "little") for i in (0, 1, 2, 3)))
    validity = pa.py_buffer(bytes([0b101]))
    array = pa.StringArray.from_buffers(3, offsets, data, validity)
    assert round_trip(array, Wire.TEXT) == ["a", None, "b"]


def test_a_bytes_column_may_hold_nul() -> None:
    assert round_trip(pa.array([b"a\0b"]), Wire.BYTEA) == [b"a\0b"]


def test_an_instant_before_postgres_calendar_is_refused_not_wrapped() -> None:
    array = pa.array([0, -(2**63)], pa.int64()).cast(pa.timestamp("us"))
    with pytest.raises(RowRejectedError, match=r"before the first date.*row 1 of 2"):
        encode([array], Wire.TIMESTAMP)


def test_rows_from_read_only_memory_encode_the_same() -> None:
    """What comes over the wire as Arrow IPC lies in immutable bytes."""
    identifier = uuid.uuid4()
    values: dict[Wire, tuple[pa.Array, Any]] = {
        Wire.INT8: (pa.array([1, None]), 1),
        Wire.NUMERIC: (pa.array([Decimal("-1.50"), None]), Decimal("-1.50")),
        Wire.TEXT: (pa.array(["a", None], pa.large_string()), "a"),
        Wire.UUID: (pa.array([str(identifier), None], pa.large_string()), identifier),
        Wire.TIMESTAMP: (pa.array([EPOCH, None], pa.timestamp("us")), EPOCH),
        Wire.BOOL: (pa.array([True, None]), True),
    }
    table = pa.table({f"c{i}": array for i, (array, _) in enumerate(values.values())})
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    (batch,) = pa.ipc.open_stream(stream.getvalue().to_pybytes())
    data = encode(batch.columns, *values)
    wanted = tuple(value for _, value in values.values())
    assert decode(data, *(OIDS[wire] for wire in values)) == [wanted, (None,) * len(values)]


def test_an_empty_batch_encodes_as_nothing() -> None:
    assert encode([pa.array([], pa.int64())], Wire.INT8) == b""
