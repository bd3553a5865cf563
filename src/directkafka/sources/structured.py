"""The format ``directkafka``: a thin adapter between Spark's Python data source API and the planner.

Spark makes these objects anew in processes of its own: the options in one, a batch read's plan in another, a
stream's offsets in a third that lives as long as the query, and ``read`` on executors. State is therefore kept
only where it is worth it: a stream reader keeps its connections.

Two things differ from what the API suggests, both so that a killed query loses nothing:

- ``initialOffset`` returns ``{}`` and the first ``latestOffset({})`` returns the resolved start positions. Batch 0
  is empty, and Spark's offset log holds where the query starts before the first record is read. (Spark asks for
  the initial offset again when it replays batch 0; with ``latest``, records would be lost.)
- A partition that appears later enters the log the same way: first at its earliest offset with no records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from directkafka.errors import OptionError
from directkafka.kafka.fetch import RangeTask
from directkafka.offsets import OffsetRange, TopicPartition, from_nested, to_nested
from directkafka.options import SourceOptions
from directkafka.planning.plan import stream_ends
from directkafka.planning.splits import split
from directkafka.planning.starts import resolve_ends, resolve_starts
from directkafka.sources.cluster import SourceCluster
from directkafka.sources.frame import record_schema
from directkafka.sources.reading import read_for_spark
from directkafka.view import ClusterView

__all__ = ["DirectKafkaDataSource"]

log = logging.getLogger("directkafka.source")

Nested = dict[str, dict[str, int]]


class DirectKafkaDataSource(DataSource):
    """Kafka as a Spark data source; register it with ``directkafka.register(spark)``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "directkafka"

    def schema(self) -> str:
        """Spark's seven columns, and ``headers`` when the option asks for them."""
        headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return record_schema(include_headers=headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        options = SourceOptions.parse(dict(self.options), streaming=False)
        _refuse_user_schema(schema, options)
        return _BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A stream."""
        options = SourceOptions.parse(dict(self.options), streaming=True)
        _refuse_user_schema(schema, options)
        return _StreamReader(options)


@dataclass
class _RangePartition(InputPartition):
    """One task's range, on its way to the executor."""

    task: RangeTask


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # A read without partitions is given one that has no range.
    if isinstance(partition, _RangePartition):
        yield from read_for_spark(partition.task)


def _refuse_user_schema(schema: StructType, options: SourceOptions) -> None:
    names = [field.strip().split(" ")[0] for field in record_schema(include_headers=False).split(",")]
    expected = names + ["headers"] * options.include_headers
    if schema.fieldNames() != expected:
        raise OptionError(
            option="schema",
            reason=f"Kafka records have the fixed columns {', '.join(expected)}; parse the value instead of giving "
            f"a schema with {', '.join(schema.fieldNames())}",
        )


class _BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        cluster = SourceCluster(self._options)
        try:
            view = cluster.view(must_exist=True)
            ranges = self._ranges(cluster, view)
            return [_RangePartition(task) for task in cluster.tasks(ranges, view)]
        finally:
            cluster.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)

    def _ranges(self, cluster: SourceCluster, view: ClusterView) -> tuple[OffsetRange, ...]:
        options, ending = self._options, self._options.ending
        assert ending is not None, "a batch read has an end"
        starts = resolve_starts(
            options.starting,
            view,
            cluster.timestamps(options.starting, view),
            fail_on_data_loss=options.fail_on_data_loss,
        )
        ends = resolve_ends(
            ending, view, starts, cluster.timestamps(ending, view), fail_on_data_loss=options.fail_on_data_loss
        )
        whole = [OffsetRange(one.topic, one.partition, start, ends[one]) for one, start in sorted(starts.items())]
        return split(whole, options.min_partitions, options.max_records_per_partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = SourceCluster(options)
        self._until_available_now = False
        self._target: Mapping[TopicPartition, int] | None = None

    def initialOffset(self) -> Nested:  # noqa: N802 - Spark's name
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until_available_now = True

    def latestOffset(self, start: Nested, limit: ReadLimit) -> Nested:  # noqa: N802
        view = self._cluster.view(must_exist=not start)
        if self._until_available_now and self._target is None:
            self._target = view.latest()
        if not start:
            return self._first_offsets(view)
        ends = stream_ends(
            from_nested(start),
            view,
            max_offsets=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            ends_max=self._target,
            fail_on_data_loss=self._options.fail_on_data_loss,
            group_id_given=self._options.group_id is not None,
        )
        return to_nested(ends)

    def _first_offsets(self, view: ClusterView) -> Nested:
        positions = self._options.starting
        starts = resolve_starts(
            positions,
            view,
            self._cluster.timestamps(positions, view),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        log.info("the query starts at %s", to_nested(starts))
        return to_nested(starts)

    def reportLatestOffset(self) -> Nested:  # noqa: N802
        return to_nested(self._cluster.last_view.latest())

    def partitions(self, start: Nested, end: Nested) -> list[InputPartition]:
        starts, ends = from_nested(start), from_nested(end)
        # A partition without a start has just entered the log, at the offset where it begins.
        whole = [
            OffsetRange(one.topic, one.partition, starts.get(one, until), max(until, starts.get(one, until)))
            for one, until in sorted(ends.items())
        ]
        ranges = split(whole, self._options.min_partitions, self._options.max_records_per_partition)
        return [_RangePartition(task) for task in self._cluster.tasks(ranges, self._cluster.last_view)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)

    def commit(self, end: Nested) -> None:
        """Nothing: Spark's offset log is the truth, and this call would miss the last batch."""

    def stop(self) -> None:
        self._cluster.close()

    def __getstate__(self) -> dict[str, Any]:
        # ``read`` runs on executors, which need neither the driver's connections nor its memory.
        return {"_options": self._options}
