from __future__ import annotations

import json
import pickle

import pytest

from directkafka.offsets import (
    AtTimestamp,
    Earliest,
    Exact,
    Latest,
    OffsetRange,
    PartitionProgress,
    Positions,
    TopicPartition,
    from_nested,
    to_nested,
    total_count,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_a_range_counts_its_offsets_and_knows_its_partition() -> None:
    offset_range = OffsetRange("t", 1, 5, 8)
    assert (offset_range.count(), offset_range.topic_partition, str(offset_range)) == (3, T1, "t-1[5, 8)")


def test_an_empty_range_is_a_range() -> None:
    assert OffsetRange("t", 0, 5, 5).count() == 0


@pytest.mark.parametrize(("start", "end"), [(6, 5), (-1, 5), (-2, -1)])
def test_a_range_that_ends_before_it_starts_is_refused_when_it_is_made(start: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"t-0 has from_offset {start}, until_offset {end}"):
        OffsetRange("t", 0, start, end)


def test_counts_of_ranges_add_up() -> None:
    assert total_count([]) == 0
    assert total_count([OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 3, 3), OffsetRange("u", 0, 1, 2)]) == 6


def test_partitions_sort_by_number_and_not_by_text() -> None:
    numbers = [TopicPartition("t", 10), TopicPartition("t", 9), TopicPartition("a", 11)]
    assert [str(partition) for partition in sorted(numbers)] == ["a-11", "t-9", "t-10"]


def test_the_closest_position_counts() -> None:
    positions = Positions(default=Latest(), topics={"t": Earliest()}, partitions={T1: Exact(0)})
    assert positions.of(T1) == Exact(0)
    assert positions.of(T0) == Earliest()
    assert positions.of(U0) == Latest()


def test_a_partition_without_any_position_has_none() -> None:
    assert Positions(partitions={T0: AtTimestamp(0)}).of(T1) is None
    assert Positions(partitions={T0: AtTimestamp(0)}).of(T0) == AtTimestamp(0)


def test_json_is_sparks_form_sorted_by_topic_and_number() -> None:
    offsets = {U0: 1, TopicPartition("t", 10): 2, TopicPartition("t", 9): 3}
    assert json.dumps(to_nested(offsets)) == '{"t": {"9": 3, "10": 2}, "u": {"0": 1}}'
    assert from_nested(to_nested(offsets)) == offsets


def test_no_offsets_are_an_empty_object() -> None:
    assert to_nested({}) == {}
    assert from_nested({}) == {}


@pytest.mark.parametrize(
    "value",
    [
        T0,
        OffsetRange("t", 0, 1, 2),
        Exact(3),
        Earliest(),
        Positions(default=Latest(), topics={"t": AtTimestamp(1)}),
        PartitionProgress(topic="t", partition=0, topic_id="", start=1, end=2, leader_epoch=-1, origin=0),
    ],
)
def test_values_survive_the_way_to_an_executor(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_progress_knows_its_partition() -> None:
    progress = PartitionProgress(topic="t", partition=1, topic_id="", start=0, end=0, leader_epoch=0, origin=0)
    assert progress.topic_partition == T1
