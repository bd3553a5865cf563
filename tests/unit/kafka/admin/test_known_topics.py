"""Topics that a broker with old metadata does not know yet."""

from __future__ import annotations

from typing import Any

import pytest

from directkafka.errors import BrokerResponseError
from directkafka.kafka.admin import known_topics as module
from directkafka.kafka.admin.known_topics import known_topics, leader_of
from directkafka.kafka.admin.topics import Leader, TopicDescription
from directkafka.offsets import TopicPartition

LEADER = Leader(node_id=1, host="b", port=9092, epoch=0)
FLIGHTS = TopicDescription(topic_id="id", internal=False, leaders={0: LEADER})


class Admin:
    """Knows the topic after so many questions."""

    def __init__(self, blind_looks: int) -> None:
        self.blind_looks = blind_looks

    def topics(self, names: Any) -> dict[str, TopicDescription]:
        self.blind_looks -= 1
        return dict.fromkeys(names, FLIGHTS) if self.blind_looks < 0 else {}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    monkeypatch.setattr(module, "_KNOWN_S_MAX", 0.5)


def test_a_topic_that_the_first_broker_does_not_know_is_asked_for_again() -> None:
    admin: Any = Admin(blind_looks=2)
    assert known_topics(admin, ["flights"]) == {"flights": FLIGHTS}
    admin = Admin(blind_looks=2)
    assert leader_of(admin, TopicPartition("flights", 0)) is LEADER


def test_a_topic_that_nobody_knows_is_left_out_and_has_no_leader_yet() -> None:
    admin: Any = Admin(blind_looks=10**6)
    assert known_topics(admin, ["flights"]) == {}
    with pytest.raises(BrokerResponseError, match="UNKNOWN_TOPIC_OR_PARTITION") as caught:
        leader_of(admin, TopicPartition("flights", 0))
    assert caught.value.retriable


def test_a_partition_that_the_topic_does_not_have_has_no_leader() -> None:
    admin: Any = Admin(blind_looks=0)
    with pytest.raises(BrokerResponseError, match="flights-7"):
        leader_of(admin, TopicPartition("flights", 7))
