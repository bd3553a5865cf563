from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.planning.snapshots import T0, T1, U0, at, known, seen, snapshot

from directkafka.errors import DataLossError, OptionError
from directkafka.offsets import AtTimestamp, Earliest, Exact, Latest, OffsetRange, Positions
from directkafka.options.limits import OffsetLimits
from directkafka.planning.plan import (
    PlanPolicy,
    plan,
    plan_origin,
    plan_pinned,
    plan_read,
    progress_at,
    progress_between,
)
from directkafka.snapshot import PartitionSnapshot

FAIL = PlanPolicy()
GO_ON = PlanPolicy(fail_on_data_loss=False)


def test_a_batch_goes_on_where_the_one_before_ended() -> None:
    batch = plan(known(at(T0, 50), at(T1, 7)), snapshot({T0: seen(0, 80), T1: seen(0, 9)}), FAIL)
    assert batch is not None
    assert batch.ranges == (OffsetRange("t", 0, 50, 80), OffsetRange("t", 1, 7, 9))
    assert [(partition.start, partition.end) for partition in batch.progress] == [(50, 80), (7, 9)]
    assert (batch.offset_count, batch.backlog, batch.losses) == (32, 0, ())


def test_there_is_no_batch_when_there_is_nothing_new() -> None:
    assert plan(known(at(T0, 80)), snapshot({T0: seen(0, 80)}), FAIL) is None
    assert plan({}, snapshot({}), FAIL) is None


def test_idle_partitions_are_carried_forward_with_an_empty_range() -> None:
    before = replace(at(T1, 9, origin=2), start=4)
    batch = plan(known(at(T0, 50), before), snapshot({T0: seen(0, 60), T1: seen(0, 9)}), FAIL)
    assert batch is not None
    assert batch.progress[1] == replace(before, start=9)
    assert batch.ends() == {T0: 60, T1: 9}


def test_what_a_limit_leaves_is_told_as_behind() -> None:
    batch = plan(
        known(at(T0, 0), at(T1, 0)),
        snapshot({T0: seen(0, 90), T1: seen(0, 10)}),
        PlanPolicy(limits=OffsetLimits(total=10)),
    )
    assert batch is not None
    assert batch.ends() == {T0: 9, T1: 1}
    assert (batch.behind, batch.backlog) == ({T0: 81, T1: 9}, 90)


def test_a_partition_that_is_new_is_read_from_its_beginning() -> None:
    batch = plan(known(at(T0, 50)), snapshot({T0: seen(0, 50), T1: seen(0, 3, leader_epoch=0)}), FAIL)
    assert batch is not None
    assert batch.ranges == (OffsetRange("t", 1, 0, 3),)
    added = batch.progress[1]
    assert (added.start, added.end, added.origin, added.topic_id, added.leader_epoch) == (0, 3, 0, "id-1", 0)


def test_ranges_are_split_as_the_policy_says() -> None:
    previous, cluster = known(at(T0, 0)), snapshot({T0: seen(0, 10)})
    for policy in (PlanPolicy(min_partitions=2), PlanPolicy(max_records_per_partition=5)):
        batch = plan(previous, cluster, policy)
        assert batch is not None
        assert batch.ranges == (OffsetRange("t", 0, 0, 5), OffsetRange("t", 0, 5, 10))
        assert batch.ends() == {T0: 10}


def test_a_loss_stops_the_plan_when_the_policy_says_to_fail() -> None:
    with pytest.raises(DataLossError) as caught:
        plan(known(at(T0, 50)), snapshot({T0: seen(60, 80)}), FAIL)
    assert (caught.value.lost_from, caught.value.lost_until) == (50, 60)


def test_offsets_that_aged_out_are_skipped_and_the_progress_stays_without_a_gap() -> None:
    batch = plan(known(at(T0, 50)), snapshot({T0: seen(60, 80)}), GO_ON)
    assert batch is not None
    assert batch.ranges == (OffsetRange("t", 0, 60, 80),)
    assert (batch.progress[0].start, batch.progress[0].end) == (50, 80)
    assert [loss.error_type.condition for loss in batch.losses] == ["COULD_NOT_READ_OFFSET_RANGE"]


def test_a_topic_that_was_made_again_is_read_from_its_earliest_offset() -> None:
    batch = plan(known(at(T0, 50, origin=4)), snapshot({T0: seen(0, 8, topic_id="id-2", leader_epoch=0)}), GO_ON)
    assert batch is not None
    assert batch.ranges == (OffsetRange("t", 0, 0, 8),)
    partition = batch.progress[0]
    assert (partition.start, partition.end, partition.origin, partition.topic_id, partition.leader_epoch) == (
        0,
        8,
        0,
        "id-2",
        0,
    )


