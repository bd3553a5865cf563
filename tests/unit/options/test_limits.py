"""Rates as Spark's settings say them, and as a program says them of single partitions."""

from __future__ import annotations

from typing import Any

import pytest

from directkafka.errors import OptionError
from directkafka.offsets import TopicPartition
from directkafka.options.limits import FeedbackPolicy, RatePolicy
from directkafka.spark.dstream.state import PerPartitionConfig, rates_of

PARTITION = TopicPartition("flights", 0)


def test_every_setting_of_spark_s_is_read_under_its_name() -> None:
    settings = {
        "spark.streaming.kafka.maxRatePerPartition": "1000",
        "spark.streaming.kafka.minRatePerPartition": "5",
        "spark.streaming.backpressure.enabled": "true",
        "spark.streaming.backpressure.initialRate": "400",
        "spark.streaming.backpressure.rateEstimator": "pid",
        "spark.streaming.backpressure.pid.proportional": "0.5",
        "spark.streaming.backpressure.pid.integral": "0.1",
        "spark.streaming.backpressure.pid.derived": "0.3",
        "spark.streaming.backpressure.pid.minRate": "50",
        "spark.streaming.unpersist": "true",
        "spark.master": "local[2]",
    }
    feedback = FeedbackPolicy(proportional=0.5, integral=0.1, derivative=0.3, rate_min=50.0)
    assert RatePolicy.from_spark_conf(settings) == RatePolicy(
        rate_max=1_000, rate_min=5, initial_rate=400, feedback=feedback
    )


def test_without_settings_nothing_is_bounded_and_there_is_no_feedback() -> None:
    assert RatePolicy.from_spark_conf({}) == RatePolicy()


def test_a_rate_of_0_is_no_bound_as_in_spark() -> None:
    names = ("spark.streaming.kafka.maxRatePerPartition", "spark.streaming.backpressure.initialRate")
    assert RatePolicy.from_spark_conf(dict.fromkeys(names, "0")) == RatePolicy()
    for name in names:
        with pytest.raises(OptionError, match="a whole number from 0"):
            RatePolicy.from_spark_conf({name: "-1"})


def test_a_lowest_rate_of_nothing_is_refused_for_it_would_never_be_left() -> None:
    with pytest.raises(OptionError, match=r"pid\.minRate.*above 0, such as 0.2, found '0'"):
        RatePolicy.from_spark_conf({"spark.streaming.backpressure.pid.minRate": "0"})


class Rates(PerPartitionConfig):
    def __init__(self, maximum: Any, minimum: Any = None) -> None:
        self._maximum, self._minimum = maximum, minimum

    def max_rate_per_partition(self, topic_partition: TopicPartition) -> int | None:
        return self._maximum  # type: ignore[no-any-return]

    def min_rate_per_partition(self, topic_partition: TopicPartition) -> int | None:
        return self._minimum  # type: ignore[no-any-return]


@pytest.mark.parametrize("rate", [0, -1, 2.5, True, "7"])
def test_a_rate_of_a_partition_is_a_whole_number_from_1(rate: object) -> None:
    for config in (Rates(rate), Rates(None, rate)):
        with pytest.raises(OptionError, match=r"expected a whole number from 1 for flights-0, or None"):
            rates_of(config, {PARTITION: None})


def test_a_partition_without_a_rate_of_its_own_has_the_settings() -> None:
    rates = rates_of(Rates(7), {PARTITION: None})
    assert (rates.maxima, rates.minima) == ({PARTITION: 7}, {})
    assert rates_of(None, {PARTITION: None}).maxima == {}
