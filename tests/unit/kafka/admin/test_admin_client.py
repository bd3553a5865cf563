"""How often the driver asks, with a client that answers from a script."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.kafka.admin.admin_client import AdminClient, Leader, TopicDescription
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.snapshot import EndedEpoch

PARTITION = TopicPartition("flights", 3)
SERVERS = ("one:9092", "two:9092")
LEADER = Leader(node_id=1, host="one", port=9092, epoch=5)
TOPICS = {"flights": TopicDescription(topic_id="id", internal=False, leaders={3: LEADER})}


class Client:
    """Stands for ``KafkaClient``: an answer is an exception, or what the partition's entry has."""

    def __init__(self, *script: Any) -> None:
        self.options = ClientOptions(bootstrap_servers=SERVERS)
        self.script = deque(script)
        self.asked: list[tuple[str, int | None, dict[str, Any]]] = []

    def call(self, api: str, node_id: int | None = None, **values: Any) -> Any:
        self.asked.append((api, node_id, values))
        if api == "Metadata":
            partition = SimpleNamespace(partition_index=3, leader_id=1, leader_epoch=5)
            topic = SimpleNamespace(
                name="flights", error_code=0, topic_id=None, is_internal=False, partitions=[partition]
            )
            return SimpleNamespace(topics=[topic], cluster_id="c")
        answer = self.script.popleft()
        if isinstance(answer, Exception):
            raise answer
        fields = {"partition_index": 3, "partition": 3, "error_code": 0, "leader_epoch": -1, **answer}
        partition = SimpleNamespace(**fields)
        return SimpleNamespace(topics=[SimpleNamespace(name="flights", topic="flights", partitions=[partition])])

    def address(self, _: int) -> tuple[str, int]:
        return "one", 9092


def admin(client: Client, **limits: int) -> AdminClient:
    return AdminClient(client, **{"retries": 1, "retry_interval_ms": 1, **limits})  # type: ignore[arg-type]


def unreachable(*addresses: str) -> BrokerUnreachableError:
    return BrokerUnreachableError(addresses=addresses, timeout_ms=1, cause="refused")


@pytest.mark.parametrize(
    "passing",
    [*({"error_code": code, "offset": -1} for code in (5, 6, 9, 74, 75, 78)), unreachable("one:9092")],
    ids=str,
)
def test_an_election_is_waited_for_longer_than_the_options_say(passing: Any) -> None:
    client = Client(*[passing] * 20, {"offset": 7})
    assert admin(client).offsets_at({PARTITION: -1}, TOPICS) == {PARTITION: 7}


@pytest.mark.parametrize(
    "lasting", [{"error_code": 3, "offset": -1}, {"error_code": -1, "offset": -1}, unreachable(*SERVERS)], ids=str
)
def test_a_topic_or_a_cluster_that_is_not_there_is_asked_for_as_often_as_the_options_say(lasting: Any) -> None:
    client = Client(*[lasting] * 20)
    with pytest.raises((BrokerResponseError, BrokerUnreachableError)):
        admin(client).offsets_at({PARTITION: -1}, TOPICS)
    assert [api for api, _, _ in client.asked].count("ListOffsets") == 3


def test_tries_have_the_pause_between_them_that_the_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    paused_s: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", paused_s.append)
    client = Client(*[unreachable("one:9092", "two:9092")] * 20)
    with pytest.raises(BrokerUnreachableError):
        admin(client, retries=4, retry_interval_ms=700).offsets_at({PARTITION: -1}, TOPICS)
    assert paused_s == [0.7] * 4


def test_an_election_that_does_not_end_is_an_error_that_says_so() -> None:
    client = Client(*[{"error_code": 6, "offset": -1}] * 10_000)
    with pytest.raises(BrokerResponseError, match="NOT_LEADER"):
        admin(client, election_timeout_ms=50).offsets_at({PARTITION: -1}, TOPICS)
    assert client.script


