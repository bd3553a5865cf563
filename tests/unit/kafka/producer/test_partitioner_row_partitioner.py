from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
import pytest

from directkafka.errors.data_loss import KafkaNullTopicInDataError
from directkafka.errors.kafka import RecordRejectedError
from directkafka.kafka.producer.partitioner import Router, key_hashes

COUNTS = {"flights": 4, "planes": 3}


class Cluster:
    """Says how many partitions topics have, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def count(self, names: Collection[str]) -> Mapping[str, int]:
        self.asked.append(list(names))
        return {name: COUNTS[name] for name in names}


def routed(router: Router, **columns: list[object] | pa.Array) -> list[tuple[str, int]]:
    places, target_of = router.route(pa.record_batch(columns))
    return [(places[target].topic, places[target].partition) for target in target_of]


def router(topic: str | None = "flights", first: int = 0) -> Router:
    return Router(topic, Cluster().count, first)


def test_a_key_decides() -> None:
    expected = [("flights", int(key_hash) % 4) for key_hash in key_hashes(pa.array([b"21", b"abc", b""]))]
    assert routed(router(), key=[b"21", b"abc", b""], value=[b""] * 3) == expected


def test_rows_without_key_are_dealt_in_turn_from_call_to_call() -> None:
    row_router = router(first=2)
    assert routed(row_router, value=[b""] * 3) == [("flights", 2), ("flights", 3), ("flights", 0)]
    assert routed(row_router, key=pa.nulls(2), value=[b""] * 2) == [("flights", 1), ("flights", 2)]


def test_counting_goes_round_with_the_largest_number() -> None:
    assert routed(router(first=2**31 - 1), value=[b""] * 2) == [("flights", 3), ("flights", 0)]


def test_a_partition_of_the_row_counts_before_its_key() -> None:
    by_key = int(key_hashes(pa.array([b"21"]))[0]) % 4
    chosen = pa.array([3, None], pa.int32())
    assert routed(router(), key=[b"21", b"21"], partition=chosen) == [("flights", 3), ("flights", by_key)]
    assert routed(router(), key=[b"21"], partition=pa.nulls(1)) == [("flights", by_key)]


def test_topics_come_from_their_column_unless_one_is_given_for_all() -> None:
    topics: list[object] = ["planes", "flights", "planes"]
    partitions = pa.array([2, 2, 0], pa.int32())
    assert routed(router(None), topic=topics, partition=partitions) == [("planes", 2), ("flights", 2), ("planes", 0)]
    assert routed(router(), topic=topics, partition=partitions) == [("flights", 2), ("flights", 2), ("flights", 0)]


def test_a_topic_is_asked_for_once() -> None:
    cluster = Cluster()
    row_router = Router(None, cluster.count)
    for topics in (["planes"], ["planes", "flights"], ["flights"]):
        row_router.route(pa.record_batch({"topic": topics}))
    assert cluster.asked == [["planes"], ["flights"]]


def test_a_row_without_topic_is_refused() -> None:
    with pytest.raises(KafkaNullTopicInDataError, match="row 1 of 2"):
        routed(router(None), topic=["planes", None])


@pytest.mark.parametrize("wrong", [3, -1, 2**31 - 1])
def test_a_partition_that_the_topic_does_not_have_is_refused_by_row(wrong: int) -> None:
    with pytest.raises(RecordRejectedError, match=r"partitions 0 to 2") as caught:
        routed(router(None), topic=["flights", "planes"], partition=pa.array([3, wrong], pa.int32()))
    assert (caught.value.topic, caught.value.partition, caught.value.row) == ("planes", wrong, 1)
