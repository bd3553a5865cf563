"""Descriptions of topics, as values, and the shape in which requests and answers name partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from directkafka.errors import BrokerResponseError
from directkafka.kafka.protocol.error_codes import ErrorCode, error_name, is_retriable
from directkafka.offsets import TopicPartition

__all__ = [
    "Leader",
    "TopicDescription",
    "by_leader",
    "by_topic",
    "check_answered",
    "leader_of",
]


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


def leader_of(one: TopicPartition, topics: Mapping[str, TopicDescription]) -> int:
    """Node id of a partition's leader.

    Raises:
        BrokerResponseError: it has none now, or is not there; both may pass.
    """
    topic = topics.get(one.topic)
    leader = topic.leaders.get(one.partition) if topic is not None else None
    if leader is None or leader.node_id is None:
        code = ErrorCode.LEADER_NOT_AVAILABLE if leader is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise BrokerResponseError(
            api="Metadata", code=code, name=error_name(code), retriable=is_retriable(code), subject=str(one)
        )
    return leader.node_id


def by_leader(
    partitions: Iterable[TopicPartition], topics: Mapping[str, TopicDescription]
) -> dict[int, list[TopicPartition]]:
    """The partitions by their leader's node id: a question about all of them is one request for each leader.

    Raises:
        BrokerResponseError: as :func:`leader_of`.
    """
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for one in sorted(partitions):
        found[leader_of(one, topics)].append(one)
    return dict(found)


def by_topic(
    partitions: Iterable[TopicPartition], field: str, item: Callable[[TopicPartition], Any], *, name: str = "name"
) -> list[dict[str, Any]]:
    """Kafka's nesting of partitions in requests: ``[{"name": topic, field: [item, ...]}, ...]``."""
    nested: dict[str, list[Any]] = defaultdict(list)
    for one in sorted(partitions):
        nested[one.topic].append(item(one))
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