def test_a_truncated_log_is_read_again_only_after_it_has_reached_the_position() -> None:
    previous = known(at(T0, 50), at(T1, 0))
    truncated = plan(previous, snapshot({T0: seen(0, 40), T1: seen(0, 1)}), GO_ON)
    assert truncated is not None
    assert truncated.ranges == (OffsetRange("t", 1, 0, 1),)
    assert truncated.ends() == {T0: 50, T1: 1}
    grown = plan(known(*truncated.progress), snapshot({T0: seen(0, 53), T1: seen(0, 1)}), GO_ON)
    assert grown is not None
    assert grown.ranges == (OffsetRange("t", 0, 50, 53),)


def test_a_partition_that_is_gone_keeps_its_place_so_that_its_return_repeats_nothing() -> None:
    gone = plan(known(at(T0, 50), at(U0, 5)), snapshot({T0: seen(0, 60)}), GO_ON)
    assert gone is not None
    assert gone.ends() == {T0: 60, U0: 5}
    back = plan(known(*gone.progress), snapshot({T0: seen(0, 60), U0: seen(0, 8)}), GO_ON)
    assert back is not None
    assert back.ranges == (OffsetRange("u", 0, 5, 8),)


def test_a_new_partition_whose_start_is_not_known_waits_for_a_later_batch() -> None:
    batch = plan(known(at(T0, 50)), snapshot({T0: seen(0, 60), T1: seen(-1, 5)}), GO_ON)
    assert batch is not None
    assert batch.ends() == {T0: 60}


def test_a_broker_that_tells_no_epoch_or_id_does_not_erase_what_is_known() -> None:
    batch = plan(known(at(T0, 50)), snapshot({T0: seen(0, 60, topic_id="", leader_epoch=-1)}), FAIL)
    assert batch is not None
    assert (batch.progress[0].topic_id, batch.progress[0].leader_epoch) == ("id-1", 5)


def test_the_origin_reads_nothing_and_pins_where_the_pipeline_starts() -> None:
    cluster = snapshot({T0: seen(3, 80), T1: seen(0, 9)})
    origin = plan_origin(Positions(default=Latest()), cluster, {}, FAIL)
    assert origin.ranges == ()
    assert [(partition.start, partition.end, partition.origin) for partition in origin.progress] == [
        (80, 80, 80),
        (9, 9, 9),
    ]
    assert plan(known(*origin.progress), cluster, FAIL) is None


def test_an_origin_outside_the_log_fails_or_is_held_to_the_log() -> None:
    cluster = snapshot({T0: seen(3, 80)})
    with pytest.raises(DataLossError, match="START_OFFSET_RESET"):
        plan_origin(Positions(default=Exact(1)), cluster, {}, FAIL)
    origin = plan_origin(Positions(default=Exact(1)), cluster, {}, GO_ON)
    assert origin.ends() == {T0: 3}
    assert len(origin.losses) == 1


def test_an_origin_at_a_timestamp_takes_the_offset_that_was_looked_up() -> None:
    cluster = snapshot({T0: seen(3, 80)})
    assert plan_origin(Positions(default=AtTimestamp(1)), cluster, {T0: 17}, FAIL).ends() == {T0: 17}


def read(starting: Positions, ending: Positions, policy: PlanPolicy = FAIL) -> tuple[OffsetRange, ...]:
    batch = plan_read(
        starting=starting,
        ending=ending,
        snapshot=snapshot({T0: seen(3, 80), T1: seen(0, 0)}),
        start_answers={},
        end_answers={},
        policy=policy,
    )
    return batch.ranges


def test_a_batch_read_goes_from_position_to_position_without_empty_tasks() -> None:
    assert read(Positions(default=Earliest()), Positions(default=Latest())) == (OffsetRange("t", 0, 3, 80),)


def test_a_batch_read_is_split_on_its_resolved_size() -> None:
    ranges = read(Positions(default=Earliest()), Positions(default=Latest()), PlanPolicy(max_records_per_partition=40))
    assert ranges == (OffsetRange("t", 0, 3, 41), OffsetRange("t", 0, 41, 80))


def test_a_batch_read_outside_the_log_fails_or_reads_what_there_is() -> None:
    starting = Positions(partitions={T0: Exact(0), T1: Earliest()})
    with pytest.raises(DataLossError, match=r"\[0, 3\)"):
        read(starting, Positions(default=Latest()))
    assert read(starting, Positions(default=Latest()), GO_ON) == (OffsetRange("t", 0, 3, 80),)


def test_a_batch_read_whose_start_lies_behind_its_end_is_refused() -> None:
    with pytest.raises(OptionError, match="t-0 starts at 10"):
        read(Positions(partitions={T0: Exact(10), T1: Exact(0)}), Positions(partitions={T0: Exact(9), T1: Exact(0)}))


def test_a_partition_that_is_gone_is_kept_in_mind_until_its_topic_is_known_to_be_deleted() -> None:
    previous, cluster = known(at(T0, 5), at(U0, 9)), snapshot({T0: seen(0, 10)})
    batch = plan(previous, cluster, GO_ON)
    assert batch is not None
    assert batch.ends() == {T0: 10, U0: 9}
    batch = plan(previous, replace(cluster, deleted=frozenset({U0})), GO_ON)
    assert batch is not None
    assert batch.ends() == {T0: 10}
    assert [loss.topic_partition for loss in batch.losses] == [U0]
    with pytest.raises(DataLossError):
        plan(previous, replace(cluster, deleted=frozenset({U0})), FAIL)


