"""Which executor a range prefers."""

from __future__ import annotations

from collections import Counter

from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.planning.placement import (
    Executor,
    PreferBrokers,
    PreferConsistent,
    PreferFixed,
    place,
    task_count,
)

RANGES = [OffsetRange("flights", number, 0, 10) for number in range(8)]
EXECUTORS = [Executor(host, number) for host, number in (("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"))]
LEADERS = {offset_range.topic_partition: "ab"[offset_range.partition % 2] for offset_range in RANGES}


def test_partitions_are_dealt_evenly_and_stay_where_they_are() -> None:
    first = place(RANGES, PreferConsistent(), EXECUTORS, {}).locations
    assert Counter(first) == dict.fromkeys((executor.location for executor in EXECUTORS), 2)
    assert place(RANGES, PreferConsistent(), reversed(EXECUTORS), {}).locations == first
    # What else is in the batch, and which offsets, changes nothing.
    later = [OffsetRange(offset_range.topic, offset_range.partition, 10, 30) for offset_range in RANGES[3:]]
    assert place(later, PreferConsistent(), EXECUTORS, {}).locations == first[3:]


def test_an_executor_is_written_as_spark_does() -> None:
    assert Executor("10.0.0.7", "12").location == "executor_10.0.0.7_12"


def test_brokers_are_preferred_by_host_and_all_their_executors_are_used() -> None:
    placement = place(RANGES, PreferBrokers(), EXECUTORS, LEADERS)
    assert placement.hosts_without_executors == ()
    on_a = {executor.location for executor in EXECUTORS if executor.host == "a"}
    assert {placement.locations[number] in on_a for number in (0, 2, 4, 6)} == {True}
    assert {placement.locations[number] in on_a for number in (1, 3, 5, 7)} == {False}


def test_a_fixed_host_counts_and_partitions_without_one_go_anywhere() -> None:
    strategy = PreferFixed({TopicPartition("flights", 0): "b"})
    locations = place(RANGES, strategy, EXECUTORS, LEADERS).locations
    assert locations[0] in {executor.location for executor in EXECUTORS if executor.host == "b"}
    assert locations[1:] == place(RANGES, PreferConsistent(), EXECUTORS, {}).locations[1:]


def test_a_host_without_executors_is_told_and_its_partitions_go_anywhere() -> None:
    placement = place(RANGES, PreferFixed({TopicPartition("flights", 0): "nowhere"}), EXECUTORS, LEADERS)
    assert placement.hosts_without_executors == ("nowhere",)
    assert placement.locations == place(RANGES, PreferConsistent(), EXECUTORS, {}).locations


def test_a_host_of_a_partition_that_is_not_read_is_not_told() -> None:
    strategy = PreferFixed({TopicPartition("flights", 99): "nowhere"})
    assert place(RANGES, strategy, EXECUTORS, {}).hosts_without_executors == ()


def test_without_executors_there_is_no_preference() -> None:
    assert place(RANGES, PreferBrokers(), [], LEADERS).locations == ()


def ranges_of(records: int, count: int = 64) -> list[OffsetRange]:
    return [OffsetRange("flights", number, 0, records) for number in range(count)]


def test_small_ranges_share_tasks_and_no_slot_is_idle() -> None:
    assert task_count(ranges_of(10), parallelism=2) == 4
    assert task_count(ranges_of(10), parallelism=100) == 64
    assert task_count(ranges_of(10_000), parallelism=2) == 13


def test_large_ranges_and_ranges_that_the_user_has_asked_for_have_a_task_each() -> None:
    assert task_count(ranges_of(50_000), parallelism=2) == 64
    assert task_count(ranges_of(10), parallelism=2, min_partitions=64) == 64
    assert task_count(ranges_of(10, count=1), parallelism=2) == 1
    assert task_count([], parallelism=2) == 0
