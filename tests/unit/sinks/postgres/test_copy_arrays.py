"""Arrays, JSON, times and lengths of time in the binary COPY format, read back by psycopg."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sinks.postgres.test_copy_encoder import decode, encode

from directkafka.errors import RowRejectedError
from directkafka.sinks.postgres.copy_encoder import RowEncoder
from directkafka.sinks.postgres.copy_format import Wire, WireColumn

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
#: Element type in Postgres, wire, Arrow's type, values.
ELEMENTS: dict[str, tuple[Wire, pa.DataType, st.SearchStrategy[Any]]] = {
    "int2": (Wire.INT2, pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int4": (Wire.INT4, pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int8": (Wire.INT8, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float8": (Wire.FLOAT8, pa.float64(), st.floats(allow_nan=False)),
    "bool": (Wire.BOOL, pa.bool_(), st.booleans()),
    "text": (Wire.TEXT, pa.string(), TEXT),
    "bytea": (Wire.BYTEA, pa.binary(), st.binary(max_size=5)),
    "numeric": (Wire.NUMERIC, pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    "date": (Wire.DATE, pa.date32(), st.dates()),
    "timestamp": (Wire.TIMESTAMP, pa.timestamp("us"), st.datetimes()),
}


def encoded(array: pa.Array, wire: Wire, element_type: str) -> bytes:
    column = WireColumn(name="c0", wire=wire, array_of=psycopg.adapters.types[element_type].oid)
    encoder = RowEncoder(columns=(column,), store="postgres here", sink="flights")
    return b"".join(bytes(chunk) for chunk in encoder.chunks(pa.record_batch([array], names=["c0"])))


def column_of(data: bytes, type_name: str) -> list[Any]:
    return [value for (value,) in decode(data, type_name)]


@pytest.mark.parametrize("element_type", ELEMENTS)
@pytest.mark.parametrize("layout", [pa.list_, pa.large_list], ids=["list", "large list"])
def test_arrays_of_every_element_type_come_back(element_type: str, layout: Any) -> None:
    wire, kind, values = ELEMENTS[element_type]

    @settings(deadline=None, max_examples=30)
    @given(st.lists(st.none() | st.lists(st.none() | values, max_size=4), max_size=6), st.data())
    def comes_back(rows: list[list[Any] | None], data: st.DataObject) -> None:
        array = pa.array(rows, layout(kind))
        start = data.draw(st.integers(0, len(rows)))
        decoded_rows = decode_arrays(encoded(array.slice(start), wire, element_type), element_type)
        assert decoded_rows == rows[start:]

    comes_back()


def decode_arrays(data: bytes, element_type: str) -> list[Any]:
    return column_of(data, f"{element_type}[]")


def test_a_fixed_size_list_is_an_array() -> None:
    array = pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2))
    assert decode_arrays(encoded(array, Wire.INT4, "int4"), "int4") == [[1, 2], None, [3, None]]


def test_elements_under_a_null_list_are_nobody_s() -> None:
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 3]), pa.array(["a", "b\0", "c"]), mask=pa.array([True, False]))
    with_nul = encoded(hidden.slice(1), Wire.TEXT, "text")
    assert decode_arrays(with_nul, "text") == [["c"]]


def test_an_element_that_postgres_cannot_hold_is_told_of_its_row() -> None:
    array = pa.array([["a"], [], ["b", "c\0"], ["d"]])
    with pytest.raises(RowRejectedError, match=r"column 'c0': in one of its elements a text with a NUL .*row 2 of 4"):
        encoded(array, Wire.TEXT, "text")


@settings(deadline=None)
@given(st.lists(st.none() | st.dictionaries(TEXT, st.integers() | TEXT, max_size=3), max_size=5))
def test_json_comes_back(values: list[dict[str, Any] | None]) -> None:
    array = pa.array([None if document is None else json.dumps(document) for document in values], pa.string())
    assert column_of(encode([array], Wire.JSONB), "jsonb") == values


@settings(deadline=None)
@given(st.lists(st.none() | st.times(), max_size=5))
def test_times_of_day_come_back(values: list[time | None]) -> None:
    assert column_of(encode([pa.array(values, pa.time64("us"))], Wire.TIME), "time") == values


@settings(deadline=None)
@given(st.lists(st.none() | st.timedeltas(timedelta(days=-9999), timedelta(days=9999)), max_size=5))
def test_lengths_of_time_come_back(values: list[timedelta | None]) -> None:
    assert column_of(encode([pa.array(values, pa.duration("us"))], Wire.INTERVAL), "interval") == values


def test_coarser_times_are_microseconds() -> None:
    seconds = pa.array([time(1, 2, 3)], pa.time32("s"))
    assert column_of(encode([seconds], Wire.TIME), "time") == [time(1, 2, 3)]
    milliseconds = pa.array([timedelta(milliseconds=5)], pa.duration("ms"))
    assert column_of(encode([milliseconds], Wire.INTERVAL), "interval") == [timedelta(milliseconds=5)]


def test_an_array_stands_among_other_columns() -> None:
    columns = (
        WireColumn(name="id", wire=Wire.INT8),
        WireColumn(name="fares", wire=Wire.NUMERIC, array_of=psycopg.adapters.types["numeric"].oid),
        WireColumn(name="day", wire=Wire.DATE),
    )
    batch = pa.record_batch(
        {
            "id": [1, 2],
            "fares": pa.array([[Decimal("1.50"), None], []], pa.list_(pa.decimal128(5, 2))),
            "day": pa.array([date(2013, 1, 1), None]),
        }
    )
    encoder = RowEncoder(columns=columns, store="postgres here", sink="flights")
    data = b"".join(bytes(chunk) for chunk in encoder.chunks(batch))
    assert decode(data, "int8", "numeric[]", "date") == [
        (1, [Decimal("1.50"), None], date(2013, 1, 1)), (2, [], None),
    ]  # fmt: skip


def test_timestamps_before_the_calendar_are_refused_inside_arrays_too() -> None:
    array = pa.array([[datetime(2013, 1, 1)], [-(2**63) + 1]], pa.list_(pa.timestamp("us")))
    with pytest.raises(RowRejectedError, match=r"in one of its elements before the first date .*row 1 of 2"):
        encoded(array, Wire.TIMESTAMP, "timestamp")
