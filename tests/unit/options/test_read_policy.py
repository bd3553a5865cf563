"""How tasks read, as Spark's settings say it."""

from __future__ import annotations

import logging

import pytest

from directkafka.errors import OptionError
from directkafka.options.read_policy import ReadPolicy


def test_the_settings_are_read_under_spark_s_names(caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        "spark.streaming.kafka.allowNonConsecutiveOffsets": "false",
        "spark.streaming.kafka.consumer.poll.ms": "2000",
        "spark.streaming.kafka.maxRatePerPartition": "100",
        "spark.master": "local[2]",
    }
    with caplog.at_level(logging.WARNING, "directkafka"):
        assert ReadPolicy.from_spark_conf(settings) == ReadPolicy(may_have_gaps=False, poll_timeout_ms=2_000)
        assert ReadPolicy.from_spark_conf({}) == ReadPolicy(may_have_gaps=True, poll_timeout_ms=120_000)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("name", "text"), [("allowNonConsecutiveOffsets", "perhaps"), ("consumer.poll.ms", "0"), ("consumer.poll.ms", "1s")]
)
def test_a_value_of_another_kind_is_refused(name: str, text: str) -> None:
    with pytest.raises(OptionError, match=name):
        ReadPolicy.from_spark_conf({f"spark.streaming.kafka.{name}": text})


def test_settings_of_spark_s_cache_of_consumers_are_passed_over_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "directkafka"):
        ReadPolicy.from_spark_conf(
            {f"spark.streaming.kafka.consumer.cache.{setting}": "1" for setting in ("enabled", "maxCapacity")}
        )
    [message] = caplog.messages
    assert "cache.enabled, spark.streaming.kafka.consumer.cache.maxCapacity (executors keep" in message
