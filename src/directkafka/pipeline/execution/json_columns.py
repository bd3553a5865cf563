"""Columns as a sink wants them: nested ones that its store has no types for become JSON, written by Spark's JVM."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from directkafka.errors import SchemaMismatchError
from directkafka.sinks.api import Sink
from directkafka.sinks.json_columns import is_json, key_problems, with_json

__all__ = ["arrow_schema", "wanted_schema", "with_json_texts"]

#: Spark would leave null fields out, and cut timestamps off at milliseconds.
_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]xxx",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """A frame's columns as its rows come to Python."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


def wanted_schema(sink: Sink, frame: DataFrame) -> pa.Schema:
    """The columns that the sink is to be given, with a mark on those that are JSON texts.

    Raises:
        SchemaMismatchError: a column to be JSON has a map whose keys have no form as texts.
    """
    schema = arrow_schema(frame)
    names = sink.json_columns(schema)
    if problems := key_problems(schema, names):
        raise SchemaMismatchError(store=sink.store.identity, sink=sink.name, detail="; ".join(problems))
    return with_json(schema, names)


def with_json_texts(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The frame with JSON in the place of the columns that :func:`wanted_schema` has marked."""
    names = [field.name for field in schema if is_json(field)]
    return frame.withColumns({name: f.to_json(f.col(f"`{name.replace('`', '``')}`"), _OPTIONS) for name in names})
