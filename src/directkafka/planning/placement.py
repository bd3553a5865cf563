"""Where tasks should run: location strategies, and the executor that each range prefers.

The strategies are those of Spark's direct API (``LocationStrategies``). Spark takes a preference as a wish: a task
runs elsewhere when its executor stays busy for longer than ``spark.locality.wait``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from directkafka.offsets import OffsetRange, TopicPartition

__all__ = [
    "Executor",
    "LocationStrategy",
    "Placement",
    "PreferBrokers",
    "PreferConsistent",
    "PreferFixed",
    "place",
]


@dataclass(frozen=True, slots=True)
class PreferConsistent:
    """A partition prefers the same executor in every batch, so that its connection is found there again."""


@dataclass(frozen=True, slots=True)
class PreferBrokers:
    """An executor on the host of the partition's leader; for executors that run beside the brokers."""


@dataclass(frozen=True, slots=True)
class PreferFixed:
    """An executor on a host that is named; as :class:`PreferConsistent` for partitions that are not.

    Attributes:
        hosts: a host by partition, spelled as Spark spells it (see the executors' page).
    """

    hosts: Mapping[TopicPartition, str] = field(default_factory=dict)


LocationStrategy = PreferBrokers | PreferConsistent | PreferFixed


@dataclass(frozen=True, slots=True, order=True)
class Executor:
    """One of Spark's executors.

    Attributes:
        host: as Spark knows it.
        executor_id: Spark's identifier of it.
    """

    host: str
    executor_id: str

    @property
    def location(self) -> str:
        """How Spark writes a preference for one executor (``ExecutorCacheTaskLocation``)."""
        return f"executor_{self.host}_{self.executor_id}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Which executors ranges prefer.

    Attributes:
        locations: Spark's text by range, in the ranges' order; empty where there is no preference.
        hosts_without_executors: hosts that a strategy asked for, and that have none.
    """

    locations: tuple[str, ...] = ()
    hosts_without_executors: tuple[str, ...] = ()


def place(
    ranges: Sequence[OffsetRange],
    strategy: LocationStrategy,
    executors: Iterable[Executor],
    leader_hosts: Mapping[TopicPartition, str],
) -> Placement:
    """Choose an executor for each range.

    Neighbouring partitions of a topic go to different executors, and a partition stays with its executor for as
    long as there are the same ones.

    Args:
        ranges: what is read.
        strategy: the user's.
        executors: those that are there; with none (``local`` mode) there is no preference.
        leader_hosts: the host of each partition's leader.
    """
    there = sorted(executors)
    if not there:
        return Placement()
    wanted = _wanted_hosts(strategy, leader_hosts)
    on_host = {host: [one for one in there if one.host == host] for host in set(wanted.values())}
    locations = []
    for one in ranges:
        candidates = on_host.get(wanted.get(one.topic_partition, "")) or there
        locations.append(candidates[_number(one.topic_partition) % len(candidates)].location)
    named = {wanted[one.topic_partition] for one in ranges if one.topic_partition in wanted}
    return Placement(tuple(locations), tuple(sorted(host for host in named if not on_host[host])))


def _wanted_hosts(
    strategy: LocationStrategy, leader_hosts: Mapping[TopicPartition, str]
) -> Mapping[TopicPartition, str]:
    match strategy:
        case PreferFixed(hosts):
            return hosts
        case PreferBrokers():
            return leader_hosts
        case PreferConsistent():
            return {}


def _number(one: TopicPartition) -> int:
    # Not hash(), which another process has otherwise.
    return zlib.crc32(one.topic.encode()) + one.partition
