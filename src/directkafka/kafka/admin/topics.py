"""Topics: their descriptions as values, which of them are deleted, and how requests and answers name partitions.

Whether a topic is deleted is asked by its id (Metadata, API 3, v12; KIP-516). A topic that is missing among all topics
may have been left out of the answer because this user has lost the right to see it, or because the broker has just
started. Asked for its id, a broker says which: ``UNKNOWN_TOPIC_ID`` (100) where no topic has it,
``TOPIC_AUTHORIZATION_FAILED`` (29) where it may not be seen. Every broker of the cluster must say so, so that one with
old metadata does not decide. An id is never used again.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.protocol.api_versions import TOPIC_ID_ONLY_VERSION
from directkafka.kafka.protocol.error_codes import ErrorCode, broker_error
from directkafka.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """Who leads a partition: node id, or None while nobody does, and since which election."""

    node_id: int | None
    host: str
    port: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic: its UUID as text (empty before Kafka 2.8), whether it is internal, its partitions' leaders."""

    topic_id: str
    internal: bool
    leaders: Mapping[int, Leader]


def leader_of(partition: TopicPartition, topics: Mapping[str, TopicDescription]) -> int:
    """Node id of a partition's leader.

    Raises:
        BrokerResponseError: it has none now, or is not there; both may pass.
    """
    topic = topics.get(partition.topic)
    leader = topic.leaders.get(partition.partition) if topic is not None else None
    if leader is None or leader.node_id is None:
        code = ErrorCode.LEADER_NOT_AVAILABLE if leader is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise broker_error("Metadata", code, str(partition))
    return leader.node_id


def by_leader(
    partitions: Iterable[TopicPartition], topics: Mapping[str, TopicDescription]
) -> dict[int, list[TopicPartition]]:
    """The partitions by their leader's node id: a question about all of them is one request for each leader.

    Raises:
        BrokerResponseError: as :func:`leader_of`.
    """
    partitions_by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in sorted(partitions):
        partitions_by_leader[leader_of(partition, topics)].append(partition)
    return dict(partitions_by_leader)


def by_topic(
    partitions: Iterable[TopicPartition], field: str, item: Callable[[TopicPartition], Any], *, name: str = "name"
) -> list[dict[str, Any]]:
    """Kafka's nesting of partitions in requests: ``[{"name": topic, field: [item, ...]}, ...]``."""
    nested: dict[str, list[Any]] = defaultdict(list)
    for partition in sorted(partitions):
        nested[partition.topic].append(item(partition))
    return [{name: topic, field: items} for topic, items in nested.items()]


def check_answered(api: str, asked: Collection[TopicPartition], answered: Collection[TopicPartition]) -> None:
    """Refuse an answer that leaves partitions out, or that is about others, before any of it is believed.

    Raises:
        BrokerResponseError: it is such an answer.
    """
    if wrong := sorted(set(asked) ^ set(answered)):
        raise BrokerResponseError(
            api=api,
            code=ErrorCode.NONE,
            name="an answer about other partitions than was asked",
            retriable=False,
            subject=", ".join(map(str, wrong[:3])) + " and more" * (len(wrong) > 3),
        )


log = logging.getLogger(__name__)


def deleted_topics(client: KafkaClient, topic_ids: Collection[str]) -> frozenset[str]:
    """Those of the topic ids that no broker knows any more.

    Every broker must say so. One alone may be cut off from the controller, and know nothing of a topic that was made
    meanwhile. A broker that has ended is soon not among the cluster's brokers any more, and need not be asked.

    Args:
        client: the connections to use.
        topic_ids: UUIDs as text.

    Returns:
        None of them while a broker cannot say: it is older than 2.8, or does not answer.
    """
    deleted = frozenset(topic_ids)
    try:
        brokers = client.call("Metadata", topics=[], allow_auto_topic_creation=False).brokers
        for broker in brokers:
            deleted &= _unknown_to(client, int(broker.node_id), topic_ids)
    except (BrokerUnreachableError, BrokerResponseError) as error:
        log.info("whether topics are deleted cannot be said: %s", error)
        return frozenset()
    return deleted if brokers else frozenset()


def _unknown_to(client: KafkaClient, node_id: int, topic_ids: Collection[str]) -> frozenset[str]:
    response = client.call(
        "Metadata",
        node_id,
        version_min=TOPIC_ID_ONLY_VERSION,
        topics=[{"topic_id": uuid.UUID(topic_id), "name": None} for topic_id in sorted(topic_ids)],
        allow_auto_topic_creation=False,
    )
    return frozenset(str(topic.topic_id) for topic in response.topics if topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID)