def test_a_leader_that_never_answers_is_waited_for_until_it_would_have_been_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its advertised address is wrong: an error in seconds, and not after the minute that an election may take."""
    monkeypatch.setattr("directkafka.kafka.admin.admin_client._MISSED_S_MAX", 0.05)
    client = Client(*[unreachable("one:9092")] * 10_000)
    with pytest.raises(BrokerUnreachableError, match="one:9092"):
        admin(client).offsets_at({PARTITION: -1}, TOPICS)
    assert client.script


def test_a_group_s_coordinator_is_asked_for_as_often_as_the_options_say() -> None:
    """What is told to a group for lag tools must not hold a query up for as long as an election."""
    client = Client(*[unreachable("one:9092")] * 20)
    with pytest.raises(BrokerUnreachableError):
        admin(client).commit("dashboards", {PARTITION: 7})
    assert [api for api, _, _ in client.asked] == ["FindCoordinator"] * 2


@pytest.mark.parametrize(("of_the_end", "expected"), [(8, 8), (-1, 5), (3, 5)])
def test_a_view_s_leader_epoch_is_not_older_than_its_last_record(of_the_end: int, expected: int) -> None:
    client = Client({"offset": 0}, {"offset": 100, "leader_epoch": of_the_end})
    assert admin(client).snapshot([PARTITION], TOPICS).partitions[PARTITION].leader_epoch == expected


def test_a_leader_epoch_ends_where_the_next_one_begins() -> None:
    client = Client({"end_offset": 40}, {"end_offset": -1}, *[{"error_code": 74, "end_offset": -1}] * 2)
    asking = admin(client, retries=0, election_timeout_ms=0)
    assert asking.ended_epochs({PARTITION: 5}, TOPICS) == {PARTITION: EndedEpoch(5, 40)}
    assert asking.ended_epochs({PARTITION: 5}, TOPICS) == {PARTITION: None}
    with pytest.raises(BrokerResponseError, match="FENCED_LEADER_EPOCH"):
        asking.ended_epochs({PARTITION: 5}, TOPICS)


def test_a_broker_that_knows_no_remote_storage_does_not_say_where_its_own_log_starts() -> None:
    too_old = BrokerResponseError(
        api="ListOffsets", code=35, name="UNSUPPORTED_VERSION", retriable=False, subject="flights"
    )
    denied = BrokerResponseError(api="ListOffsets", code=29, name="DENIED", retriable=False, subject="flights")
    client = Client({"offset": 12}, too_old, denied)
    asking = admin(client)
    assert asking.local_start(PARTITION, TOPICS) == 12
    assert asking.local_start(PARTITION, TOPICS) is None
    with pytest.raises(BrokerResponseError, match="DENIED"):
        asking.local_start(PARTITION, TOPICS)
    assert [values["version_min"] for _, _, values in client.asked] == [8] * 3


def at(end: int, *, leader_epoch: int, topic_id: str = "id") -> dict[TopicPartition, PartitionProgress]:
    here = PartitionProgress(
        topic="flights", partition=3, topic_id=topic_id, start=end, end=end, leader_epoch=leader_epoch, origin=0
    )
    return {PARTITION: here}


ENDS = [{"offset": 0}, {"offset": 100}]


def test_after_an_election_the_leader_is_asked_once_where_the_reader_s_epoch_ended() -> None:
    client = Client(*ENDS, {"end_offset": 40}, *ENDS)
    asking, known = admin(client), at(50, leader_epoch=4)
    for _ in range(2):
        assert asking.snapshot([PARTITION], TOPICS, known).partitions[PARTITION].ended == EndedEpoch(4, 40)
    (question,) = [values for api, _, values in client.asked if api == "OffsetForLeaderEpoch"]
    (partition,) = question["topics"][0]["partitions"]
    assert partition == {"partition": 3, "current_leader_epoch": 5, "leader_epoch": 4}


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({}, id="nobody has read it"),
        pytest.param(at(50, leader_epoch=5), id="no election since"),
        pytest.param(at(50, leader_epoch=-1), id="a reader that knows no epoch"),
        pytest.param(at(50, leader_epoch=4, topic_id="other"), id="a topic that was made again"),
    ],
)
def test_otherwise_nothing_is_asked_about_epochs(known: dict[TopicPartition, PartitionProgress]) -> None:
    client = Client(*ENDS)
    assert admin(client).snapshot([PARTITION], TOPICS, known).partitions[PARTITION].ended is None


def test_a_broker_that_is_too_old_to_be_asked_about_epochs_is_passed_over() -> None:
    old = BrokerResponseError(
        api="OffsetForLeaderEpoch", code=35, name="UNSUPPORTED_VERSION", retriable=False, subject="flights-3"
    )
    client = Client(*ENDS, old)
    assert admin(client).snapshot([PARTITION], TOPICS, at(50, leader_epoch=4)).partitions[PARTITION].ended is None
