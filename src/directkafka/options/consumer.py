"""What a direct stream reads: the consumer strategies of Spark's direct API (``ConsumerStrategies``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from directkafka.errors import OptionError
from directkafka.offsets import Committed, Earliest, Latest, Position, TopicPartition
from directkafka.options.arguments import check_type, list_of
from directkafka.options.client import ClientOptions
from directkafka.options.source import AssignedPartitions, Strategy, TopicNames, TopicPattern
from directkafka.options.spec import Given, OptionSpec, shown
from directkafka.options.texts import fault_of_pattern, fault_of_topic

__all__ = ["Assign", "ConsumerOptions", "ConsumerStrategy", "Subscribe", "SubscribePattern", "consumer_specs"]

GROUP_ID: Final = OptionSpec(
    name="group.id",
    kind="text",
    doc="The consumer group whose committed offsets a stream starts from, and to which commit_async commits.",
)
OFFSET_RESET: Final = OptionSpec(
    name="auto.offset.reset",
    kind="choice",
    choices=("earliest", "latest", "none", "smallest", "largest"),
    default="latest",
    doc="Where a stream starts in a partition for which neither an offset is given nor the group has one; none makes "
    "that an error.",
)

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics, and those they get later.

    Attributes:
        topics: a topic's name, or several.
        kafka_params: Kafka's dotted client names, ``group.id`` and ``auto.offset.reset`` among them.
        offsets: where to start in some partitions.
    """

    topics: str | Iterable[str]
    kafka_params: Mapping[str, object] = field(repr=False)
    offsets: Offsets | None = None


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics in whose name a regular expression is found, and those that come later.

    Attributes:
        pattern: searched for in the names.
        kafka_params, offsets: as for :class:`Subscribe`.
    """

    pattern: str
    kafka_params: Mapping[str, object] = field(repr=False)
    offsets: Offsets | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions and no others.

    Attributes:
        partitions: which.
        kafka_params, offsets: as for :class:`Subscribe`.
    """

    partitions: Iterable[TopicPartition]
    kafka_params: Mapping[str, object] = field(repr=False)
    offsets: Offsets | None = None


ConsumerStrategy = Subscribe | SubscribePattern | Assign


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """A consumer strategy, read and checked.

    Attributes:
        strategy: which partitions are read.
        offsets: where to start in the partitions that the program names.
        otherwise: where to start in the others, and in those that come later; None: it is an error not to know.
        group_id: to commit to; None when none is given.
        client: the connection.
    """

    strategy: Strategy
    offsets: Offsets
    otherwise: Position | None
    group_id: str | None
    client: ClientOptions

    @classmethod
    def read(cls, strategy: ConsumerStrategy) -> ConsumerOptions:
        """Read what the program gives.

        Raises:
            OptionError: a client setting that is wrong, no topic, a pattern that is none, a negative offset.
        """
        given = Given.read(strategy.kafka_params, where="kafka_params")
        names = (GROUP_ID.name, OFFSET_RESET.name)
        check_type(strategy.offsets or {}, Mapping, option="offsets", wanted="offsets by TopicPartition")
        list_of(TopicPartition, strategy.offsets or {}, option="offsets", wanted="offsets by TopicPartition")
        for one, offset in (strategy.offsets or {}).items():
            if offset < 0:
                raise OptionError(option="offsets", reason=f"expected an offset from 0, found {offset} for {one}")
        read = _read_strategy(strategy)
        _check_offsets(strategy.offsets or {}, read)
        group_id = given.text(GROUP_ID) or None
        return cls(
            strategy=read,
            offsets=dict(strategy.offsets or {}),
            otherwise=_otherwise(group_id, given.value(OFFSET_RESET)),
            group_id=group_id,
            client=ClientOptions.from_kafka_params(strategy.kafka_params, where="kafka_params", used_elsewhere=names),
        )


def _check_offsets(offsets: Offsets, strategy: Strategy) -> None:
    """Refuse starts in what is not read: a typo would start the partition that is meant where the reset says."""
    match strategy:
        case AssignedPartitions(partitions):
            strange = [one for one in offsets if one not in partitions]
        case TopicNames(names):
            strange = [one for one in offsets if one.topic not in names]
        case TopicPattern():
            strange = []  # seen when the topics are known
        case _:
            assert_never(strategy)
    if strange:
        raise OptionError(option="offsets", reason=f"names what is not read: {', '.join(map(str, sorted(strange)))}")


def consumer_specs() -> tuple[OptionSpec, ...]:
    """The settings of a consumer that count beside the client's."""
    return (GROUP_ID, OFFSET_RESET)


def _otherwise(group_id: str | None, reset: str) -> Position | None:
    positions: dict[str, Earliest | Latest] = {
        "earliest": Earliest(), "smallest": Earliest(), "latest": Latest(), "largest": Latest()
    }  # fmt: skip
    position = positions.get(reset)
    return position if group_id is None else Committed(group_id, position)


def _read_strategy(given: ConsumerStrategy) -> Strategy:
    match given:
        case Subscribe(topics):
            given_topics = (topics,) if isinstance(topics, str) else topics
            names = tuple(dict.fromkeys(list_of(str, given_topics, option="topics", wanted="names of topics")))
            if not all(names) or not names:
                raise OptionError(option="topics", reason="names no topic to subscribe to")
            _check_topics(names, option="topics")
            return TopicNames(names)
        case SubscribePattern(pattern):
            check_type(pattern, str, option="pattern", wanted="a regular expression as text")
            if fault := fault_of_pattern(pattern):
                raise OptionError(option="pattern", reason=f"{shown(pattern)} {fault}")
            return TopicPattern(pattern)
        case Assign(partitions):
            wanted = "a list of TopicPartition"
            chosen = tuple(dict.fromkeys(list_of(TopicPartition, partitions, option="partitions", wanted=wanted)))
            if not chosen:
                raise OptionError(option="partitions", reason="names no partition to read")
            _check_topics((one.topic for one in chosen), option="partitions")
            return AssignedPartitions(chosen)
    assert_never(given)


def _check_topics(names: Iterable[str], *, option: str) -> None:
    for name in names:
        if fault := fault_of_topic(name):
            raise OptionError(option=option, reason=fault)
