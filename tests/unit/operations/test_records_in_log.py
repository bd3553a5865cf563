"""Ranges in the log; a real Kafka is asked in the tests of the command ``reset``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.unit.planning.snapshots import seen, snapshot

from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.operations.records_in_log import RecordsInLog, records_in_log

PARTITION = TopicPartition("flights", 0)
RANGE = OffsetRange("flights", 0, 2, 9)


class Cluster:
    """Records with their offsets as timestamps; the last offset of a log is a marker."""

    def __init__(self, *, end: int = 20) -> None:
        self.end = end
        self.asked = 0

    def first_timestamps(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int | None]:
        self.asked += 1
        return {each.topic_partition: each.from_offset if each.from_offset < self.end - 1 else None for each in ranges}


def records_of_range(cluster: Cluster, *, earliest: int = 0, latest: int = 20, known: Any = None) -> RecordsInLog:
    seen_now = snapshot({PARTITION: seen(earliest=earliest, latest=latest)})
    return records_in_log(cluster, seen_now, [RANGE], known)[RANGE]  # type: ignore[arg-type]


def test_a_range_that_is_there_whole_has_a_record_for_each_offset_at_most() -> None:
    assert records_of_range(Cluster()) == RecordsInLog(records_max=7, first_at_ms=2, last_at_ms=8)


def test_of_a_range_whose_beginning_was_deleted_the_rest_counts() -> None:
    assert records_of_range(Cluster(), earliest=6) == RecordsInLog(records_max=3, first_at_ms=6, last_at_ms=8)


def test_of_a_range_that_was_deleted_nothing_is_there() -> None:
    assert records_of_range(Cluster(), earliest=9) == RecordsInLog(records_max=0)


def test_the_last_record_is_looked_for_before_the_marker_at_the_end() -> None:
    assert records_of_range(Cluster(end=9)) == RecordsInLog(records_max=7, first_at_ms=2, last_at_ms=7)


def test_what_is_known_is_not_asked_for_again_and_counted_anew() -> None:
    cluster = Cluster()
    known = {RANGE: records_of_range(cluster)}
    asked = cluster.asked
    assert records_of_range(cluster, earliest=6, known=known) == RecordsInLog(
        records_max=3, first_at_ms=2, last_at_ms=8
    )
    assert records_of_range(cluster, known={}) == RecordsInLog(records_max=7)
    assert cluster.asked == asked
