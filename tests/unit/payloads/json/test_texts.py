from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.payloads.json.texts import can_be_json, json_objects

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
        return {name: told(one) for name, one in value.items() if one is not None}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return [told(one) for one in value] if isinstance(value, list) else value


@given(st.lists(rows, min_size=1, max_size=5), st.integers(0, 4))
def test_rows_are_what_pythons_own_parser_reads(found: list[dict[str, Any]], skipped: int) -> None:
    batch = pa.RecordBatch.from_pylist(found, schema=NESTED).slice(skipped)
    lines = json_objects(batch).to_pylist()
    expected = [told(row) | ({"pairs": dict(row["pairs"])} if row["pairs"] is not None else {}) for row in found]
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
