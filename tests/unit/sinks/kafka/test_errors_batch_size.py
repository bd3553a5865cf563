"""How batches become small enough."""

from __future__ import annotations

import pytest

from directkafka.errors import StoreUnavailableError
from directkafka.errors.kafka import BatchTooLargeError
from directkafka.options.producer import TransactionOptions
from directkafka.sinks.kafka.errors import error_for, refused_batch, with_batch_size, with_smaller_batches


def options(batch_size: int = 1_000) -> TransactionOptions:
    return TransactionOptions.from_kafka_params({"bootstrap.servers": "one:1", "batch.size": batch_size})


def refused(size_bytes: int, raw_bytes: int = 0, records: int = 10) -> BatchTooLargeError:
    return BatchTooLargeError(
        api="Produce", code=10, name="MESSAGE_TOO_LARGE", retriable=False, subject="flights-0", topic="flights",
        records=records, size_bytes=size_bytes, raw_bytes=raw_bytes or size_bytes,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("size_bytes", "raw_bytes", "limit_bytes", "expected"),
    [
        (1_000, 1_000, None, 500),
        # It was not full: half of what it was, not of what it could have been.
        (600, 600, None, 300),
        (1_000, 1_000, 100, 100),
        (1_000, 1_000, 900, 500),
        # Compressed ten times: about as much of the content as fits.
        (100, 1_000, None, 500),
        (100, 1_000, 20, 200),
    ],
)
def test_the_next_try_has_batches_of_half_the_size_or_less(
    size_bytes: int, raw_bytes: int, limit_bytes: int | None, expected: int
) -> None:
    transaction_options = with_smaller_batches(options(), refused(size_bytes, raw_bytes), limit_bytes)
    assert transaction_options.producer.batch_size_bytes == expected


def test_batches_get_smaller_with_every_refusal_until_they_hold_one_record() -> None:
    transaction_options = options()
    for _ in range(20):
        transaction_options = with_smaller_batches(
            transaction_options, refused(transaction_options.producer.batch_size_bytes), None
        )
    assert transaction_options.producer.batch_size_bytes == 1


def test_a_size_that_is_smaller_already_stays() -> None:
    assert with_batch_size(options(batch_size=300), 500).producer.batch_size_bytes == 300


def test_a_refused_batch_is_found_behind_what_it_became() -> None:
    many, single = refused(1_000), refused(1_000, records=1)
    outer = error_for(many, store="kafka")
    assert isinstance(outer, StoreUnavailableError)
    outer.__cause__ = many
    assert refused_batch(outer) is many
    assert refused_batch(single) is None
    assert refused_batch(ValueError()) is None
