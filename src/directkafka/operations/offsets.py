"""Offsets of a pipeline: what its ledgers and Kafka say of it now. Nothing is changed, and nothing is fenced."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import tenacity

from directkafka.errors import BrokerResponseError
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.offsets import TopicPartition
from directkafka.operations.positions import (
    PartitionPosition,
    next_offsets,
    partition_positions,
    positions_in_ledgers,
    unread_ranges,
)
from directkafka.options.source import SourceOptions
from directkafka.pipeline.file import SOURCE_DEFAULTS
from directkafka.planning.plan import PlanPolicy, plan_origin
from directkafka.sinks.api import LedgerEntry, Store
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.source_cluster import SourceCluster

T = TypeVar("T")

_ATTEMPTS_MAX: Final = 3

#: What a leader answers when retention, or a topic's deletion, has come between two questions.
_GONE: Final = {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


def source_of(
    entries: Sequence[LedgerEntry], bootstrap_servers: str, *, only_known_partitions: bool = False
) -> SourceOptions | None:
    """A source that reads what a pipeline has read so far; None where that is nothing.

    Args:
        entries: of its stores.
        bootstrap_servers: where Kafka is.
        only_known_partitions: leave out other partitions of the same topics, which the pipeline may not read.

    Raises:
        OptionError: the addresses are none.
    """
    known: dict[str, set[int]] = {}
    for entry in entries:
        for progress in entry.progress:
            known.setdefault(progress.topic, set()).add(progress.partition)
    if not known:
        return None
    options = {"kafka.bootstrap.servers": bootstrap_servers}
    if only_known_partitions:
        options["assign"] = json.dumps({topic: sorted(partitions) for topic, partitions in known.items()})
    else:
        options["subscribe"] = ",".join(sorted(known))
    return SourceOptions.parse(options, streaming=True, defaults=SOURCE_DEFAULTS, where="--bootstrap-server")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSnapshot:
    """A pipeline at one moment.

    Attributes:
        entries: what its ledgers say, those that know it.
        positions: where it is in each partition, sorted.
    """

    entries: tuple[LedgerEntry, ...]
    positions: tuple[PartitionPosition, ...]


def look_at_offsets(
    pipeline: str, source: SourceOptions | None, stores: Sequence[Store]
) -> tuple[PartitionPosition, ...]:
    """The positions of :func:`look_at_pipeline`."""
    return look_at_pipeline(pipeline, source, stores).positions


def look_at_pipeline(pipeline: str, source: SourceOptions | None, stores: Sequence[Store]) -> PipelineSnapshot:
    """What the ledgers say of a pipeline, and where it is in each of its partitions. Safe while the pipeline runs.

    Args:
        pipeline: its name.
        source: its source; None to look at the ledgers alone.
        stores: its stores.

    Raises:
        TopicNotFoundError: a topic that the source names does not exist.
        OptionError: it never ran, and where its source says to start cannot be found.
        DirectKafkaError: Kafka or a store does not answer.
    """
    if source is None:
        entries = _entries(pipeline, stores)
        return PipelineSnapshot(entries=entries, positions=positions_in_ledgers(entries))
    with closing(SourceCluster(source)) as cluster:
        return until_current(lambda: _look(pipeline, source, stores, cluster))


def until_current(ask: Callable[[], T]) -> T:
    """What a look at the log gives, from a new one where records or topics have gone between its questions.

    Args:
        ask: asks for offsets, and then for records at them.
    """
    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS_MAX), retry=tenacity.retry_if_exception(_is_outdated), reraise=True
    )(ask)


def _look(pipeline: str, source: SourceOptions, stores: Sequence[Store], cluster: SourceCluster) -> PipelineSnapshot:
    snapshot = cluster.snapshot(must_exist=not _entries(pipeline, stores), fresh=True)
    # Read again: what was committed while the brokers were asked is no lag.
    entries = _entries(pipeline, stores)
    current = next_offsets(entries, snapshot)
    unread = unread_ranges(snapshot, current if entries else _starts(source, cluster, snapshot))
    positions = partition_positions(snapshot, current, unread, cluster.first_timestamps(unread))
    return PipelineSnapshot(entries=entries, positions=positions)


def _entries(pipeline: str, stores: Sequence[Store]) -> tuple[LedgerEntry, ...]:
    return tuple(entry for store in stores if (entry := store.read(pipeline)) is not None)


def _is_outdated(error: BaseException) -> bool:
    """Whether records or topics have gone between the question for offsets and the one for timestamps."""
    return isinstance(error, BrokerResponseError) and error.code in _GONE


def _starts(source: SourceOptions, cluster: SourceCluster, snapshot: ClusterSnapshot) -> dict[TopicPartition, int]:
    """Where a pipeline that has not run yet would start now."""
    # A loss before the start is the pipeline's to report.
    policy = replace(PlanPolicy.of(source), fail_on_data_loss=False)
    return plan_origin(source.starting, snapshot, cluster.lookups(source.starting, snapshot), policy).ends()
