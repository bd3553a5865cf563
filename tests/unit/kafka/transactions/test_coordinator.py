"""What the coordinator's answers lead to, with a client that answers from a script."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.errors.kafka import TransactionFencedError, TransactionStateError
from directkafka.kafka.protocol.error_codes import ErrorClass, error_class_of
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions

OWNER = ProducerIdentity(producer_id=7, epoch=3, transactional_id="directkafka.flights")
LOST = BrokerUnreachableError(addresses=("one:9092",), timeout_ms=1, cause="no answer")


class Client:
    """Stands for ``KafkaClient``: of each scripted item, an exception is raised, a number is the answer's code.

    Of a tuple each partition that is asked about has its own code.
    """

    def __init__(self, *script: Any) -> None:
        self.options = ClientOptions(bootstrap_servers=("one:9092",))
        self.script = deque(script)
        self.asked: list[str] = []
        self.values: list[dict[str, Any]] = []

    def call(self, api: str, node_id: int | None = None, *, version_min: int = 0, **values: Any) -> Any:
        if api == "Metadata":
            return SimpleNamespace(brokers=[])
        self.asked.append(api)
        if api == "FindCoordinator":
            return SimpleNamespace(error_code=0, node_id=1)
        answer = self.script.popleft()
        if isinstance(answer, Exception):
            raise answer
        self.values.append(values)
        codes = answer if isinstance(answer, tuple) else (answer,)
        topics = _answers(values.get("v3_and_below_topics", values.get("topics", [])), cycle(codes))
        return SimpleNamespace(
            error_code=codes[0],
            producer_id=7,
            producer_epoch=4,
            results_by_topic_v3_and_below=topics,
            topics=topics,
        )


def _answers(asked: list[dict[str, Any]], codes: Iterator[int]) -> list[SimpleNamespace]:
    topics = []
    for topic in asked:
        numbers = [
            partition["partition_index"] if isinstance(partition, dict) else partition
            for partition in topic["partitions"]
        ]
        partitions = [
            SimpleNamespace(partition_index=number, error_code=code, partition_error_code=code)
            for number, code in zip(numbers, codes, strict=False)
        ]
        topics.append(SimpleNamespace(name=topic["name"], partitions=partitions, results_by_partition=partitions))
    return topics


def coordinator(client: Client, retry_ms_max: int = 2_000) -> Coordinator:
    return Coordinator(client, "directkafka.flights", transaction_timeout_ms=1_000, retry_ms_max=retry_ms_max)


@pytest.mark.parametrize("code", [-1, 3, 7, 14, 19, 20, 51])
def test_what_may_pass_is_asked_again_at_the_same_place(code: int) -> None:
    client = Client(code, code, 0)
    coordinator(client).end(OWNER, commit=True)
    assert client.asked == ["FindCoordinator", "EndTxn", "EndTxn", "EndTxn"]


@pytest.mark.parametrize("moved", [15, 16, LOST], ids=str)
def test_a_coordinator_that_moved_is_found_again(moved: Any) -> None:
    client = Client(moved, 0)
    coordinator(client).end(OWNER, commit=True)
    assert client.asked == ["FindCoordinator", "EndTxn", "FindCoordinator", "EndTxn"]


def test_what_is_sent_again_is_the_same_question() -> None:
    client = Client(LOST, 0)
    assert coordinator(client).bump_epoch(OWNER).epoch == 4
    assert (client.values[-1]["producer_id"], client.values[-1]["producer_epoch"]) == (7, 3)


@pytest.mark.parametrize("code", [47, 49, 52, 90])
def test_another_owner_ends_the_tries_at_once(code: int) -> None:
    client = Client(code)
    with pytest.raises(TransactionFencedError, match=f"epoch 3 with error {code}"):
        coordinator(client).end(OWNER, commit=True)


def test_another_state_is_no_other_owner() -> None:
    with pytest.raises(TransactionStateError, match="48"):
        coordinator(Client(48)).end(OWNER, commit=True)


def test_a_missing_right_names_user_and_right() -> None:
    with pytest.raises(BrokerResponseError) as caught:
        coordinator(Client(53)).take_over()
    assert not caught.value.retriable
    assert "DESCRIBE and WRITE on the transactional id" in str(caught.value)


@pytest.mark.parametrize(("last", "error"), [(51, BrokerResponseError), (LOST, BrokerUnreachableError)], ids=str)
def test_what_does_not_pass_in_time_says_what_was_met_last(last: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        coordinator(Client(*[last] * 100), retry_ms_max=50).end(OWNER, commit=True)


def test_of_several_partitions_the_one_that_cannot_pass_decides() -> None:
    """55 says that a partition was not tried because of another one."""
    asked = [TopicPartition(f"topic-{number}", 0) for number in range(4)]
    with pytest.raises(BrokerResponseError) as caught:
        coordinator(Client((55, 3, 29, 55))).add_partitions(OWNER, asked)
    assert caught.value.code == 29
    assert "DESCRIBE and WRITE on the topic" in str(caught.value)
    assert "directkafka.flights, topic topic-2 with error 29" in str(caught.value)


def test_a_take_over_names_no_producer() -> None:
    client = Client(0)
    assert coordinator(client).take_over() == ProducerIdentity(
        producer_id=7, epoch=4, transactional_id="directkafka.flights"
    )
    assert (client.values[0]["producer_id"], client.values[0]["producer_epoch"]) == (-1, -1)


def test_offsets_go_to_the_groups_own_coordinator() -> None:
    client = Client(0, 0)
    coordinator(client).commit_offsets(OWNER, "lag", {TopicPartition("flights", 1): 30})
    assert client.asked == ["FindCoordinator", "AddOffsetsToTxn", "FindCoordinator", "TxnOffsetCommit"]
    (topic,) = client.values[1]["topics"]
    assert topic["partitions"][0]["committed_offset"] == 30


def test_offsets_of_topics_that_are_gone_are_left_out_at_once() -> None:
    client = Client(0, (0, 3, 3))
    asked = [TopicPartition(f"topic-{number}", number) for number in range(3)]
    missing = coordinator(client).commit_offsets(OWNER, "lag", dict.fromkeys(asked, 30))
    assert missing == set(asked[1:])
    assert client.asked.count("TxnOffsetCommit") == 1


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            [30],
            "AddOffsetsToTxn for transactional id directkafka.flights, group lag with error 30 .* READ on the group",
        ),
        ([0, 25], "TxnOffsetCommit for transactional id directkafka.flights, group lag with error 25"),
        ([0, (3, 29)], "group lag, topic topic-1 with error 29 .* DESCRIBE and READ on the topic"),
    ],
)
def test_a_refused_group_is_named_with_what_it_needs(script: list[Any], message: str) -> None:
    asked = [TopicPartition(f"topic-{number}", 0) for number in range(2)]
    with pytest.raises(BrokerResponseError, match=message):
        coordinator(Client(*script)).commit_offsets(OWNER, "lag", dict.fromkeys(asked, 30))


def test_a_code_that_nobody_knows_is_a_refusal() -> None:
    assert error_class_of(4711) is ErrorClass.REFUSED


def test_each_answer_counts_by_itself() -> None:
    """The first answer names both partitions and is not final; the second one leaves a partition out."""
    client = Client((51, 51), 0)
    first = client.call

    def call(api: str, node_id: int | None = None, **values: Any) -> Any:
        answer = first(api, node_id, **values)
        if api == "AddPartitionsToTxn" and not client.script:
            answer.results_by_topic_v3_and_below.pop()
        return answer

    client.call = call  # type: ignore[method-assign]
    asked = [TopicPartition(f"topic-{number}", 0) for number in range(2)]
    with pytest.raises(BrokerResponseError, match="topic-1-0"):
        coordinator(client).add_partitions(OWNER, asked)
