"""Positions of a pipeline, out of what its ledgers and Kafka say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition
from directkafka.operations.positions import (
    next_offsets,
    partition_positions,
    positions_in_ledgers,
    topic_totals,
    unread_ranges,
)
from directkafka.sinks.api import LedgerEntry
from directkafka.snapshot import ClusterSnapshot, PartitionSnapshot

NOW_MS = 1_700_000_000_000


def flights_partition(partition: int) -> TopicPartition:
    return TopicPartition("flights", partition)


def snapshot(**bounds: tuple[int, int]) -> ClusterSnapshot:
    """Earliest and latest offset of partitions ``p0``, ``p1``, ..."""
    partitions = {
        flights_partition(int(name[1:])): PartitionSnapshot(
            topic_id="id", leader=1, leader_host="one", leader_port=9092, leader_epoch=0, earliest=low, latest=high
        )
        for name, (low, high) in bounds.items()
    }
    return ClusterSnapshot(cluster_id="c", partitions=partitions, taken_at_ms=NOW_MS)


def entry(
    ends: Mapping[int, int], *, starts: Mapping[int, int] | None = None, batch_id: int = 3, topic_id: str = ""
) -> LedgerEntry:
    progress = tuple(
        replace(
            PartitionProgress.at(flights_partition(partition), end),
            start=(starts or {}).get(partition, end),
            topic_id=topic_id,
        )
        for partition, end in ends.items()
    )
    return LedgerEntry(pipeline="p", generation=1, lineage="l", batch_id=batch_id, progress=progress)


def test_the_store_that_is_behind_says_where_a_pipeline_goes_on() -> None:
    entries = [entry({0: 10, 1: 7}), entry({0: 8, 1: 7}, batch_id=2)]
    assert next_offsets(entries, snapshot(p0=(0, 20), p1=(0, 20))) == {flights_partition(0): 8, flights_partition(1): 7}
    assert next_offsets([], snapshot(p0=(0, 20))) == {}


def test_a_store_that_lacks_the_batch_of_a_new_partition_begins_where_that_batch_begins() -> None:
    ahead = entry({0: 10, 1: 9}, starts={1: 4})
    assert (
        next_offsets([entry({0: 10}, batch_id=2), ahead], snapshot(p0=(0, 20), p1=(0, 20)))[flights_partition(1)] == 4
    )


def test_of_a_topic_that_was_made_again_nothing_is_read() -> None:
    seen = snapshot(p0=(0, 20))
    assert next_offsets([entry({0: 10}, topic_id="another")], seen) == {}
    assert next_offsets([entry({0: 10}, topic_id="id")], seen) == {flights_partition(0): 10}


@pytest.mark.parametrize(
    ("start", "expected"),
    [(5, (5, 20)), (20, (20, 20)), (25, (20, 20)), (1, (3, 20)), (None, (3, 20))],
    ids=["in the log", "all is read", "past the log's end", "before its beginning", "nothing is known"],
)
def test_what_is_unread_lies_within_the_log(start: int | None, expected: tuple[int, int]) -> None:
    starts = {} if start is None else {flights_partition(0): start}
    assert unread_ranges(snapshot(p0=(3, 20)), starts) == [OffsetRange("flights", 0, *expected)]


def test_a_partition_s_lag_is_counted_from_its_ledger_and_its_age_from_the_first_unread_record() -> None:
    seen = snapshot(p0=(3, 20), p1=(0, 5))
    current = {flights_partition(0): 1, flights_partition(1): 5}
    unread = unread_ranges(seen, current)
    first, second = partition_positions(
        seen, current, unread, {flights_partition(0): NOW_MS - 2500, flights_partition(1): None}
    )
    assert (first.earliest, first.current, first.end, first.lag, first.lag_seconds) == (3, 1, 20, 19, 2.5)
    assert (second.earliest, second.current, second.end, second.lag, second.lag_seconds) == (0, 5, 5, 0, 0.0)


def test_an_age_that_could_not_be_found_is_not_told_as_none() -> None:
    seen = snapshot(p0=(3, 20))
    [position] = partition_positions(
        seen, {flights_partition(0): 5}, unread_ranges(seen, {flights_partition(0): 5}), {}
    )
    assert (position.lag, position.lag_seconds) == (15, None)


def test_a_pipeline_that_has_read_nothing_is_behind_from_where_it_would_start() -> None:
    seen = snapshot(p0=(3, 20))
    [position] = partition_positions(seen, {}, [OffsetRange("flights", 0, 12, 20)], {flights_partition(0): NOW_MS})
    assert (position.current, position.lag) == (None, 8)


def test_a_partition_that_is_gone_has_only_what_the_ledger_says() -> None:
    [position] = partition_positions(snapshot(), {flights_partition(0): 9}, [], {})
    assert position.as_record() == {
        "topic": "flights", "partition": 0, "earliest": None, "current": 9, "end": None, "lag": None,
        "lag_seconds": None,
    }  # fmt: skip


def test_neither_a_log_that_was_cut_nor_a_clock_that_is_ahead_makes_a_lag_negative() -> None:
    seen = snapshot(p0=(0, 5))
    current = {flights_partition(0): 9}
    [position] = partition_positions(
        seen, current, unread_ranges(seen, current), {flights_partition(0): NOW_MS + 10_000}
    )
    assert (position.lag, position.lag_seconds) == (0, 0.0)


def test_a_record_without_a_timestamp_has_no_age() -> None:
    unread = [OffsetRange("flights", 0, 5, 9)]
    (position,) = partition_positions(
        snapshot(p0=(0, 9)), {flights_partition(0): 5}, unread, {flights_partition(0): -1}
    )
    assert (position.lag, position.lag_seconds) == (4, None)


def test_what_is_not_known_of_a_topic_is_not_told_as_nothing() -> None:
    (total,) = topic_totals(positions_in_ledgers([entry({0: 5, 1: 7})]))
    assert total == {"topic": "flights", "partitions": 2, "offsets": None, "lag": None}


def test_ledgers_alone_say_the_lowest_of_what_they_have_and_nothing_of_kafka() -> None:
    positions = positions_in_ledgers([entry({0: 5, 1: 7}, starts={0: 2, 1: 7}, batch_id=4), entry({0: 2, 1: 7})])
    assert [(position.partition, position.current) for position in positions] == [(0, 2), (1, 7)]
    assert {position.earliest or position.end or position.lag or position.lag_seconds for position in positions} == {
        None
    }
