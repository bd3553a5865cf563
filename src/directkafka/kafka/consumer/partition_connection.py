"""The connection to whoever serves one partition: found, kept, and dropped when it is of no more use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

from directkafka.errors import BrokerResponseError, BrokerUnreachableError, DataLossError
from directkafka.errors.data_loss import CouldNotReadOffsetRangeError, TopicRecreatedError
from directkafka.kafka.admin.admin_client import AdminClient, TopicDescription
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import Channel, KafkaClient

_UNKNOWN = ("", 0)

#: A topic is believed to be deleted when it has been missing for so long, at every look, and nobody has served it
#: meanwhile. A broker that is cut off from the others does not know topics that were made since; after 9 s, Kafka's
#: default, it leads nothing any more.
_MISSING_S = 10.0

Answer = TypeVar("Answer")


class TryAgain(Exception):  # noqa: N818 - control flow inside the fetch path
    """The same position is worth another try; its text is the reason if it was the last."""


class TopicGone(Exception):  # noqa: N818 - control flow inside the fetch path
    """The topic was deleted since the range was planned; if it was made again, its offsets mean other records now.

    Attributes:
        error_type: what it is where it is an error.
    """

    def __init__(self, error_type: type[DataLossError], detail: str) -> None:
        super().__init__(detail)
        self.error_type = error_type


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderState:
    """What a partition's leader says of its log.

    Attributes:
        address: the leader's host and port.
        earliest, latest: the log's first offset, and one past the last that can be read.
        local_start: the first offset on the leader's own disk, what is before it being in remote storage; None
            where the leader cannot say.
        planned_end: one past the last record of the leader epoch that the range was planned under, if there has been
            a later epoch since; else None.
    """

    address: tuple[str, int]
    earliest: int
    latest: int
    local_start: int | None = None
    planned_end: int | None = None


class PartitionConnection:
    """A channel to one partition's leader, or to the replica that the leader refers to.

    A replica that has to be left is not gone back to: from then on the leader is not told any more where we are. It
    would refer to a dead replica for as long as it has not noticed its death.

    Used by one thread; only :meth:`interrupt` may be called from another.

    Args:
        task: which partition, and where its leader was when the range was planned.
    """

    def __init__(self, task: RangeTask) -> None:
        self._task = task
        #: Host and port of who serves the partition.
        self.address = (task.host, task.port)
        #: What the leader is told of where we are.
        self.rack = task.client.client_rack
        self._at_replica = False
        self._channel: Channel | None = None
        self._lock = threading.Lock()
        self._interrupted = False
        self._missing_since: float | None = None

    def open(self, timeout_ms: int) -> Channel:
        """The channel; connected now when there is none, or when its SASL session is about to end.

        Raises:
            TryAgain: the leader is not known or cannot be reached now.
            TopicGone: the topic was deleted.
        """
        channel = self._channel
        if channel is not None and time.monotonic() < channel.expires_at:
            return channel
        self.drop()
        if self.address == _UNKNOWN:
            self.address = self._ask(timeout_ms, self._find_leader)
        try:
            channel = connection_pool.borrow(self._task.client, *self.address, timeout_ms=timeout_ms)
        except BrokerUnreachableError as error:
            self.forget()
            raise TryAgain(str(error)) from error
        with self._lock:
            self._channel = channel
            if self._interrupted:
                channel.interrupt()
        return channel

    def forget(self) -> None:
        """Drop the channel and look the leader up before the next one is opened."""
        self.drop()
        self.address = _UNKNOWN
        if self._at_replica:
            self.rack, self._at_replica = "", False

    def move_to(self, node_id: int, timeout_ms: int) -> None:
        """Go on at another replica (KIP-392); the leader has answered, so its channel is kept.

        Raises:
            TryAgain: its address cannot be learnt now.
            TopicGone: the topic was deleted.
        """
        self.keep()
        self._at_replica = True
        try:
            self.address = self._ask(timeout_ms, lambda client: self._find_node(client, node_id))
        except TryAgain:
            self.forget()
            raise

    def served(self) -> None:
        """To be told when a broker has answered for the partition: the topic is there."""
        self._missing_since = None

    def leader_state(self, timeout_ms: int) -> LeaderState:
        """What the leader says of its log now.

        Raises:
            TryAgain: the leader does not answer now.
            TopicGone: the topic was deleted.
        """
        return self._ask(timeout_ms, self._find_state)

    def interrupt(self) -> None:
        """Wake the thread that waits in the channel with an error, now and in any later channel."""
        with self._lock:
            self._interrupted = True
            if self._channel is not None:
                self._channel.interrupt()

    def keep(self) -> None:
        """Give the channel back for the next range; no answer may be on its way."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None and self._interrupted:
            channel.close()
        elif channel is not None:
            connection_pool.release(self._task.client, channel)

    def drop(self) -> None:
        """Close the channel, if there is one."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _ask(self, timeout_ms: int, question: Callable[[KafkaClient], Answer]) -> Answer:
        given = self._task.client
        options = replace(
            given,
            connect_timeout_ms=min(given.connect_timeout_ms, timeout_ms),
            request_timeout_ms=min(given.request_timeout_ms, timeout_ms),
        )
        try:
            with closing(KafkaClient(options)) as client:
                return question(client)
        except BrokerUnreachableError as error:
            raise TryAgain(str(error)) from error
        except BrokerResponseError as error:
            if not error.retriable:
                raise
            raise TryAgain(str(error)) from error

    def _describe(self, client: KafkaClient) -> dict[str, TopicDescription]:
        """The topic, if it is there and still the same."""
        name = self._task.range.topic
        topics = _asking_once(client).topics([name])
        if name not in topics:
            self._miss(name)
        self._missing_since = None
        topic_id = topics[name].topic_id
        if self._task.topic_id and topic_id != self._task.topic_id:
            detail = f"the topic was deleted and made again (topic id {self._task.topic_id}, now {topic_id})"
            raise TopicGone(TopicRecreatedError, detail)
        return topics

    def _miss(self, name: str) -> NoReturn:
        now = time.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        missing_s = now - self._missing_since
        # One look may come from a broker that has just started.
        if missing_s < _MISSING_S:
            raise TryAgain(f"the topic {name} is not there")
        detail = f"the topic was deleted: no broker that was asked has had it for {missing_s:.0f} s"
        raise TopicGone(CouldNotReadOffsetRangeError, detail)

    def _find_leader(self, client: KafkaClient) -> tuple[str, int]:
        offset_range = self._task.range
        leader = self._describe(client)[offset_range.topic].leaders.get(offset_range.partition)
        if leader is None or leader.node_id is None:
            raise TryAgain(f"{offset_range.topic_partition} has no leader")
        self._check_is_leader(leader.epoch)
        return leader.host, leader.port

    def _check_is_leader(self, epoch: int) -> None:
        """Pass over a broker that is cut off from its cluster, and still takes itself for the leader.

        The range was planned under a later election's leader. (KIP-320: Java's clients drop metadata that is older.)
        Without topic ids a topic that was made again looks the same; there the log tells.
        """
        if self._task.topic_id and 0 <= epoch < self._task.leader_epoch:
            self.forget()
            planned = self._task.leader_epoch
            raise TryAgain(f"the broker knows of leader epoch {epoch}, and the range was planned under {planned}")

    def _find_node(self, client: KafkaClient, node_id: int) -> tuple[str, int]:
        self._describe(client)
        address = client.address(node_id)
        if address == _UNKNOWN:
            raise TryAgain(f"the leader refers to replica {node_id}, which no broker knows")
        return address

    def _find_state(self, client: KafkaClient) -> LeaderState:
        partition, epoch = self._task.range.topic_partition, self._task.leader_epoch
        admin, topics = _asking_once(client), self._describe(client)
        seen = admin.snapshot([partition], topics).partitions.get(partition)
        if seen is None:
            raise TryAgain(f"{partition} is not there")
        self._check_is_leader(seen.leader_epoch)
        ended = admin.ended_epochs({partition: epoch}, topics)[partition] if 0 <= epoch < seen.leader_epoch else None
        return LeaderState(
            address=(seen.leader_host, seen.leader_port),
            earliest=seen.earliest,
            latest=seen.latest,
            local_start=admin.local_start(partition, topics),
            planned_end=ended.end if ended is not None else None,
        )


def _asking_once(client: KafkaClient) -> AdminClient:
    """Whoever reads a range tries again by itself, at its own pace."""
    return AdminClient(client, retries=0, election_timeout_ms=0)
