"""What Kafka's errors mean to a store."""

from __future__ import annotations

from typing import Any

import pytest

from directkafka.errors import (
    BrokerAccessError,
    BrokerResponseError,
    BrokerUnreachableError,
    KafkaError,
    OptionError,
    RowRejectedError,
    StoreAccessError,
    StoreRequestError,
    StoreUnavailableError,
)
from directkafka.errors.kafka import (
    BatchTooLargeError,
    DeliveryTimeoutError,
    RecordTooLargeError,
    SecondAttemptError,
    TransactionFencedError,
    TransactionTooSlowError,
)
from directkafka.pipeline.retry import may_pass
from directkafka.sinks.kafka.errors import error_for, translate

PARTITION: dict[str, Any] = {"topic": "flights", "partition": 0}


def answer(code: int, *, retriable: bool = False) -> BrokerResponseError:
    return BrokerResponseError(
        api="Produce", code=code, name="NAME", retriable=retriable, subject="topic flights", remedy="Give the right"
    )


def too_large(records: int) -> BatchTooLargeError:
    return BatchTooLargeError(
        api="Produce",
        code=10,
        name="NAME",
        retriable=False,
        subject="x",
        topic="x",
        records=records,
        size_bytes=9,
        raw_bytes=9,
    )


@pytest.mark.parametrize(
    ("error", "expected", "passes"),
    [
        (BrokerUnreachableError(addresses=("one:1",), timeout_ms=1, cause="refused"), StoreUnavailableError, True),
        (DeliveryTimeoutError(**PARTITION, records=1, tries=2, timeout_ms=1, cause="x"), StoreUnavailableError, True),
        (SecondAttemptError(transaction="directkafka.a/1/2", task="write/0"), StoreUnavailableError, True),
        (
            TransactionFencedError(api="EndTxn", transactional_id="a", producer_id=1, epoch=2, code=90, name="N"),
            StoreUnavailableError,
            True,
        ),
        (answer(7, retriable=True), StoreUnavailableError, True),
        (too_large(records=2), StoreUnavailableError, True),
        (too_large(records=1), RowRejectedError, False),
        (answer(29), StoreAccessError, False),
        (answer(53), StoreAccessError, False),
        (answer(50), OptionError, False),
        (answer(87), StoreRequestError, False),
        (BrokerAccessError(address="one:1", cause="no", remedy="Log in"), StoreAccessError, False),
        (RecordTooLargeError(**PARTITION, row=0, rows=1, size_bytes=9, size_bytes_max=8), RowRejectedError, False),
        (
            TransactionTooSlowError(transactional_id="a", elapsed_ms=9, budget_ms=8, timeout_ms=10),
            TransactionTooSlowError,
            False,
        ),
    ],
    ids=lambda parameter: type(parameter).__name__ if isinstance(parameter, KafkaError) else "",
)
def test_each_error_means_one_thing(error: KafkaError, expected: type[Exception], passes: bool) -> None:
    store_error = error_for(error, store="kafka one:1", sink="flights")
    assert type(store_error) is expected
    assert may_pass(store_error) == passes
    assert ".." not in str(store_error)


def test_errors_are_translated_where_they_leave() -> None:
    with pytest.raises(StoreAccessError, match="Give the right"), translate("kafka one:1"):
        raise answer(29)
