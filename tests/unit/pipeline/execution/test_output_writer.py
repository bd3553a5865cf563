"""Columns as a sink wants them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DateType, LongType, MapType, StringType, StructType

from directkafka.errors import SchemaMismatchError
from directkafka.pipeline.execution.output_writer import wanted_schema
from directkafka.sinks.databases import is_json
from directkafka.sinks.embedded.duckdb import DuckDBSink
from directkafka.sinks.embedded.sqlite import SQLiteSink


def frame(key: Any) -> Any:
    return SimpleNamespace(schema=StructType().add("id", LongType()).add("tags", MapType(key, StringType())))


def test_a_map_that_cannot_be_json_is_refused_before_a_row_is_written(tmp_path: Path) -> None:
    sink = SQLiteSink(tmp_path / "flights.db", "flights")
    with pytest.raises(SchemaMismatchError, match=r"flights at sqlite.*'tags'.*keys of type date32"):
        wanted_schema(sink, frame(DateType()))
    assert [field.name for field in wanted_schema(sink, frame(StringType())) if is_json(field)] == ["tags"]


def test_a_store_that_has_maps_keeps_them_whatever_their_keys(tmp_path: Path) -> None:
    kept = wanted_schema(DuckDBSink(tmp_path / "flights.duckdb", "flights"), frame(DateType()))
    assert pa.types.is_map(kept.field("tags").type)
