"""Limits on a batch's offsets, in all, by topic and by partition; and the rates of a direct stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from directkafka.errors import OptionError
from directkafka.offsets import TopicPartition
from directkafka.options.spec import INT_MAX, LONG_MAX, OptionSpec, RawOptions, option, read_json, shown, specs_of
from directkafka.options.texts import fault_of_topic, whole_number

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


def read_limits_by_topic(given: RawOptions) -> tuple[dict[str, int], dict[TopicPartition, int]]:
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


def _limit(given: RawOptions, topic: str, limit: object) -> int:
    # bool is a subclass of int, and JSON's true is not a number.
    if type(limit) is int and 1 <= limit <= LONG_MAX:
        return limit
    raise _error(given, topic, limit)


def _error(given: RawOptions, topic: str, value: object) -> OptionError:
    return given.error(LIMITS_BY_TOPIC.name, f"expected {_FORM}; {topic!r} has {shown(value)}")


_BACKPRESSURE: Final = OptionSpec(
    name="spark.streaming.backpressure.enabled",
    kind="boolean",
    default="false",
    doc="Whether batches are cut to what the last ones could process, as Spark's PID controller does it.",
)
_ESTIMATOR: Final = OptionSpec(
    name="spark.streaming.backpressure.rateEstimator",
    kind="choice",
    choices=("pid",),
    default="pid",
    doc="Who says how fast batches may be read.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackPolicy:
    """The constants of the PID controller, each explained by its :class:`OptionSpec`."""

    proportional: float = option(
        1.0,
        name="spark.streaming.backpressure.pid.proportional",
        doc="Weight of the difference between the last rate and the one that was reached.",
    )
    integral: float = option(
        0.2,
        name="spark.streaming.backpressure.pid.integral",
        doc="Weight of the records that have piled up in batches that wait.",
    )
    derivative: float = option(
        0.0,
        name="spark.streaming.backpressure.pid.derived",
        doc="Weight of the change of that difference.",
    )
    rate_min: float = option(
        100.0,
        name="spark.streaming.backpressure.pid.minRate",
        # A rate of nothing would never be left: a batch without records tells the controller nothing.
        without_zero=True,
        doc="Lowest rate that comes out, in records a second.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePolicy:
    """What the user decides about rates.

    Attributes:
        feedback: the controller's constants; None without backpressure.

    The other fields are named, bounded and explained by their :class:`OptionSpec`; 0 stands for no bound.
    """

    rate_max: int = option(
        0,
        name="spark.streaming.kafka.maxRatePerPartition",
        doc="Most records a second of each partition. 0: no bound.",
    )
    rate_min: int = option(
        1,
        name="spark.streaming.kafka.minRatePerPartition",
        minimum=1,
        doc="Fewest records a batch of each partition that has so many, however low the rate is.",
    )
    initial_rate: int = option(
        0,
        name="spark.streaming.backpressure.initialRate",
        doc="Records a second of all partitions together until the controller knows a rate. 0: no bound.",
    )
    feedback: FeedbackPolicy | None = None

    @classmethod
    def from_spark_conf(cls, conf: Mapping[str, str]) -> RatePolicy:
        """Read the settings.

        Args:
            conf: Spark's settings by name; all others are passed over.

        Raises:
            OptionError: a rate below its least one, or a value that is no number.
        """
        given = RawOptions.read({name: text for name, text in conf.items() if name.startswith("spark.streaming.")})
        given.value(_ESTIMATOR)
        feedback = FeedbackPolicy(**given.values(specs_of(FeedbackPolicy)))
        return cls(
            feedback=feedback if given.value(_BACKPRESSURE) else None,
            **given.values(specs_of(cls)),
        )


def rate_specs() -> tuple[OptionSpec, ...]:
    """Every setting, in the order of the reference page."""
    return (*specs_of(RatePolicy).values(), _BACKPRESSURE, _ESTIMATOR, *specs_of(FeedbackPolicy).values())
