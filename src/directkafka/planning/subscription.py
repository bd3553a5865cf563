"""Subscriptions: which partitions a strategy reads, of those that the cluster has."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import assert_never

from directkafka.offsets import TopicPartition
from directkafka.options.producer import is_ledger_topic
from directkafka.options.source import AssignedPartitions, ChosenPartitions, Strategy, TopicNames, TopicPattern
from directkafka.options.texts import list_of


@dataclass(frozen=True, slots=True)
class Selection:
    """What a strategy reads.

    Attributes:
        partitions: sorted; empty when a pattern is found in no topic's name yet.
        missing: topics that are asked for by name and do not exist, for ``TopicNotFoundError``.
    """

    partitions: tuple[TopicPartition, ...]
    missing: tuple[str, ...] = ()


def select(strategy: Strategy, partitions_by_topic: Mapping[str, int], internal: Collection[str]) -> Selection:
    """The partitions that the strategy reads, and the topics it asks for in vain.

    A pattern is searched for in the name, as Spark does (``re.search``, not a whole match), but with
    Python's regular expressions, which lack Java's ``\\p{...}`` classes and ``&&`` in sets. Partitions
    that are assigned and do not exist are passed over, as in Spark; only when none of them exists
    their topics are missing. Partitions that a function chooses and that do not exist are passed over.

    Args:
        strategy: from the options.
        partitions_by_topic: number of partitions of each topic of the cluster.
        internal: topics that Kafka itself uses; a pattern never reads them, a name does. So it is with topics that are
            called as pipelines' ledgers are.
    """
    match strategy:
        case TopicNames(topics):
            return Selection(
                partitions=_all_of(topics, partitions_by_topic),
                missing=tuple(sorted(set(topics).difference(partitions_by_topic))),
            )
        case TopicPattern(pattern):
            matching_topics = [
                topic for topic in partitions_by_topic if topic not in internal and _matches(pattern, topic)
            ]
            return Selection(partitions=_all_of(matching_topics, partitions_by_topic))
        case AssignedPartitions(partitions):
            present = [
                partition
                for partition in partitions
                if partition.partition < partitions_by_topic.get(partition.topic, 0)
            ]
            missing = () if present else {partition.topic for partition in partitions}
            return Selection(partitions=tuple(sorted(present)), missing=tuple(sorted(missing)))
        case ChosenPartitions():
            others = {topic: count for topic, count in partitions_by_topic.items() if topic not in internal}
            chosen = {
                partition
                for partition in _chosen(strategy, others)
                if partition.partition < partitions_by_topic.get(partition.topic, 0)
            }
            return Selection(partitions=tuple(sorted(chosen)))
        case _:
            assert_never(strategy)


def reads(strategy: Strategy, topic: str) -> bool:
    """Whether the strategy reads a topic of this name, be it there or not yet."""
    match strategy:
        case TopicNames(topics):
            return topic in topics
        case TopicPattern(pattern):
            return _matches(pattern, topic)
        case AssignedPartitions(partitions):
            return any(partition.topic == topic for partition in partitions)
        case ChosenPartitions():
            return any(partition.topic == topic for partition in _chosen(strategy, {topic: 1}))
        case _:
            assert_never(strategy)


def _chosen(strategy: ChosenPartitions, topics: Mapping[str, int]) -> list[TopicPartition]:
    return list_of(TopicPartition, strategy.choose(topics), option="choose", wanted="a list of TopicPartition")


def _matches(pattern: str, topic: str) -> bool:
    return not is_ledger_topic(topic) and re.search(pattern, topic) is not None


def _all_of(topics: Collection[str], partitions_by_topic: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic, partition)
        for topic in sorted(topics)
        for partition in range(partitions_by_topic.get(topic, 0))
    )
