from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.planning.snapshots import T0, T1, U0, seen, snapshot

from directkafka.errors import DataLossError, OptionError
from directkafka.errors.data_loss import CouldNotReadOffsetRangeError, StartOffsetResetError
from directkafka.offsets import (
    Ago,
    AtTimestamp,
    BeforeLatest,
    Committed,
    Earliest,
    Exact,
    Latest,
    OffsetRange,
    Positions,
    TopicPartition,
)
from directkafka.planning.starts import Lookups, needed_lookups, resolve_ranges, resolve_starts

CLUSTER = snapshot({T0: seen(10, 100), T1: seen(0, 50), U0: seen(5, 5)})


def test_earliest_and_latest_are_those_of_the_view() -> None:
    assert resolve_starts(Positions(default=Earliest()), CLUSTER, {}).offsets == {T0: 10, T1: 0, U0: 5}
    assert resolve_starts(Positions(default=Latest()), CLUSTER, {}).offsets == {T0: 100, T1: 50, U0: 5}


def test_the_closest_position_counts() -> None:
    positions = Positions(partitions={T0: Exact(20), T1: Latest()}, topics={"u": Earliest()})
    assert resolve_starts(positions, CLUSTER, {}).offsets == {T0: 20, T1: 50, U0: 5}


def test_only_times_and_groups_need_a_lookup() -> None:
    positions = Positions(default=AtTimestamp(7), partitions={T0: Exact(3)}, topics={"u": AtTimestamp(9)})
    assert needed_lookups(positions, CLUSTER) == Lookups({T1: 7, U0: 9}, {})
    positions = Positions(default=Committed("g"), topics={"u": Committed("h", Latest())})
    assert needed_lookups(positions, CLUSTER) == Lookups({}, {"g": (T0, T1), "h": (U0,)})
    assert needed_lookups(Positions(default=BeforeLatest(5)), CLUSTER) == Lookups({}, {})


def test_a_time_ago_counts_from_the_moment_of_the_view_and_not_before_1970() -> None:
    later = replace(CLUSTER, taken_at_ms=1_000_000)
    assert needed_lookups(Positions(default=Ago(600_000)), later).timestamps_ms == {
        T0: 400_000,
        T1: 400_000,
        U0: 400_000,
    }
    assert needed_lookups(Positions(default=Ago(2_000_000)), later).timestamps_ms == {T0: 0, T1: 0, U0: 0}


def test_without_a_recent_record_a_time_ago_is_latest() -> None:
    positions = Positions(default=Ago(600_000))
    assert resolve_starts(positions, CLUSTER, {T0: 42, T1: None, U0: None}).offsets == {T0: 42, T1: 50, U0: 5}


def test_a_number_of_offsets_back_is_held_to_what_the_log_has() -> None:
    assert resolve_starts(Positions(default=BeforeLatest(60)), CLUSTER, {}).offsets == {T0: 40, T1: 0, U0: 5}


def test_a_group_s_offsets_are_where_it_goes_on() -> None:
    positions = Positions(default=Committed("g"))
    assert resolve_starts(positions, CLUSTER, {T0: 42, T1: 0, U0: 5}).offsets == {T0: 42, T1: 0, U0: 5}


def test_where_a_group_has_committed_nothing_the_user_must_have_said_what_then() -> None:
    answers = {T0: 42, T1: None, U0: 5}
    with pytest.raises(OptionError, match="'g' has committed no offset of t-1; write committed-or-earliest"):
        resolve_starts(Positions(default=Committed("g"), option="startingOffsets"), CLUSTER, answers)
    for otherwise, offset in ((Earliest(), 0), (Latest(), 50)):
        starts = resolve_starts(Positions(default=Committed("g", otherwise)), CLUSTER, answers)
        assert starts.offsets == {T0: 42, T1: offset, U0: 5}


def test_a_timestamp_stands_for_the_offset_that_was_looked_up() -> None:
    positions = Positions(default=AtTimestamp(7))
    assert resolve_starts(positions, CLUSTER, {T0: 42, T1: 0, U0: 5}).offsets == {T0: 42, T1: 0, U0: 5}


def test_a_timestamp_after_the_last_record_is_an_error_that_names_the_way_out() -> None:
    positions = Positions(default=AtTimestamp(7), option="startingTimestamp")
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy") as caught:
        resolve_starts(positions, CLUSTER, {T0: 42, T1: None, U0: 5})
    assert caught.value.option == "startingTimestamp"
    assert "t-1 has no record at or after timestamp 7" in caught.value.reason


def test_a_timestamp_after_the_last_record_is_latest_when_the_strategy_says_so() -> None:
    positions = Positions(default=AtTimestamp(7), latest_if_no_match=True)
    assert resolve_starts(positions, CLUSTER, {T0: 42, T1: None, U0: None}).offsets == {T0: 42, T1: 50, U0: 5}


