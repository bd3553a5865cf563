"""The driver's questions to the cluster: topics, partitions, leaders, offsets.

APIs: Metadata (3, up to v12), ListOffsets (2, up to v9), FindCoordinator (10), OffsetFetch (9), OffsetCommit (8).
Every question is asked again when the broker's answer is retriable (metadata not there yet) or no broker answers:
``fetchOffset.numRetries`` times, ``fetchOffset.retryIntervalMs`` apart. If brokers answer and only a
partition's leader does not, an election is waited for: by default, Kafka fences a dead broker after 9 s.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

import tenacity

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.kafka.admin.groups import commit_offsets, committed_offsets
from directkafka.kafka.admin.leader_epochs import ended_epochs, epochs_risen
from directkafka.kafka.admin.topics import (
    Leader,
    TopicDescription,
    by_leader,
    by_topic,
    check_answered,
    leader_of,
)
from directkafka.kafka.network.client import GROUP, KafkaClient, raise_for
from directkafka.kafka.protocol.api_versions import EARLIEST_LOCAL_VERSION
from directkafka.kafka.protocol.error_codes import ErrorCode, broker_error
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.options.client import IsolationLevel
from directkafka.snapshot import ClusterSnapshot, EndedEpoch, PartitionSnapshot

__all__ = ["AdminClient", "Leader", "TopicDescription"]

T = TypeVar("T")

#: Of a cluster that nobody has read yet.
_NOTHING_KNOWN: Final[Mapping[TopicPartition, PartitionProgress]] = MappingProxyType({})

_EARLIEST = -2
_LATEST = -1
#: The first offset on the leader's own disk; what lies before it is in remote storage (KIP-405).
_EARLIEST_LOCAL = -4

#: What a partition's leader or its followers answer while an election is on its way: LEADER_NOT_AVAILABLE,
#: NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE, FENCED_ and UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE.
_ELECTION = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
#: Until a broker that does not answer has been missed, and its partitions have other leaders: Kafka's default of
#: ``broker.session.timeout.ms`` twice. A broker that stays alone with its leadership has an address that is wrong.
_MISSED_S_MAX = 18.0
#: As long as Spark's own source waits (``default.api.timeout.ms``).
_ELECTION_TIMEOUT_MS = 60_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ListedOffset:
    """An offset that ListOffsets found, None if there is none, and the leader epoch that it belongs to, or -1."""

    offset: int | None
    leader_epoch: int


class AdminClient:
    """The driver's questions, over one client.

    Args:
        client: the connections to use; stays open when this is done.
        retries: tries after the first one.
        retry_interval_ms: pause between tries, in milliseconds.
        election_timeout_ms: how long a partition may be without a leader when its offsets are asked for, in
            milliseconds.
        isolation_level: whether the latest offset is the high watermark or the last stable offset; the client's own
            by default.
    """

    def __init__(
        self,
        client: KafkaClient,
        *,
        retries: int = 3,
        retry_interval_ms: int = 1000,
        election_timeout_ms: int = _ELECTION_TIMEOUT_MS,
        isolation_level: IsolationLevel | None = None,
    ) -> None:
        self._client = client
        self._is_read_committed = (isolation_level or client.options.isolation_level) == "read_committed"
        self._retries = retries
        self._election_timeout_s = election_timeout_ms / 1000
        self._ask = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(retries + 1),
            wait=tenacity.wait_fixed(retry_interval_ms / 1000),
            retry=tenacity.retry_if_exception(_worth_another_try),
            before_sleep=_log_retry,
            reraise=True,
        )
        self._waiting_for_leaders = self._ask.copy(stop=self._is_over)
        #: What was asked of partitions' leader epochs last, and the answer.
        self._asked_epochs: dict[TopicPartition, tuple[tuple[object, ...], EndedEpoch | None]] = {}
        self.cluster_id = ""

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        """Describe topics; one that does not exist is left out.

        Args:
            names: the topics to ask for, or None for all that this user may see.

        Raises:
            BrokerResponseError: a topic this user may not describe, for example.
        """
        return self._ask(lambda: self._topics(names))

    def snapshot(
        self,
        partitions: Collection[TopicPartition],
        topics: Mapping[str, TopicDescription],
        known: Mapping[TopicPartition, PartitionProgress] = _NOTHING_KNOWN,
    ) -> ClusterSnapshot:
        """Earliest and latest offsets of the partitions, under the client's isolation level, as one value.

        Args:
            partitions: which; those that ``topics`` does not have are left out, and those that are deleted
                meanwhile.
            topics: their description, from :meth:`topics`.
            known: where the reader is. Of partitions that have had an election since, the snapshot says where the
                records of the leader epoch that the reader knows end now.
        """
        present = _present(partitions, topics)
        try:
            snapshot = self._snapshot(present, topics)
            risen = epochs_risen(known, snapshot.partitions)
            return snapshot.with_ended(self._ended_since(risen, snapshot, topics)) if risen else snapshot
        except BrokerResponseError as error:
            # The topic was described, then deleted, and now nobody has offsets of it. Whether that is a loss is for
            # the planner to say.
            is_unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics_now = self.topics({partition.topic for partition in present}) if is_unknown else topics
            remaining = _present(present, topics_now)
            if remaining == present:
                raise
            return self.snapshot(remaining, topics_now, known)

    def _snapshot(self, present: Sequence[TopicPartition], topics: Mapping[str, TopicDescription]) -> ClusterSnapshot:
        earliest = self._find(dict.fromkeys(present, _EARLIEST), topics)
        latest = self._find(dict.fromkeys(present, _LATEST), topics)
        seen = {}
        for partition in sorted(present):
            leader = topics[partition.topic].leaders[partition.partition]
            seen[partition] = PartitionSnapshot(
                topic_id=topics[partition.topic].topic_id,
                leader=leader.node_id,
                leader_host=leader.host,
                leader_port=leader.port,
                # Of one answer with the end: the description may be older than the last records.
                leader_epoch=max(leader.epoch, latest[partition].leader_epoch),
                earliest=self._offset(earliest, partition),
                latest=self._offset(latest, partition),
            )
        return ClusterSnapshot(cluster_id=self.cluster_id, partitions=seen, taken_at_ms=int(time.time() * 1000))

    def at_timestamp(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a timestamp (milliseconds since 1970), None where no record is that young."""
        return self.offsets_at(timestamps_ms)

    def offsets_at(
        self, wanted: Mapping[TopicPartition, int], topics: Mapping[str, TopicDescription] | None = None
    ) -> dict[TopicPartition, int | None]:
        """ListOffsets: an offset, or None where there is no such one, for each partition.

        Args:
            wanted: -2 for earliest, -1 for latest, or a timestamp in milliseconds since 1970.
            topics: a fresh description; the leaders it names are asked first.
        """
        return {partition: answer.offset for partition, answer in self._find(wanted, topics).items()}

    def local_start(self, partition: TopicPartition, topics: Mapping[str, TopicDescription]) -> int | None:
        """The first offset on the leader's own disk; None from brokers that know no remote storage (before 3.6)."""
        wanted = {partition: _EARLIEST_LOCAL}
        try:
            answers = self._list_offsets(leader_of(partition, topics), wanted, version_min=EARLIEST_LOCAL_VERSION)
            return answers[partition].offset
        except BrokerResponseError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            return None

    def ended_epochs(
        self, epochs: Mapping[TopicPartition, int], topics: Mapping[str, TopicDescription] | None = None
    ) -> dict[TopicPartition, EndedEpoch | None]:
        """Where leader epochs have ended in the leaders' logs, see :mod:`directkafka.kafka.admin.leader_epochs`.

        Args:
            epochs: the leader epoch to ask about, by partition.
            topics: a fresh description.
        """
        return self.of_leaders(lambda described: ended_epochs(self._client, epochs, described), epochs, topics)

    def _ended_since(
        self, epochs: Mapping[TopicPartition, int], snapshot: ClusterSnapshot, topics: Mapping[str, TopicDescription]
    ) -> dict[TopicPartition, EndedEpoch | None]:
        """The same, each asked once: where an epoch ended does not change before the next election."""
        seen = snapshot.partitions
        keys = {
            partition: (seen[partition].topic_id, epoch, seen[partition].leader_epoch)
            for partition, epoch in epochs.items()
        }
        unasked = {
            partition: epochs[partition]
            for partition, key in keys.items()
            if self._asked_epochs.get(partition, ((), None))[0] != key
        }
        if unasked:
            ended = self.ended_epochs(unasked, topics)
            self._asked_epochs |= {partition: (keys[partition], ended[partition]) for partition in unasked}
        return {partition: self._asked_epochs[partition][1] for partition in epochs}

    def _find(
        self, wanted: Mapping[TopicPartition, int], topics: Mapping[str, TopicDescription] | None
    ) -> dict[TopicPartition, _ListedOffset]:
        return self.of_leaders(lambda described: self._offsets_at(wanted, described), wanted, topics)

    def of_leaders(
        self,
        ask: Callable[[Mapping[str, TopicDescription]], dict[TopicPartition, T]],
        partitions: Collection[TopicPartition],
        topics: Mapping[str, TopicDescription] | None,
    ) -> dict[TopicPartition, T]:
        """Ask the leaders of partitions; those that have moved since ``topics`` are looked up, and all are asked again.

        Args:
            ask: asks them, given a description of the topics.
            partitions: which; nobody is asked where there are none.
            topics: a fresh description; without one, the topics are looked up first.
        """
        if not partitions:
            return {}
        names = {partition.topic for partition in partitions}
        try:
            return ask(topics or self.topics(names))
        except (BrokerResponseError, BrokerUnreachableError) as error:
            if not _worth_another_try(error):
                raise
        return self._waiting_for_leaders(lambda: ask(self._topics(names)))

    def committed(self, group: str, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, int | None]:
        """The offsets a consumer group has committed, None where it has none.

        Args:
            group: the group's name.
            partitions: which; None for all of which it has an offset.
        """
        wanted = None if partitions is None else list(partitions)

        def ask() -> dict[TopicPartition, int | None]:
            node_id = self._coordinator(group)
            return committed_offsets(self._client, node_id, group, wanted, require_stable=self._is_read_committed)

        return self._ask(ask)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to a group without being a member of it, for lag tools to see.

        Raises:
            BrokerResponseError: the group has active members, or this user has no READ right on it.
        """
        self._ask(lambda: commit_offsets(self._client, self._coordinator(group), group, offsets))

    def _is_over(self, state: tenacity.RetryCallState) -> bool:
        if state.attempt_number <= self._retries:
            return False
        error = state.outcome.exception() if state.outcome is not None else None
        return (state.seconds_since_start or 0.0) >= self._election_s(error)

    def _election_s(self, error: BaseException | None) -> float:
        """How long to wait for an election, in seconds; 0 unless just one broker, or a leader, is missing."""
        if isinstance(error, BrokerResponseError) and error.code in _ELECTION:
            return self._election_timeout_s
        # An error that names one of several brokers is not about the cluster.
        is_one = isinstance(error, BrokerUnreachableError) and error.addresses != self._client.options.bootstrap_servers
        return min(self._election_timeout_s, _MISSED_S_MAX) if is_one else 0.0

    def _topics(self, names: Collection[str] | None) -> dict[str, TopicDescription]:
        wanted = None if names is None else [{"name": name} for name in sorted(names)]
        response = self._client.call("Metadata", topics=wanted, allow_auto_topic_creation=False)
        self.cluster_id = response.cluster_id or ""
        described = {}
        for topic in response.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            self._raise_for("Metadata", topic.error_code, f"topic {topic.name}")
            described[topic.name] = TopicDescription(
                topic_id=str(topic.topic_id) if topic.topic_id and topic.topic_id.int else "",
                internal=bool(topic.is_internal),
                leaders={partition.partition_index: self._leader(partition) for partition in topic.partitions},
            )
        return described

    def _offset(self, answers: Mapping[TopicPartition, _ListedOffset], partition: TopicPartition) -> int:
        if (offset := answers[partition].offset) is not None:
            return offset
        raise BrokerResponseError(
            api="ListOffsets",
            code=ErrorCode.NONE,
            name="no offset in its answer",
            retriable=False,
            subject=str(partition),
        )

    def _raise_for(self, api: str, code: int, subject: str) -> None:
        raise_for(api, code, subject, self._client.options)

    def _leader(self, partition: Any) -> Leader:
        node_id = partition.leader_id if partition.leader_id >= 0 else None
        host, port = self._client.address(node_id) if node_id is not None else ("", 0)
        return Leader(node_id=node_id, host=host, port=port, epoch=partition.leader_epoch)

    def _offsets_at(
        self, wanted: Mapping[TopicPartition, int], topics: Mapping[str, TopicDescription]
    ) -> dict[TopicPartition, _ListedOffset]:
        answers: dict[TopicPartition, _ListedOffset] = {}
        for node_id, partitions in by_leader(wanted, topics).items():
            answers |= self._list_offsets(node_id, {partition: wanted[partition] for partition in partitions})
        return answers

    def _list_offsets(
        self, node_id: int, wanted: Mapping[TopicPartition, int], *, version_min: int | None = None
    ) -> dict[TopicPartition, _ListedOffset]:
        response = self._client.call(
            "ListOffsets",
            node_id,
            version_min=version_min,
            replica_id=-1,
            isolation_level=int(self._is_read_committed),
            topics=by_topic(
                wanted,
                "partitions",
                lambda partition: {"partition_index": partition.partition, "timestamp": wanted[partition]},
            ),
        )
        answers = {}
        for topic in response.topics:
            for partition in topic.partitions:
                index = partition.partition_index
                subject = f"topic {topic.name}, partition {index}"
                if partition.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
                    # Remote storage that fails for a moment, for example; Java's clients ask again, too.
                    raise replace(broker_error("ListOffsets", partition.error_code, subject), retriable=True)
                self._raise_for("ListOffsets", partition.error_code, subject)
                offset = partition.offset if partition.offset >= 0 else None
                answers[TopicPartition(topic.name, index)] = _ListedOffset(offset, partition.leader_epoch)
        check_answered("ListOffsets", wanted, answers)
        return answers

    def _coordinator(self, group: str) -> int:
        response = self._client.call("FindCoordinator", key=group, key_type=int(GROUP))
        self._raise_for("FindCoordinator", response.error_code, f"group {group}")
        # A coordinator is one of the brokers, but its address may not be known yet.
        self._topics([])
        return int(response.node_id)


def _log_retry(state: tenacity.RetryCallState) -> None:
    error = state.outcome and state.outcome.exception()
    # Elections are Kafka's everyday life; brokers that are not there are waited for long.
    level = logging.WARNING if isinstance(error, BrokerUnreachableError) else logging.INFO
    log.log(level, "asking again in %d ms (try %d): %s", state.upcoming_sleep * 1000, state.attempt_number + 1, error)


def _worth_another_try(error: BaseException) -> bool:
    return isinstance(error, BrokerUnreachableError) or (isinstance(error, BrokerResponseError) and error.retriable)


def _present(partitions: Iterable[TopicPartition], topics: Mapping[str, TopicDescription]) -> list[TopicPartition]:
    return [
        partition
        for partition in partitions
        if partition.topic in topics and partition.partition in topics[partition.topic].leaders
    ]
