"""What a group's answer to offsets means for the batch."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from directkafka.errors import BrokerResponseError, BrokerUnreachableError, KafkaError
from directkafka.errors.kafka import TransactionFencedError
from directkafka.offsets import TopicPartition
from directkafka.sinks.kafka.store import KafkaStore

ENDS = {TopicPartition("flights", 0): 30}


class Transaction:
    """Answers a group's offsets as it is told."""

    def __init__(self, *answers: KafkaError | frozenset[TopicPartition]) -> None:
        self._answers = list(answers)

    def commit_offsets(self, group: str, offsets: Any) -> frozenset[TopicPartition]:
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


def refusal(code: int, *, retriable: bool = False) -> BrokerResponseError:
    return BrokerResponseError(api="TxnOffsetCommit", code=code, name="N", retriable=retriable, subject="group lag")


def tell(answers: list[Any]) -> None:
    store, transaction = KafkaStore({"bootstrap.servers": "127.0.0.1:1"}), Transaction(*answers)
    for _ in answers:
        store._tell_group(transaction, "lag", ENDS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "warnings"),
    [
        ([frozenset()] * 2, 0),
        ([refusal(25)] * 3, 1),
        ([refusal(15, retriable=True), frozenset()], 1),
        ([frozenset(ENDS)] * 3, 1),
        # For another reason, and once more after it had passed.
        ([refusal(25), refusal(30), refusal(30)], 2),
        ([refusal(25), frozenset(), refusal(25)], 2),
    ],
)
def test_what_a_group_refuses_is_said_once_and_stops_nothing(
    caplog: pytest.LogCaptureFixture, answers: list[Any], warnings: int
) -> None:
    with caplog.at_level(logging.WARNING):
        tell(answers)
    assert len(caplog.records) == warnings


@pytest.mark.parametrize(
    "error",
    [
        refusal(53),
        # A request that arrives after the end would put offsets into no transaction.
        BrokerUnreachableError(addresses=("one:1",), timeout_ms=1, cause="no answer"),
        TransactionFencedError(api="AddOffsetsToTxn", transactional_id="a", producer_id=1, epoch=2, code=90, name="N"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_wrong_with_the_transaction_itself_is_raised(error: KafkaError) -> None:
    with pytest.raises(type(error)):
        tell([error])
