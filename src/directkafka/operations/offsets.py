"""Offsets of a pipeline: what its ledgers and Kafka say of it now. Nothing is changed, and nothing is fenced."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

import tenacity

from directkafka.errors import BrokerResponseError
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.offsets import TopicPartition
from directkafka.operations.positions import PartitionPosition, next_offsets, partition_positions, unread_ranges
from directkafka.options.source import SourceOptions
from directkafka.planning.plan import PlanPolicy, plan_origin
from directkafka.sinks.api import Store
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.source_cluster import SourceCluster

_LOOKS_MAX: Final = 3


def look_at_offsets(pipeline: str, source: SourceOptions, stores: Sequence[Store]) -> tuple[PartitionPosition, ...]:
    """The position of a pipeline in each of its partitions, sorted; it may run meanwhile.

    Args:
        pipeline: its name.
        source: its source.
        stores: its stores.

    Raises:
        TopicNotFoundError: a topic that the source names does not exist.
        OptionError: it has not run yet, and cannot start where its source says.
        DirectKafkaError: Kafka or a store does not answer.
    """
    # Retention may take records between the question for offsets and the one for timestamps.
    looks = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_LOOKS_MAX), retry=tenacity.retry_if_exception(_is_out_of_range), reraise=True
    )
    with closing(SourceCluster(source)) as cluster:
        return looks(_look, pipeline, source, stores, cluster)


def _look(
    pipeline: str, source: SourceOptions, stores: Sequence[Store], cluster: SourceCluster
) -> tuple[PartitionPosition, ...]:
    entries = [entry for store in stores if (entry := store.read(pipeline)) is not None]
    snapshot = cluster.snapshot(must_exist=not entries)
    current = next_offsets(entries)
    unread = unread_ranges(snapshot, current if entries else _starts(source, cluster, snapshot))
    return partition_positions(snapshot, current, unread, cluster.first_timestamps(unread))


def _is_out_of_range(error: BaseException) -> bool:
    return isinstance(error, BrokerResponseError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE


def _starts(source: SourceOptions, cluster: SourceCluster, snapshot: ClusterSnapshot) -> dict[TopicPartition, int]:
    """Where a pipeline that has not run yet would start now."""
    # What is lost before its start, the start says, and not who looks.
    policy = replace(PlanPolicy.of(source), fail_on_data_loss=False)
    return plan_origin(source.starting, snapshot, cluster.lookups(source.starting, snapshot), policy).ends()
