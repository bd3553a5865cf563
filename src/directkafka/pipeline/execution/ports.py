"""Protocols of the engines: what they ask of Kafka, and of Spark and the sinks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from directkafka.kafka.consumer.fetch_request import RangeTask
from directkafka.offsets import OffsetRange, PartitionProgress, Positions, TopicPartition
from directkafka.pipeline.execution.batch_writer import WrittenBatch
from directkafka.sinks.api import BatchAttempt
from directkafka.snapshot import ClusterSnapshot


class Cluster(Protocol):
    """What the direct engine asks of Kafka; see :class:`~directkafka.spark.source_cluster.SourceCluster`."""

    def snapshot(
        self,
        *,
        must_exist: bool = False,
        fresh: bool = False,
        known: Mapping[TopicPartition, PartitionProgress] | None = None,
    ) -> ClusterSnapshot:
        """The selected partitions as of now; ``known`` is where the pipeline is."""

    def report_progress(self, ends: Mapping[TopicPartition, int]) -> None:
        """Tell the outside how far the pipeline is; never raises for what is only told."""

    def lookups(self, positions: Positions, snapshot: ClusterSnapshot) -> dict[TopicPartition, int | None]:
        """The offsets that the positions' timestamps and groups stand for."""

    def tasks(self, ranges: Sequence[OffsetRange], snapshot: ClusterSnapshot) -> tuple[RangeTask, ...]:
        """What executors need to read the ranges."""

    def close(self) -> None:
        """Close the connections."""


class Prepared(Protocol):
    """What every engine asks of its transform and sinks before the first batch."""

    def check(self) -> tuple[str, ...]:
        """Compile the transform, check every sink, change nothing; remarks for the user."""

    def prepare(self) -> None:
        """Make what tables and columns are not there."""


class PendingWrite(Protocol):
    """A batch that is being written in the background."""

    def result(self) -> WrittenBatch:
        """Wait for it.

        Raises:
            Exception: what :meth:`Writer.write` raises.
        """

    def cancel(self) -> bool:
        """Give it up; whether it is over."""


class Writer(Prepared, Protocol):
    """What the direct engine asks of Spark and the sinks; see
    :class:`~directkafka.pipeline.execution.batch_writer.BatchWriter`."""

    def write(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> WrittenBatch:
        """Read, transform and write one batch where no reader sees it, for the stores of these identities."""

    @property
    def may_run_ahead(self) -> bool:
        """Whether a batch may be computed and written while the one before it is committed."""

    def begin(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> PendingWrite:
        """The same as :meth:`write` in the background; nothing else is written until it is over."""
