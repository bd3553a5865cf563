"""Maps that become JSON: which keys may be names of an object's members, wherever the map is."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from directkafka.sinks.databases import json_problems

Nest = Callable[[pa.DataType], pa.DataType]

#: Where a map may be, and what the message calls the place.
PLACES: dict[str, Nest] = {
    "legs": lambda kind: kind,
    "legs.element": pa.list_,
    "legs.element.element": lambda kind: pa.list_(pa.list_(kind)),
    "legs.inner": lambda kind: pa.struct([("other", pa.int64()), ("inner", kind)]),
    "legs.value": lambda kind: pa.map_(pa.string(), kind),
    "legs.inner.element.value": lambda kind: pa.struct([("inner", pa.list_(pa.map_(pa.int32(), kind)))]),
}

NAMES = [pa.string(), pa.large_string(), pa.bool_(), pa.int8(), pa.int64(), pa.float64(), pa.decimal128(9, 2)]
ODD = [
    pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.binary(), pa.duration("us"),
    pa.struct([("a", pa.int64())]), pa.list_(pa.string()), pa.map_(pa.string(), pa.string()),
]  # fmt: skip


def told(kind: pa.DataType) -> list[str]:
    return json_problems(pa.schema({"id": pa.map_(pa.date32(), pa.string()), "legs": kind}), ["legs"])


@pytest.mark.parametrize("map_path", PLACES)
def test_odd_keys_are_told_by_column_place_and_type(map_path: str) -> None:
    for key in ODD:
        (problem,) = told(PLACES[map_path](pa.map_(key, pa.string())))
        assert problem.startswith(f"column 'legs' is to be JSON, and the map at {map_path} has keys of type {key},")


@pytest.mark.parametrize("map_path", PLACES)
def test_texts_numbers_and_truth_values_are_names(map_path: str) -> None:
    for key in NAMES:
        assert told(PLACES[map_path](pa.map_(key, pa.string()))) == []


def test_every_map_of_a_column_is_told() -> None:
    inner = pa.map_(pa.date32(), pa.string())
    assert len(told(pa.struct([("a", inner), ("b", pa.map_(pa.binary(), inner))]))) == 3
