from __future__ import annotations

import datetime
import json
import math
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.payloads.json.java_texts import java_double
from directkafka.payloads.json.texts import can_be_json, json_objects, json_texts

NESTED = pa.schema(
    [
        ("whole", pa.int64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("list", pa.list_(pa.string())),
        ("struct", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))])),
        ("pairs", pa.map_(pa.string(), pa.int64())),
    ]
)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
inner = st.fixed_dictionaries({"c": st.none() | texts})
rows = st.fixed_dictionaries(
    {
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | texts,
        "flag": st.none() | st.booleans(),
        "list": st.none() | st.lists(st.none() | texts, max_size=3),
        "struct": st.none()
        | st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.lists(inner, max_size=2)}),
        "pairs": st.none()
        | st.dictionaries(texts, st.none() | st.integers(0, 9), max_size=3).map(lambda d: [*d.items()]),
    }
)


def told(value: Any) -> Any:
    """What JSON keeps of a row: members that are null are left out of objects."""
    if isinstance(value, dict):
        return {name: told(member) for name, member in value.items() if member is not None}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return [told(element) for element in value] if isinstance(value, list) else value


@given(st.lists(rows, min_size=1, max_size=5), st.integers(0, 4))
def test_rows_are_what_pythons_own_parser_reads(drawn_rows: list[dict[str, Any]], skipped: int) -> None:
    batch = pa.RecordBatch.from_pylist(drawn_rows, schema=NESTED).slice(skipped)
    lines = json_objects(batch).to_pylist()
    expected = [told(row) | ({"pairs": dict(row["pairs"])} if row["pairs"] is not None else {}) for row in drawn_rows]
    assert [json.loads(line) for line in lines] == expected[skipped:]
    assert not any("\n" in line or "\r" in line for line in lines)


def test_values_are_written_as_spark_writes_them() -> None:
    batch = pa.record_batch(
        {
            "double": [1.5],
            "odd": [math.nan],
            "high": [math.inf],
            "price": pa.array([Decimal("1.20")], pa.decimal128(10, 2)),
            "day": [datetime.date(1999, 12, 31)],
            "instant": pa.array([1], pa.timestamp("us", "UTC")),
            "local": pa.array([1], pa.timestamp("us")),
        }
    )
    assert json_objects(batch).to_pylist() == [
        '{"double":1.5,"odd":"NaN","high":"Infinity","price":1.20,"day":"1999-12-31",'
        '"instant":"1970-01-01T00:00:00.000001Z","local":"1970-01-01T00:00:00.000001"}'
    ]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()], ids=str)
def test_a_year_that_no_text_has_is_refused(kind: pa.DataType) -> None:
    """As of a producer that sends microseconds as milliseconds."""
    days = 60_000 * 365
    number = days if pa.types.is_date32(kind) else days * 86_400 * 10**6
    column = pa.array([number], pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    by_time = pa.MapArray.from_arrays([0, 1], column, pa.array([1]))
    for rows in (column, pa.StructArray.from_arrays([column], names=["at"]), by_time):
        with pytest.raises(pa.ArrowInvalid, match="is of a year that no text has"):
            json_texts(rows)


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (pa.binary(), False),
        (pa.list_(pa.binary()), False),
        (pa.struct([("a", pa.map_(pa.string(), pa.binary()))]), False),
        (pa.map_(pa.int64(), pa.list_(pa.bool_())), True),
        (pa.map_(pa.struct([("a", pa.int8())]), pa.int8()), False),
        (pa.duration("us"), False),
        (pa.null(), False),
    ],
)
def test_what_has_no_json_form_is_known_by_its_type(kind: pa.DataType, fits: bool) -> None:
    assert can_be_json(kind) is fits


@given(st.lists(st.none() | st.floats(), min_size=1, max_size=20))
def test_numbers_of_columns_are_written_as_java_writes_them(values: list[float | None]) -> None:
    written_texts = json_texts(pa.StructArray.from_arrays([pa.array(values, pa.float64())], ["a"])).to_pylist()
    normal = [number is None or not number or abs(number) >= sys.float_info.min for number in values]
    expected = ["null" if number is None else java_double(number) for number in values]
    assert [text for text, is_normal in zip(written_texts, normal, strict=True) if is_normal] == [
        f'{{"a":{text}}}' for text, is_normal in zip(expected, normal, strict=True) if is_normal
    ]
    assert [json.loads(text)["a"] for text in written_texts] == [
        number if number is None or math.isfinite(number) else java_double(number).strip('"') for number in values
    ]


def test_nested_columns_show_their_nulls_and_bytes_and_name_members_as_spark_does() -> None:
    kind = pa.struct(
        [("bytes", pa.binary()), ("at", pa.timestamp("us", "UTC")), ("by", pa.map_(pa.float64(), pa.int8()))]
    )
    column = pa.array([None, {}, {"bytes": b"\xff", "at": 0, "by": [(1e10, None), (math.nan, 1), (2.0, 2)]}], kind)
    assert json_texts(column).to_pylist() == [
        None,
        '{"bytes":null,"at":null,"by":null}',
        '{"bytes":"/w==","at":"1970-01-01T00:00:00.000000+00:00","by":{"1.0E10":null,"NaN":1,"2.0":2}}',
    ]


def test_a_text_that_is_no_utf8_is_written_as_spark_writes_it() -> None:
    texts = pa.array([b"a\xffb", "é".encode(), None], pa.binary()).view(pa.string())
    rows = pa.StructArray.from_arrays([texts], ["user"])
    assert json_texts(rows).to_pylist() == ['{"user":"a�b"}', '{"user":"é"}', '{"user":null}']
