"""Rates of a direct stream: the settings ``spark.streaming...`` of Spark's own, read once, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from directkafka.options.spec import Given, OptionSpec, option, specs_of

__all__ = ["FeedbackPolicy", "RatePolicy", "rate_specs"]

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
        kind="number",
        doc="Weight of the difference between the last rate and the one that was reached.",
    )
    integral: float = option(
        0.2,
        name="spark.streaming.backpressure.pid.integral",
        kind="number",
        doc="Weight of the records that have piled up in batches that wait.",
    )
    derivative: float = option(
        0.0,
        name="spark.streaming.backpressure.pid.derived",
        kind="number",
        doc="Weight of the change of that difference.",
    )
    rate_min: float = option(
        100.0,
        name="spark.streaming.backpressure.pid.minRate",
        kind="number",
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
        kind="integer",
        doc="Most records a second of each partition. 0: no bound.",
    )
    rate_min: int = option(
        1,
        name="spark.streaming.kafka.minRatePerPartition",
        kind="integer",
        minimum=1,
        doc="Fewest records a batch of each partition that has so many, however low the rate is.",
    )
    initial_rate: int = option(
        0,
        name="spark.streaming.backpressure.initialRate",
        kind="integer",
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
        given = Given.read({name: text for name, text in conf.items() if name.startswith("spark.streaming.")})
        given.value(_ESTIMATOR)
        feedback = FeedbackPolicy(**given.values(specs_of(FeedbackPolicy)))
        return cls(
            feedback=feedback if given.value(_BACKPRESSURE) else None,
            **given.values(specs_of(cls)),
        )


def rate_specs() -> tuple[OptionSpec, ...]:
    """Every setting, in the order of the reference page."""
    return (*specs_of(RatePolicy).values(), _BACKPRESSURE, _ESTIMATOR, *specs_of(FeedbackPolicy).values())
