"""The cluster as a source's driver asks it: snapshots of what its options select, tasks for ranges, losses confirmed.

A loss counts only when a second snapshot shows it too: a new leader's high watermark lags for a moment, and any broker
may answer with old metadata (KAFKA-7703), so that what seems to be gone may be there half a second later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, assert_never

from directkafka.errors import DataLossError, TopicNotFoundError
from directkafka.kafka.admin.admin_client import AdminClient, TopicDescription
from directkafka.kafka.admin.topics import deleted_topics
from directkafka.kafka.consumer.first_records import first_headers, first_timestamps
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network.client import KafkaClient
from directkafka.offsets import OffsetRange, PartitionProgress, Positions, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.source import AssignedPartitions, ChosenPartitions, SourceOptions, TopicNames, TopicPattern
from directkafka.planning.loss import Loss, near_losses, raise_for
from directkafka.planning.plan import BatchPlan
from directkafka.planning.starts import losses_of_ranges, needed_lookups
from directkafka.planning.subscription import select
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.cluster import Cluster

log = logging.getLogger("directkafka.source")

#: Whether the same missing topics are deleted is asked again after so many seconds at the earliest.
_DELETED_INTERVAL_S_MIN: Final = 5.0


class SourceCluster:
    """Asks the cluster about the partitions that the options select, and keeps its connections.

    Args:
        options: the source's options.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client = KafkaClient(options.client)
        self._admin = AdminClient(
            self._client,
            retries=options.fetch_offset_num_retries,
            retry_interval_ms=options.fetch_offset_retry_interval_ms,
        )
        self._last_snapshot: ClusterSnapshot | None = None
        #: The snapshot up to which retention's deletions have been looked at.
        self._retention_seen: ClusterSnapshot | None = None
        self._topics: dict[str, TopicDescription] = {}
        self._topics_taken_at_s = float("-inf")
        #: What the group took last.
        self._group_offsets: Mapping[TopicPartition, int] = {}
        #: Why the group took no offsets at the last try.
        self._refusal = ""
        #: Topic ids that no broker knows any more.
        self._deleted_ids: set[str] = set()
        #: The ids that were asked about last, and when.
        self._asked_ids: set[str] = set()
        self._asked_at_s = float("-inf")

    def snapshot(
        self,
        *,
        must_exist: bool = False,
        fresh: bool = False,
        known: Mapping[TopicPartition, PartitionProgress] | None = None,
    ) -> ClusterSnapshot:
        """Earliest and latest offsets of every partition that the options select, as of now.

        Args:
            must_exist: whether a topic that the options name and that does not exist is an error here. For a running
                query this is left to planning, which treats a vanished topic as data loss.
            fresh: whether topics are listed anew, even if the last list is younger than ``metadata_ttl_ms``.
            known: where the reader is, so that cut logs that have grown again, and deleted topics, are noticed.

        Raises:
            TopicNotFoundError: with ``must_exist``, a topic that the options name does not exist.
            BrokerUnreachableError, BrokerResponseError: after the options' retries.
        """
        topics = self._described(fresh=fresh or must_exist)
        selection = select(
            self._options.strategy,
            {name: len(topic.leaders) for name, topic in topics.items()},
            {name for name, topic in topics.items() if topic.internal},
        )
        if selection.missing and must_exist:
            raise TopicNotFoundError(topics=selection.missing, addresses=self._options.client.bootstrap_servers)
        snapshot = self._admin.snapshot(selection.partitions, topics, known or {})
        if known and not self._options.fail_on_data_loss:
            snapshot = replace(snapshot, deleted=self._deleted(known, snapshot))
        if self._options.min_record_age_ms:
            snapshot = replace(snapshot, too_young=self._too_young(snapshot))
        self._last_snapshot = snapshot
        return snapshot

    def _too_young(self, snapshot: ClusterSnapshot) -> dict[TopicPartition, int]:
        """The offset of the first record that is younger than ``minRecordAge``, by partition."""
        first_too_young_ms = max(snapshot.taken_at_ms - self._options.min_record_age_ms + 1, 0)
        offsets = self._admin.at_timestamp(dict.fromkeys(snapshot.partitions, first_too_young_ms))
        return {partition: offset for partition, offset in offsets.items() if offset is not None}

    def _deleted(
        self, known: Mapping[TopicPartition, PartitionProgress], snapshot: ClusterSnapshot
    ) -> frozenset[TopicPartition]:
        """Those of the reader's partitions that are gone for good."""
        missing = {
            partition: here.topic_id
            for partition, here in known.items()
            if here.topic_id and partition not in snapshot.partitions
        }
        unasked = set(missing.values()) - self._deleted_ids
        # The ledger also keeps topics that exist but are no longer read: these need no question at each snapshot.
        is_due = unasked != self._asked_ids or time.monotonic() - self._asked_at_s >= _DELETED_INTERVAL_S_MIN
        if unasked and is_due:
            asked_s = time.monotonic()
            self._deleted_ids |= deleted_topics(self._client, unasked)
            # A broker that does not answer costs the time for a connection, so that it is asked less often.
            took_s = time.monotonic() - asked_s
            self._asked_ids, self._asked_at_s = unasked, time.monotonic() + 10 * took_s
        return frozenset(partition for partition, topic_id in missing.items() if topic_id in self._deleted_ids)

    @property
    def last_snapshot(self) -> ClusterSnapshot:
        """The snapshot taken last; taken now when there is none."""
        return self._last_snapshot or self.snapshot()

    def lookups(self, positions: Positions, snapshot: ClusterSnapshot) -> dict[TopicPartition, int | None]:
        """The offsets of positions that must be looked up; None where no record is that young, or a group has none."""
        needed = needed_lookups(positions, snapshot)
        offsets = self._admin.at_timestamp(needed.timestamps_ms)
        for group, partitions in needed.groups.items():
            committed = self._admin.committed(group, partitions)
            # Where the group has no offset, that of the position's time stays.
            offsets |= {
                partition: offset
                for partition, offset in committed.items()
                if offset is not None or partition not in offsets
            }
        return offsets

    def first_timestamps(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int | None]:
        """The timestamp of the first record of each range, in milliseconds since 1970; None where it has none.

        Raises:
            BrokerUnreachableError, BrokerResponseError: after the options' retries.
        """
        return first_timestamps(self._client, self._admin, ranges, self._topics or None)

    def first_headers(self, ranges: Iterable[OffsetRange]) -> list[list[tuple[str, bytes | None]]]:
        """The headers of some of the first records of each range, a list for each record that has any.

        Raises:
            BrokerUnreachableError, BrokerResponseError: after the options' retries.
        """
        return first_headers(self._client, self._admin, ranges, self._topics or None)

    def report_progress(self, ends: Mapping[TopicPartition, int]) -> None:
        """Commit how far the query is to its group, and warn of retention. Neither may fail the query.

        Args:
            ends: the next offset to read, by partition; all earlier offsets are done.
        """
        self.commit_to_group(ends)
        self.warn_of_retention(ends)

    def commit_to_group(self, ends: Mapping[TopicPartition, int]) -> None:
        """Commit the query's offsets to the group of ``commitToGroup``, if it is set; an error is only logged."""
        group = self._options.commit_to_group
        if group is not None and ends and ends != self._group_offsets:
            try:
                self._admin.commit(group, ends)
                self._group_offsets = dict(ends)
                self._refusal = ""
            except Exception as error:  # noqa: BLE001 - nothing that is only shown may fail the query
                if str(error) != self._refusal:  # it is tried again and again
                    log.warning("offsets were not committed to the group %s; the query goes on: %s", group, error)
                self._refusal = str(error)

    def warn_of_retention(self, ends: Mapping[TopicPartition, int]) -> None:
        """Warn where retention is about to overtake the query."""
        # Not the last two snapshots: a look at the backlog, or a second look, may lie between two batches.
        before, self._retention_seen = self._retention_seen, self._last_snapshot
        if before is not None and self._last_snapshot is not None:
            for warning in near_losses(ends, before, self._last_snapshot):
                log.warning("%s", warning)

    def cluster_id(self) -> str:
        """Kafka's id of the cluster.

        Raises:
            BrokerUnreachableError, BrokerResponseError: after the options' retries.
        """
        if not self._admin.cluster_id:
            # An answer about no topics has the cluster's id too.
            self._admin.topics([])
        return self._admin.cluster_id

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to a consumer group.

        Raises:
            BrokerResponseError: the group has active members, or this user may not commit to it.
        """
        self._admin.commit(group, offsets)

    def tasks(self, ranges: Iterable[OffsetRange], snapshot: ClusterSnapshot) -> tuple[RangeTask, ...]:
        """What executors need to read the ranges, each with its leader as of the snapshot."""
        options = self._options
        return tuple(
            task_of(
                offset_range,
                snapshot,
                options.client,
                columns=options.columns,
                payloads=options.payloads,
                fail_on_data_loss=options.fail_on_data_loss,
                poll_timeout_ms=options.poll_timeout_ms,
            )
            for offset_range in ranges
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _described(self, *, fresh: bool) -> dict[str, TopicDescription]:
        age_ms = (time.monotonic() - self._topics_taken_at_s) * 1000
        if fresh or age_ms >= self._options.metadata_ttl_ms:
            self._topics = self._admin.topics(self._topic_names())
            self._topics_taken_at_s = time.monotonic()
        return self._topics

    def _topic_names(self) -> set[str] | None:
        """The topics to be described; None for all of the cluster."""
        match self._options.strategy:
            case TopicPattern() | ChosenPartitions():
                return None
            case TopicNames(topics):
                return set(topics)
            case AssignedPartitions(partitions):
                return {partition.topic for partition in partitions}
        assert_never(self._options.strategy)


def task_of(offset_range: OffsetRange, snapshot: ClusterSnapshot, client: ClientOptions, **fields: Any) -> RangeTask:
    """The task to read a range, with the leader as of the snapshot; ``fields`` are further fields of the task."""
    seen = snapshot.partitions.get(offset_range.topic_partition)
    return RangeTask(
        range=offset_range,
        topic_id=seen.topic_id if seen else "",
        host=seen.leader_host if seen else "",
        port=seen.leader_port if seen else 0,
        leader_epoch=seen.leader_epoch if seen else -1,
        client=client,
        **fields,
    )


T = TypeVar("T")

#: How long a loss has to stand until it is believed, in seconds.
CONFIRM_LOSS_S: Final = 0.5


def tasks_of_ranges(
    kafka_params: Mapping[str, object], ranges: Sequence[OffsetRange], **fields: Any
) -> tuple[list[RangeTask], ClusterSnapshot]:
    """What executors need to read the ranges that a program gives, and where their partitions are.

    Args:
        kafka_params: Kafka's dotted client names, as for a consumer.
        ranges: from :func:`~directkafka.planning.starts.checked_ranges`.
        fields: further fields of each task.

    Raises:
        OptionError: a client setting is wrong.
        DataLossError: a range is not, or not completely, in its log, and a second snapshot shows the same.
        TopicNotFoundError: a topic does not exist.
    """
    partitions = {offset_range.topic_partition for offset_range in ranges}
    with Cluster(kafka_params) as cluster:
        snapshot, _ = confirm_loss(
            lambda snapshot: raise_for(losses_of_ranges(ranges, snapshot)),
            cluster.snapshot(partitions),
            look_again=lambda: cluster.snapshot(partitions),
        )
    return [task_of(offset_range, snapshot, cluster.options, **fields) for offset_range in ranges], snapshot


def confirm_loss(
    decide: Callable[[ClusterSnapshot], T],
    snapshot: ClusterSnapshot,
    *,
    look_again: Callable[[], ClusterSnapshot],
    wait: Callable[[float], object] = time.sleep,
    harmless: Collection[type[DataLossError]] = (),
) -> tuple[ClusterSnapshot, T]:
    """Decide from a snapshot; if it shows a loss, take a fresh snapshot and decide from that.

    This is done even if losses are accepted (``failOnDataLoss=false``): records that a batch leaves out because of one
    stale answer would be lost, or read twice.

    Args:
        decide: the decision: raises because of a loss, or returns a plan that goes without what is lost.
        snapshot: what the first look showed.
        look_again: takes a fresh snapshot, with nothing from a cache.
        wait: waits for a number of seconds.
        harmless: losses for which no second snapshot is taken if ``decide`` returns them: they may last for days, and
            no offset is skipped because of them.

    Returns:
        The snapshot that counts, and what was decided from it.

    Raises:
        DataLossError: both looks show a loss, and losses are not accepted.
    """
    try:
        decided = decide(snapshot)
        losses = [loss for loss in _losses(decided) if loss.error_type not in harmless]
        if not losses:
            return snapshot, decided
        log.warning("looking again, since it may pass: %s", "; ".join(map(str, losses)))
    except DataLossError as loss:
        log.warning("looking again, since it may pass: %s", loss)
    wait(CONFIRM_LOSS_S)
    again = look_again()
    return again, decide(again)


def _losses(decided: object) -> Collection[Loss]:
    return decided.losses if isinstance(decided, BatchPlan) else ()