def test_records_that_are_too_young_are_left_for_later_and_are_no_loss() -> None:
    cluster = replace(snapshot({T0: seen(0, 10), T1: seen(0, 10), U0: seen(0, 10)}), too_young={T0: 7, T1: 3})
    batch = plan(known(at(T0, 5), at(T1, 5), at(U0, 5)), cluster, FAIL)
    assert batch is not None
    assert batch.ends() == {T0: 7, T1: 5, U0: 10}
    assert (batch.losses, batch.backlog) == ((), 8)


def test_a_pinned_batch_reads_the_same_ranges_however_far_the_log_has_grown() -> None:
    progress = [replace(at(T0, 60), start=50), replace(at(T1, 9), start=9)]
    batch = plan_pinned(progress, snapshot({T0: seen(0, 1000), T1: seen(0, 1000)}), FAIL)
    assert batch.ranges == (OffsetRange("t", 0, 50, 60),)
    assert batch.progress == tuple(progress)


@pytest.mark.parametrize(
    ("partition", "lost", "left"),
    [
        pytest.param(seen(55, 90), (50, 55), [OffsetRange("t", 0, 55, 60)], id="the start aged out"),
        pytest.param(seen(70, 90), (50, 60), [], id="all of it aged out"),
        pytest.param(seen(0, 57), (57, 60), [OffsetRange("t", 0, 50, 57)], id="truncated in the range"),
        pytest.param(seen(0, 40), (40, 50), [], id="truncated before it"),
        pytest.param(
            seen(0, 90, leader_epoch=6, ended=(5, 55)),
            (55, 60),
            [OffsetRange("t", 0, 50, 60)],
            id="cut and grown again",
        ),
        pytest.param(seen(0, 90, topic_id="id-2"), (50, 50), [], id="the topic was made again"),
        pytest.param(None, (50, 50), [], id="the partition is gone"),
    ],
)
def test_a_pinned_batch_that_is_partly_gone_fails_or_reads_what_is_left(
    partition: PartitionSnapshot | None, lost: tuple[int, int], left: list[OffsetRange]
) -> None:
    progress = [replace(at(T0, 60), start=50)]
    cluster = snapshot({T0: partition} if partition is not None else {})
    with pytest.raises(DataLossError) as caught:
        plan_pinned(progress, cluster, FAIL)
    assert (caught.value.lost_from, caught.value.lost_until) == lost
    batch = plan_pinned(progress, cluster, GO_ON)
    assert list(batch.ranges) == left
    assert len(batch.losses) == 1


def test_a_pinned_partition_that_read_nothing_cannot_lose_anything() -> None:
    assert plan_pinned([at(T0, 50)], snapshot({}), FAIL).ranges == ()


def test_a_pinned_batch_that_goes_back_is_a_changed_offset() -> None:
    with pytest.raises(DataLossError, match="PARTITION_OFFSET_CHANGED") as caught:
        plan_pinned([replace(at(T0, 1), start=2)], snapshot({T0: seen(0, 1)}), FAIL)
    assert (caught.value.lost_from, caught.value.lost_until) == (1, 2)


def test_between_two_checkpoints_a_new_partition_starts_at_its_earliest_offset() -> None:
    cluster = snapshot({T0: seen(0, 90), T1: seen(4, 90)})
    between = progress_between({T0: 10}, {T0: 20, T1: 8}, cluster)
    assert [(partition.topic_partition, partition.start, partition.end) for partition in between] == [
        (T0, 10, 20),
        (T1, 4, 8),
    ]
    assert plan_pinned(between, cluster, FAIL).ranges == (OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 4, 8))


def test_a_checkpoint_says_nothing_of_topic_ids_so_a_new_id_is_no_loss() -> None:
    batch = plan(progress_at({T0: 5}), snapshot({T0: seen(0, 9, topic_id="id-9")}), FAIL)
    assert batch is not None
    assert batch.ranges == (OffsetRange("t", 0, 5, 9),)


def test_less_than_a_batch_should_have_is_no_batch() -> None:
    previous, now = known(at(T0, 0), at(T1, 5)), snapshot({T0: seen(0, 4), T1: seen(0, 10)})
    assert plan(previous, now, PlanPolicy(min_offsets=10)) is None
    batch = plan(previous, now, PlanPolicy(min_offsets=9))
    assert batch is not None
    assert batch.offset_count == 9


def test_a_loss_is_told_even_while_a_batch_waits_for_more() -> None:
    with pytest.raises(DataLossError):
        plan(known(at(T0, 3)), snapshot({T0: seen(4, 5)}), PlanPolicy(min_offsets=10))
