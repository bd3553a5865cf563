"""What a transactional writer takes of Kafka's names."""

from __future__ import annotations

import logging

import pytest

from directkafka.errors import OptionError
from directkafka.options.producer import TransactionOptions

SERVERS = {"bootstrap.servers": "one:9092"}


def test_a_producers_names_are_read_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        options = TransactionOptions.from_kafka_params(
            {
                **SERVERS,
                "compression.type": "lz4",
                "transaction.timeout.ms": "5000",
                "acks": "all",
                "enable.idempotence": True,
                "request.timeout.ms": 7,
            }
        )
    assert (options.producer.compression, options.timeout_ms, options.client.request_timeout_ms) == ("lz4", 5_000, 7)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("name", "value"), [("acks", "1"), ("enable.idempotence", "false"), ("transactional.id", "mine")]
)
def test_what_can_only_be_another_value_is_refused_with_the_reason(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=r"leave it out|name_prefix"):
        TransactionOptions.from_kafka_params({**SERVERS, name: value})


def test_what_would_change_the_rows_is_refused() -> None:
    with pytest.raises(OptionError, match="interceptors can change records"):
        TransactionOptions.from_kafka_params({**SERVERS, "interceptor.classes": "x"})


@pytest.mark.parametrize("value", ["999", "soon"])
def test_a_timeout_out_of_bounds_is_refused(value: str) -> None:
    with pytest.raises(OptionError, match="a whole number from 1000"):
        TransactionOptions.from_kafka_params({**SERVERS, "transaction.timeout.ms": value})