@pytest.mark.parametrize(
    ("positions", "missing", "unknown"),
    [
        (Positions(partitions={T0: Exact(20)}), "t-1, u-0", "none"),
        (
            Positions(partitions={T0: Exact(20), T1: Exact(1), U0: Earliest(), TopicPartition("v", 0): Latest()}),
            "none",
            "v-0",
        ),
        (Positions(topics={"t": Earliest()}), "u-0", "none"),
    ],
)
def test_positions_must_name_exactly_the_partitions_that_are_read(
    positions: Positions, missing: str, unknown: str
) -> None:
    with pytest.raises(OptionError) as caught:
        resolve_starts(positions, CLUSTER, {})
    assert str(caught.value).startswith("[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] ")
    assert f"Not named: {missing}. Named but not read: {unknown}" in caught.value.reason


def test_timestamps_that_do_not_name_all_partitions_have_an_error_of_their_own() -> None:
    positions = Positions(partitions={T0: AtTimestamp(1), T1: AtTimestamp(1)})
    with pytest.raises(OptionError, match="KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        resolve_starts(positions, CLUSTER, {T0: 10, T1: 10})


def test_a_topic_that_is_not_read_cannot_have_a_position() -> None:
    positions = Positions(default=Earliest(), topics={"v": Latest()})
    with pytest.raises(OptionError, match=r"KAFKA_TOPIC_OFFSET_DOES_NOT_MATCH_ASSIGNED.* v"):
        resolve_starts(positions, CLUSTER, {})


@pytest.mark.parametrize(
    ("asked", "held", "lost"), [(3, 10, (3, 10)), (10, 10, None), (100, 100, None), (130, 100, (100, 130))]
)
def test_a_start_outside_the_log_is_a_loss_and_is_held_to_the_log(
    asked: int, held: int, lost: tuple[int, int] | None
) -> None:
    starts = resolve_starts(Positions(default=Exact(asked)), snapshot({T0: seen(10, 100)}), {})
    assert starts.offsets == {T0: held}
    assert [(loss.error_type, loss.lost_from, loss.lost_until) for loss in starts.losses] == (
        [] if lost is None else [(StartOffsetResetError, *lost)]
    )


def ranges_of(
    starting: Positions, ending: Positions
) -> tuple[list[OffsetRange], list[tuple[type[DataLossError], int, int]]]:
    resolved = resolve_ranges(starting, ending, snapshot({T0: seen(10, 100)}), {T0: 60}, {T0: 30})
    lost = [(loss.error_type, loss.lost_from, loss.lost_until) for loss in resolved.losses]
    return list(resolved.ranges), lost


@pytest.mark.parametrize(
    ("start", "end", "held", "lost"),
    [
        (20, 30, (20, 30), []),
        (20, 20, (20, 20), []),
        (5, 30, (10, 30), [(StartOffsetResetError, 5, 10)]),
        (2, 6, (10, 10), [(StartOffsetResetError, 2, 6)]),
        (5, 5, (10, 10), []),
        (20, 120, (20, 100), [(CouldNotReadOffsetRangeError, 100, 120)]),
        (110, 120, (100, 100), [(CouldNotReadOffsetRangeError, 110, 120)]),
        (5, 120, (10, 100), [(StartOffsetResetError, 5, 10), (CouldNotReadOffsetRangeError, 100, 120)]),
    ],
)
def test_a_batch_reads_what_the_log_has_of_what_was_asked_for(
    start: int, end: int, held: tuple[int, int], lost: list[tuple[type[DataLossError], int, int]]
) -> None:
    ranges_and_losses = ranges_of(Positions(default=Exact(start)), Positions(default=Exact(end)))
    assert ranges_and_losses == ([OffsetRange("t", 0, *held)], lost)


def test_a_batch_from_earliest_to_latest_reads_the_whole_log() -> None:
    assert ranges_of(Positions(default=Earliest()), Positions(default=Latest())) == ([OffsetRange("t", 0, 10, 100)], [])


def test_a_start_that_resolves_behind_the_end_is_an_error_that_names_both() -> None:
    starting = Positions(default=AtTimestamp(2), option="startingTimestamp")
    ending = Positions(default=AtTimestamp(1), option="endingTimestamp")
    with pytest.raises(OptionError, match="RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET") as caught:
        ranges_of(starting, ending)
    assert "t-0 starts at 60 (startingTimestamp) and would end before 30" in caught.value.reason


def test_a_start_past_the_log_with_end_latest_is_a_loss_and_reads_nothing() -> None:
    ranges_and_losses = ranges_of(Positions(default=Exact(150)), Positions(default=Latest()))
    assert ranges_and_losses == ([OffsetRange("t", 0, 100, 100)], [(StartOffsetResetError, 100, 150)])
