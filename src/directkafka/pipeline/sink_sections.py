"""``[[sink]]`` in the pipeline file: one model for each type of store, and the sink that it stands for."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from directkafka.stores.base import Sink

__all__ = ["SINK_SECTIONS", "AnySinkSection", "Section", "SinkSection"]


class Section(BaseModel):
    """A table of the file: names that are not here are refused, values are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SinkSection(Section):
    """One output into one table, topic or folder."""

    type: str = Field(description="The kind of store.")
    source_output: str = Field(default="default", alias="from", description="Which of the transform's named outputs.")

    @abstractmethod
    def build(self) -> Sink:
        """The sink. Its module is imported here, so that a file needs the packages of its own sinks only."""


class TableSection(SinkSection):
    """What all sinks into tables have."""

    table: str = Field(min_length=1, description="The table's name; created when it does not exist.")
    mode: Literal["append", "ignore", "upsert", "merge", "replace"] = Field(
        default="append", description="How rows meet existing rows."
    )
    key: list[str] | None = Field(default=None, description="Key columns, for ignore, upsert and merge.")
    add: list[str] | None = Field(default=None, description="Columns that merge adds up.")
    order: list[str] | None = Field(
        default=None, description="Columns that say which of two rows of a key is the newer one, for upsert."
    )
    schema_policy: Literal["fail", "add-columns"] = Field(
        default="fail", description="What to do with a column that the table lacks."
    )
    inline_bytes_max: int = Field(
        default=64 * 1024 * 1024, ge=0, description="Bytes of a batch that go through the driver; more is staged."
    )

    def _options(self, *names: str) -> dict[str, Any]:
        """Arguments of the sink that have the names of this section."""
        shared = ("mode", "key", "add", "order", "schema_policy", "inline_bytes_max")
        return {name: getattr(self, name) for name in (*shared, *names)}


class PostgresSection(TableSection):
    """Rows into one table of a Postgres database; `table` may be `schema.table`."""

    type: Literal["postgres"]
    dsn: str = Field(repr=False, description="libpq connection string or URL.")
    connections_max: int = Field(default=8, ge=1, description="How many tasks may write at a time.")
    staging_schema: str | None = Field(
        default=None, min_length=1, description="Schema for staging tables; the table's own by default."
    )

    def build(self) -> Sink:
        """A :class:`~directkafka.sinks.postgres.PostgresSink`."""
        from directkafka.sinks.postgres import PostgresSink

        return PostgresSink(self.dsn, self.table, **self._options("connections_max", "staging_schema"))


class FileSection(TableSection):
    """What the sinks into a database file have."""

    path: str = Field(min_length=1, description="The database file; created when it does not exist.")
    staging: str | None = Field(
        default=None,
        min_length=1,
        description="Folder for large batches, shared by driver and executors; beside the file by default.",
    )


class SQLiteSection(FileSection):
    """Rows into one table of an SQLite file."""

    type: Literal["sqlite"]

    def build(self) -> Sink:
        """A :class:`~directkafka.sinks.sqlite.SQLiteSink`."""
        from directkafka.sinks.sqlite import SQLiteSink

        return SQLiteSink(self.path, self.table, **self._options("staging"))


class DuckDBSection(FileSection):
    """Rows into one table of a DuckDB file; `table` may be `schema.table`."""

    type: Literal["duckdb"]

    def build(self) -> Sink:
        """A :class:`~directkafka.sinks.duckdb.DuckDBSink`."""
        from directkafka.sinks.duckdb import DuckDBSink

        return DuckDBSink(self.path, self.table, **self._options("staging"))


#: Type of store to its section, in the order of the documentation.
SINK_SECTIONS: dict[str, type[SinkSection]] = {
    "postgres": PostgresSection,
    "sqlite": SQLiteSection,
    "duckdb": DuckDBSection,
}

AnySinkSection = Annotated[PostgresSection | SQLiteSection | DuckDBSection, Field(discriminator="type")]
