"""Columns that a store has as JSON."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from directkafka.errors import SchemaMismatchError
from directkafka.pipeline.execution.output_writer import schema_for
from directkafka.sinks.databases import is_json
from directkafka.sinks.embedded.duckdb import DuckDBSink
from directkafka.sinks.embedded.sqlite import SQLiteSink


def columns(key: pa.DataType) -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("tags", pa.map_(key, pa.string()))])


def test_a_map_that_cannot_be_json_is_refused_before_a_row_is_written(tmp_path: Path) -> None:
    sink = SQLiteSink(tmp_path / "flights.db", "flights")
    with pytest.raises(SchemaMismatchError, match=r"flights at sqlite.*'tags'.*keys of type date32"):
        schema_for(sink, columns(pa.date32()))
    assert [field.name for field in schema_for(sink, columns(pa.string())) if is_json(field)] == ["tags"]


def test_a_store_that_has_maps_keeps_them_whatever_their_keys(tmp_path: Path) -> None:
    kept = schema_for(DuckDBSink(tmp_path / "flights.duckdb", "flights"), columns(pa.date32()))
    assert pa.types.is_map(kept.field("tags").type)
