"""Answers about partitions: one that leaves some out, or is about others, is refused and not believed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.errors import BrokerResponseError
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.admin.groups import commit_offsets
from directkafka.kafka.admin.leader_epochs import ended_epochs
from directkafka.kafka.admin.topics import Leader, TopicDescription, check_answered
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions

OWNER = ProducerIdentity(producer_id=7, epoch=3, transactional_id="directkafka.flights")
ASKED = {TopicPartition("flights", number): 5 for number in range(2)}
LEADERS = {number: Leader(node_id=1, host="one", port=9092, epoch=5) for number in range(2)}
FLIGHTS = TopicDescription(topic_id="", internal=False, leaders=LEADERS)


class Client:
    """Stands for ``KafkaClient``: answers about these partitions, whichever it is asked about."""

    def __init__(self, *answered: int) -> None:
        self.options = ClientOptions(bootstrap_servers=("one:9092",))
        self.answered = answered

    def call(self, api: str, *_: object, **values: Any) -> Any:
        if api == "FindCoordinator":
            return SimpleNamespace(error_code=0, node_id=1)
        if api == "Metadata":
            return SimpleNamespace(cluster_id="", topics=[], brokers=[])
        partitions = [
            SimpleNamespace(
                partition=partition, partition_index=partition, error_code=0, partition_error_code=0,
                end_offset=9, offset=9, leader_epoch=5,
            )
            for partition in self.answered
        ]  # fmt: skip
        topic = SimpleNamespace(name="flights", topic="flights", partitions=partitions, results_by_partition=partitions)
        return SimpleNamespace(topics=[topic], results_by_topic_v3_and_below=[topic], error_code=0)

    def address(self, _: int) -> tuple[str, int]:
        return "one", 9092


def coordinator(client: Any) -> Coordinator:
    return Coordinator(client, "directkafka.flights", transaction_timeout_ms=1_000, retry_ms_max=1_000)


def list_offsets(client: Any) -> object:
    return AdminClient(client)._offsets_at(ASKED, {"flights": FLIGHTS})


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "OffsetForLeaderEpoch": lambda client: ended_epochs(client, ASKED, {"flights": FLIGHTS}),
    "ListOffsets": list_offsets,
    "OffsetCommit": lambda client: commit_offsets(client, 1, "group", ASKED),
    "AddPartitionsToTxn": lambda client: coordinator(client).add_partitions(OWNER, list(ASKED)),
    "TxnOffsetCommit": lambda client: coordinator(client).commit_offsets(OWNER, "group", ASKED),
}


@pytest.mark.parametrize("api", QUESTIONS)
@pytest.mark.parametrize(("answered", "wrong"), [((0,), "flights-1"), ((0, 1, 7), "flights-7"), ((), "flights-0")])
def test_an_answer_about_other_partitions_is_refused(api: str, answered: tuple[int, ...], wrong: str) -> None:
    with pytest.raises(BrokerResponseError) as refused:
        QUESTIONS[api](Client(*answered))
    assert refused.value.api == api
    assert wrong in refused.value.subject


@pytest.mark.parametrize("api", QUESTIONS)
def test_an_answer_about_what_was_asked_is_taken_in_any_order(api: str) -> None:
    assert QUESTIONS[api](Client(1, 0)) == QUESTIONS[api](Client(0, 1))


def test_of_many_partitions_three_are_named() -> None:
    with pytest.raises(BrokerResponseError, match=r"flights-0, flights-1, flights-2 and more"):
        check_answered("ListOffsets", [TopicPartition("flights", number) for number in range(9)], [])
