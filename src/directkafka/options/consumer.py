"""Consumer strategies of Spark's direct API (``ConsumerStrategies``): what a direct stream reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final, assert_never

from directkafka.errors import OptionError
from directkafka.offsets import Ago, Committed, Earliest, Latest, Position, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.config_providers import with_provided_values
from directkafka.options.payloads import Payloads, payload_params
from directkafka.options.positions import read_position
from directkafka.options.source import AssignedPartitions, ChosenPartitions, Strategy, TopicNames, TopicPattern
from directkafka.options.spec import OptionSpec, RawOptions, shown
from directkafka.options.texts import check_type, fault_of_pattern, fault_of_topic, iso_duration_ms, list_of

GROUP_ID: Final = OptionSpec(
    name="group.id",
    kind="text",
    doc="The consumer group whose committed offsets a stream starts from, and to which commit_async commits.",
)
OFFSET_RESET: Final = OptionSpec(
    name="auto.offset.reset",
    kind="text",
    default="latest",
    doc="Where a stream starts in a partition for which neither an offset is given nor the group has one: earliest, "
    "latest, or by_duration and an ISO 8601 duration back from now, such as by_duration:PT10M (Kafka 4, KIP-1106); "
    "none makes that an error.",
)
_RESETS: Final[dict[str, Earliest | Latest | None]] = {
    "earliest": Earliest(), "smallest": Earliest(), "latest": Latest(), "largest": Latest(), "none": None
}  # fmt: skip
_BY_DURATION: Final = "by_duration:"

#: Where to start: an offset, ``"earliest"``, ``"latest"``, ``"-1000"``, ``"-10 minutes"``, or a time with a zone.
Offsets = Mapping[TopicPartition, int | str | datetime]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics, and those they get later.

    Attributes:
        topics: a topic's name, or several.
        kafka_params: Kafka's client settings by their dotted names, ``group.id`` and ``auto.offset.reset`` included.
        offsets: where to start in some partitions: an offset, ``"earliest"``, ``"latest"``, ``"-1000"`` (that many
            before the end), ``"-10 minutes"``, or a datetime with a zone, for the first record at or after it.
    """

    topics: str | Iterable[str]
    kafka_params: Mapping[str, object] = field(repr=False)
    offsets: Offsets | None = None


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose name matches a regular expression, and those that come later.

    Attributes:
        pattern: a Python regular expression; it may match any part of a name.
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


class ConsumerStrategy:
    """Base class for a strategy of your own. It must be picklable if the stream is checkpointed.

    Attributes:
        kafka_params, offsets: as for :class:`Subscribe`.
    """

    kafka_params: Mapping[str, object] = MappingProxyType({})
    offsets: Offsets | None = None

    def choose(self, topics: Mapping[str, int]) -> Iterable[TopicPartition]:
        """Choose the partitions to read; called on the driver for each batch.

        A partition that was not chosen before starts as a new partition does. One that is no longer chosen is a data
        loss, like one that is deleted.

        Args:
            topics: number of partitions of each topic in the cluster, by name, without Kafka's internal topics.
        """
        raise NotImplementedError


GivenStrategy = Subscribe | SubscribePattern | Assign | ConsumerStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """A consumer strategy, read and checked.

    Attributes:
        strategy: which partitions are read.
        offsets: where to start in the partitions that the program names.
        otherwise: where to start in the others, and in those that come later; None: such a partition is an error.
        group_id: the group that a stream starts from and commits to; None when none is given.
        client: the connection.
        payloads: what values and keys are, if they are more than bytes.
    """

    strategy: Strategy
    offsets: Mapping[TopicPartition, Position]
    otherwise: Position | None
    group_id: str | None
    client: ClientOptions
    payloads: Payloads = ()

    @classmethod
    def read(cls, strategy: GivenStrategy) -> ConsumerOptions:
        """Read what the program gives.

        Raises:
            OptionError: a client setting, topic, pattern or start is wrong, or there is nothing to read.
        """
        given = with_provided_values(RawOptions.read(strategy.kafka_params, where="kafka_params"))
        payloads, client_params = payload_params(strategy.kafka_params)
        names = (GROUP_ID.name, OFFSET_RESET.name)
        check_type(strategy.offsets or {}, Mapping, option="offsets", wanted="offsets by TopicPartition")
        list_of(TopicPartition, strategy.offsets or {}, option="offsets", wanted="offsets by TopicPartition")
        for partition, offset in (strategy.offsets or {}).items():
            if isinstance(offset, int) and offset < 0:
                raise OptionError(option="offsets", reason=f"expected an offset from 0, found {offset} for {partition}")
        starts = {
            partition: read_position(where, option="offsets") for partition, where in (strategy.offsets or {}).items()
        }
        read = _read_strategy(strategy)
        _check_offsets(strategy.offsets or {}, read)
        group_id = given.text(GROUP_ID) or None
        return cls(
            strategy=read,
            offsets=starts,
            otherwise=_otherwise(group_id, given.value(OFFSET_RESET)),
            group_id=group_id,
            client=ClientOptions.from_kafka_params(client_params, where="kafka_params", used_elsewhere=names),
            payloads=payloads,
        )


def _check_offsets(offsets: Offsets, strategy: Strategy) -> None:
    """Refuse starts for partitions that are not read: with a typo, the right one would start where the reset says."""
    match strategy:
        case AssignedPartitions(partitions):
            strange = [partition for partition in offsets if partition not in partitions]
        case TopicNames(names):
            strange = [partition for partition in offsets if partition.topic not in names]
        case TopicPattern() | ChosenPartitions():
            strange = []  # seen when the topics are known
        case _:
            assert_never(strategy)
    if strange:
        raise OptionError(option="offsets", reason=f"names what is not read: {', '.join(map(str, sorted(strange)))}")


def consumer_specs() -> tuple[OptionSpec, ...]:
    """The settings of a consumer that count beside the client's."""
    return (GROUP_ID, OFFSET_RESET)


def _otherwise(group_id: str | None, reset: str) -> Position | None:
    position = _reset_position(reset.strip())
    return position if group_id is None else Committed(group_id, position)


def _reset_position(reset: str) -> Earliest | Latest | Ago | None:
    if reset.lower() in _RESETS:
        return _RESETS[reset.lower()]
    back_ms = iso_duration_ms(reset[len(_BY_DURATION) :]) if reset.lower().startswith(_BY_DURATION) else None
    if back_ms is None:
        raise OptionError(
            option=OFFSET_RESET.name,
            where="kafka_params",
            reason=f"expected {', '.join(_RESETS)}, or by_duration:PT10M, found {shown(reset)}",
        )
    return Ago(back_ms)


def _read_strategy(given: GivenStrategy) -> Strategy:
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
            _check_topics((partition.topic for partition in chosen), option="partitions")
            return AssignedPartitions(chosen)
        case ConsumerStrategy():
            return ChosenPartitions(given.choose)
    assert_never(given)


def _check_topics(names: Iterable[str], *, option: str) -> None:
    for name in names:
        if fault := fault_of_topic(name):
            raise OptionError(option=option, reason=fault)
