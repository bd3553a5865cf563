"""How many offsets a batch may have: of all partitions together, of a topic, of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from directkafka.errors import OptionError
from directkafka.offsets import TopicPartition
from directkafka.options.spec import INT_MAX, LONG_MAX, Given, OptionSpec, read_json, shown
from directkafka.options.texts import fault_of_topic, whole_number

__all__ = ["LIMITS_BY_TOPIC", "NO_LIMITS", "NO_WAIT", "MinOffsets", "OffsetLimits", "read_limits_by_topic"]

_FORM: Final = 'JSON of offsets by topic, or by topic and partition: {"flights": 5000, "planes": {"0": 100}}'

LIMITS_BY_TOPIC: Final = OptionSpec(
    name="maxOffsetsPerTriggerByTopic",
    kind="json",
    doc="Most offsets of a batch in single topics, shared among a topic's partitions by their backlog, or in single "
    f"partitions: {_FORM}. Topics that are not named have no limit of their own. Counts together with "
    "maxOffsetsPerTrigger.",
    scope="streaming",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLimits:
    """Most offsets of a batch; what is None or not named is not limited.

    Attributes:
        total: of all partitions together.
        topics: of a topic's partitions together.
        partitions: of a partition.
    """

    total: int | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is limited."""
        return self.total is not None or bool(self.topics or self.partitions)


@dataclass(frozen=True, slots=True)
class MinOffsets:
    """How many offsets a batch waits for, and how long.

    Attributes:
        count: offsets that a batch should have.
        max_delay_ms: longest wait for them after the last batch, in milliseconds.
    """

    count: int
    max_delay_ms: int

    def after(self, waited_ms: float | None) -> int:
        """Offsets without which there is no batch, so long after the last one; None: there was none."""
        return 0 if waited_ms is None or waited_ms >= self.max_delay_ms else self.count


NO_LIMITS: Final = OffsetLimits()
#: A batch for every offset.
NO_WAIT: Final = MinOffsets(0, 0)


def read_limits_by_topic(given: Given) -> tuple[dict[str, int], dict[TopicPartition, int]]:
    """The limits of topics, and those of partitions.

    Raises:
        OptionError: the text is no JSON of that form, or a limit is not a whole number above 0.
    """
    topics: dict[str, int] = {}
    partitions: dict[TopicPartition, int] = {}
    if not given.has(LIMITS_BY_TOPIC):
        return topics, partitions
    for topic, limits in read_json(given, LIMITS_BY_TOPIC, _FORM).items():
        if fault := fault_of_topic(topic):
            raise given.error(LIMITS_BY_TOPIC.name, fault)
        if not isinstance(limits, dict):
            topics[topic] = _limit(given, topic, limits)
            continue
        for partition, limit in limits.items():
            number = whole_number(partition)
            if number is None or not 0 <= number <= INT_MAX:
                raise _error(given, topic, limits)
            partitions[TopicPartition(topic, number)] = _limit(given, topic, limit)
    return topics, partitions


def _limit(given: Given, topic: str, limit: object) -> int:
    # bool is a subclass of int, and JSON's true is not a number.
    if type(limit) is int and 1 <= limit <= LONG_MAX:
        return limit
    raise _error(given, topic, limit)


def _error(given: Given, topic: str, found: object) -> OptionError:
    return given.error(LIMITS_BY_TOPIC.name, f"expected {_FORM}; {topic!r} has {shown(found)}")
