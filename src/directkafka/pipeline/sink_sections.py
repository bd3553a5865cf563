"""``[[sink]]`` in the pipeline file: one model for each type of store, and the sink that it stands for."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from directkafka.options.ledger_topics import NAME_PREFIX
from directkafka.sinks.api import Sink

__all__ = ["SINK_SECTIONS", "AnySinkSection", "Section", "SinkSection"]


#: Names of Kafka's own settings in a section.
_CLIENT = "kafka."


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
        """A :class:`~directkafka.sinks.postgres.sink.PostgresSink`."""
        from directkafka.sinks.postgres.sink import PostgresSink

        return PostgresSink(self.dsn, self.table, **self._options("connections_max", "staging_schema"))


class FileSection(TableSection):
    """What the sinks into a database file have."""

    path: str = Field(min_length=1, description="The database file; created when it does not exist.")
    staging: str | None = Field(
        default=None,
        min_length=1,
        description="Folder for large batches, shared by driver and executors; beside the file by default.",
    )
    lock_timeout_s: float = Field(
        default=10.0, gt=0, allow_inf_nan=False, description="Seconds to wait for another process that keeps the file."
    )


class SQLiteSection(FileSection):
    """Rows into one table of an SQLite file."""

    type: Literal["sqlite"]

    def build(self) -> Sink:
        """A :class:`~directkafka.sinks.embedded.sqlite.SQLiteSink`."""
        from directkafka.sinks.embedded.sqlite import SQLiteSink

        return SQLiteSink(self.path, self.table, **self._options("staging", "lock_timeout_s"))


class DuckDBSection(FileSection):
    """Rows into one table of a DuckDB file; `table` may be `schema.table`."""

    type: Literal["duckdb"]

    def build(self) -> Sink:
        """A :class:`~directkafka.sinks.embedded.duckdb.DuckDBSink`."""
        from directkafka.sinks.embedded.duckdb import DuckDBSink

        return DuckDBSink(self.path, self.table, **self._options("staging", "lock_timeout_s"))


class KafkaSection(SinkSection):
    """Records into Kafka topics; `"kafka.bootstrap.servers"` and other producer settings stand beside these names."""

    type: Literal["kafka"]
    topic: str | None = Field(
        default=None, min_length=1, description="Where all rows go; without it the column `topic` says."
    )
    inline_bytes_max: int = Field(
        default=64 * 1024 * 1024, ge=0, description="Bytes of a batch that the driver writes; more is written by tasks."
    )
    tasks_max: int | None = Field(default=None, ge=1, description="How many tasks write a large batch.")
    offsets_group: str | None = Field(
        default=None, min_length=1, description="Group that gets the source's offsets in the same transaction."
    )
    ledger_replicas: int | None = Field(
        default=None,
        ge=1,
        description="Replicas of the ledger's topic when it is made; as many as the cluster's log of transactions "
        "by default.",
    )
    accept_empty_ledger: str | None = Field(
        default=None,
        min_length=1,
        description="Id of the ledger's topic, where it is empty although the pipeline has run before and is to begin "
        "anew; the error that refuses it names the id.",
    )
    name_prefix: str = Field(
        default=NAME_PREFIX,
        min_length=1,
        description="Beginning of the ledger topic's and the transactional id's names.",
    )
    client: dict[str, str | int | bool] = Field(
        alias="kafka",
        repr=False,
        description='The producer\'s settings, each under its own name in quotes: "kafka.bootstrap.servers" = "...".',
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_client_settings(cls, section: Any) -> Any:
        if not isinstance(section, dict):
            return section
        settings = {name: value for name, value in section.items() if name.startswith(_CLIENT)}
        rest = {name: value for name, value in section.items() if name not in settings}
        gathered = {name.removeprefix(_CLIENT): value for name, value in settings.items()}
        if gathered and "kafka" in rest:
            raise ValueError('settings are written as "kafka.NAME" = ..., in quotes, or as a table, and not as both')
        return rest | ({"kafka": gathered} if gathered else {})

    def build(self) -> Sink:
        """A :class:`~directkafka.sinks.kafka.sink.KafkaSink`."""
        from directkafka.sinks.kafka.sink import KafkaSink

        return KafkaSink(
            self.client,
            self.topic,
            inline_bytes_max=self.inline_bytes_max,
            tasks_max=self.tasks_max,
            offsets_group=self.offsets_group,
            ledger_replicas=self.ledger_replicas,
            accept_empty_ledger=self.accept_empty_ledger,
            name_prefix=self.name_prefix,
        )


class DirectorySection(SinkSection):
    """What the sinks into files have."""

    path: str = Field(min_length=1, description="The directory; made when it does not exist.")
    mode: Literal["append"] = Field(default="append", description="Files are only ever added.")
    schema_policy: Literal["fail", "add-columns"] = Field(
        default="fail", description="What to do with a column that the table lacks."
    )
    durable: bool = Field(default=True, description="Sync files before a commit counts.")
    row_group_bytes: int = Field(default=64 * 1024 * 1024, ge=1, description="Size of a Parquet row group in memory.")


class ParquetSection(DirectorySection):
    """Files of one directory, of Parquet, JSON or text; `directkafka.read_parquet` reads what is committed."""

    type: Literal["parquet"]
    table: str | None = Field(
        default=None, min_length=1, description="A sub-folder, so that several tables change together."
    )
    format: Literal["parquet", "json", "text"] = Field(default="parquet", description="The files' form.")
    compression: Literal["zstd", "snappy", "lz4", "gzip", "none"] | None = Field(
        default=None, description="Of the files; zstd for Parquet and none for lines by default."
    )

    def build(self) -> Sink:
        """A :class:`~directkafka.sinks.files.sink.ParquetSink`."""
        from directkafka.sinks.files.sink import ParquetSink

        return ParquetSink(
            self.path, self.mode, table=self.table, format=self.format, compression=self.compression,
            row_group_bytes=self.row_group_bytes, schema_policy=self.schema_policy, durable=self.durable,
        )  # fmt: skip


class DeltaSection(DirectorySection):
    """One Delta table."""

    type: Literal["delta"]
    compression: Literal["zstd", "snappy", "lz4", "gzip", "none"] = Field(
        default="zstd", description="Of the table's files."
    )

    def build(self) -> Sink:
        """A :class:`~directkafka.sinks.delta.sink.DeltaSink`."""
        from directkafka.sinks.delta.sink import DeltaSink

        return DeltaSink(
            self.path, self.mode, compression=self.compression, row_group_bytes=self.row_group_bytes,
            schema_policy=self.schema_policy, durable=self.durable,
        )  # fmt: skip


#: Type of store to its section, in the order of the documentation.
SINK_SECTIONS: dict[str, type[SinkSection]] = {
    "postgres": PostgresSection,
    "sqlite": SQLiteSection,
    "duckdb": DuckDBSection,
    "kafka": KafkaSection,
    "parquet": ParquetSection,
    "delta": DeltaSection,
}

AnySinkSection = Annotated[
    PostgresSection | SQLiteSection | DuckDBSection | KafkaSection | ParquetSection | DeltaSection,
    Field(discriminator="type"),
]
