from __future__ import annotations

import pytest

from directkafka.errors import BrokerResponseError, KafkaError
from directkafka.errors.kafka import BatchTooLargeError, ProducerFencedError, ProducerStateError
from directkafka.kafka.producer.sender import ProduceOutcome, classify, refusal
from directkafka.kafka.records.encoder import EncodedBatch, ProducerIdentity
from directkafka.offsets import TopicPartition

IDENTITY = ProducerIdentity(producer_id=4711, epoch=3)
BATCH = EncodedBatch(
    target=TopicPartition("flights", 2), data=memoryview(bytes(1234)), records=50, raw_bytes=5678, base_sequence=100
)  # fmt: skip


def outcome(code: int, tries: int = 1, has_earlier: bool = False) -> ProduceOutcome:
    return classify(code, tries=tries, has_earlier=has_earlier)


def test_success_is_success_whatever_the_try() -> None:
    assert outcome(0) is outcome(0, tries=3) is ProduceOutcome.WRITTEN


def test_a_duplicate_is_the_success_of_an_earlier_try() -> None:
    assert outcome(46, tries=2) is ProduceOutcome.WRITTEN


def test_a_duplicate_at_the_first_try_was_written_by_somebody_else_and_is_refused() -> None:
    assert outcome(46, tries=1) is ProduceOutcome.REFUSED


@pytest.mark.parametrize("code", [3, 5, 6, 56, 74, 75])
def test_a_leader_that_is_none_any_more_is_looked_up_again(code: int) -> None:
    assert outcome(code) is ProduceOutcome.AGAIN_ELSEWHERE


@pytest.mark.parametrize("code", [7, 19, 20, 51])
def test_what_passes_by_itself_is_tried_again_where_it_was(code: int) -> None:
    assert outcome(code) is ProduceOutcome.AGAIN


def test_out_of_order_is_tried_again_only_while_an_earlier_batch_is() -> None:
    assert outcome(45, has_earlier=True) is ProduceOutcome.AGAIN
    assert outcome(45, tries=2) is ProduceOutcome.REFUSED


@pytest.mark.parametrize("code", [10, 18, 29, 47, 48, 49, 53, 59, 76, 87, 90, 120])
def test_what_does_not_pass_is_refused(code: int) -> None:
    assert outcome(code, tries=2, has_earlier=True) is ProduceOutcome.REFUSED


@pytest.mark.parametrize(("code", "name"), [(47, "INVALID_PRODUCER_EPOCH"), (90, "PRODUCER_FENCED")])
def test_a_newer_producer_is_told_with_both_names(code: int, name: str) -> None:
    error = refusal(code, None, BATCH, IDENTITY)
    assert isinstance(error, ProducerFencedError)
    assert (error.topic, error.partition, error.producer_id, error.epoch) == ("flights", 2, 4711, 3)
    assert (error.code, error.name) == (code, name)


@pytest.mark.parametrize("code", [45, 46, 48, 49, 59, 120])
def test_a_state_that_is_not_ours_is_told_with_the_sequence_number(code: int) -> None:
    error = refusal(code, None, BATCH, IDENTITY)
    assert isinstance(error, ProducerStateError)
    assert (error.code, error.base_sequence, error.producer_id, error.epoch) == (code, 100, 4711, 3)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (10, "max.message.bytes: a batch of 50 records has 1234 bytes"),
        (18, "segment.bytes: a batch of 50 records has 1234 bytes"),
        (29, "WRITE on the topic"),
        (53, "WRITE on the transactional id"),
        (76, "compression.type"),
        (87, "must have a key"),
        (2000, "The broker's log may say more"),
    ],
)
def test_a_refusal_says_what_to_do(code: int, words: str) -> None:
    error = refusal(code, None, BATCH, IDENTITY)
    assert isinstance(error, BrokerResponseError)
    assert words in str(error)
    assert (error.api, error.code) == ("Produce", code)


def test_a_batch_that_is_too_large_is_told_with_its_numbers() -> None:
    error = refusal(10, None, BATCH, IDENTITY)
    assert isinstance(error, BatchTooLargeError)
    assert (error.topic, error.records, error.size_bytes, error.raw_bytes) == ("flights", 50, 1234, 5678)


def test_the_broker_s_own_words_are_told() -> None:
    error: KafkaError = refusal(87, "Compacted topic cannot accept message without key", BATCH, IDENTITY)
    assert "flights-2: Compacted topic cannot accept message without key" in str(error)
