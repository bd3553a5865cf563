"""The plan of a direct stream's batch: a pure function over where the stream is and what the cluster has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.planning.snapshots import T0, T1, U0, at, known, seen, snapshot

from directkafka.errors import DataLossError, OptionError
from directkafka.offsets import Committed, Earliest, Exact, Latest, OffsetRange, Positions, TopicPartition
from directkafka.options.consumer import ConsumerOptions, Subscribe
from directkafka.options.limits import FeedbackPolicy, RatePolicy
from directkafka.planning.direct import (
    DirectBatch,
    Progress,
    added_partitions,
    check_planned,
    plan_direct,
    start_positions,
)
from directkafka.planning.rates import PartitionRates
from directkafka.planning.starts import LookupAnswers
from directkafka.snapshot import ClusterSnapshot

NO_RATES = RatePolicy()


def consumer(**params: object) -> ConsumerOptions:
    names = {name.replace("_", "."): value for name, value in params.items()}
    return ConsumerOptions.read(Subscribe(["t", "u"], {"bootstrap.servers": "h:1"} | names, {T0: 7}))


def planned(
    progress: Progress,
    cluster: ClusterSnapshot,
    *,
    starts: Positions | None = None,
    answers: LookupAnswers | None = None,
    rates: RatePolicy = NO_RATES,
    rate: float | None = None,
    own: PartitionRates | None = None,
) -> DirectBatch:
    return plan_direct(
        progress,
        cluster,
        starts=starts or Positions(),
        answers=answers or {},
        rates=rates,
        interval_ms=1_000,
        rate=rate,
        partition_rates=own,
    )


def each(**positions: Exact | Earliest | Latest | Committed) -> Positions:
    places = {"t0": T0, "t1": T1, "u0": U0}
    return Positions(partitions={places[name]: position for name, position in positions.items()})


# Where partitions start.


def test_partitions_that_were_never_read_are_new_also_if_others_were() -> None:
    cluster = snapshot({T0: seen(0, 9), T1: seen(0, 9), U0: seen(0, 9)})
    assert added_partitions(known(at(T1, 5)), cluster) == (T0, U0)


def test_a_start_is_the_program_s_else_the_group_s_else_what_the_reset_says() -> None:
    assert start_positions(consumer(auto_offset_reset="earliest"), [T0, T1]).partitions == {
        T0: Exact(7),
        T1: Earliest(),
    }
    in_group = start_positions(consumer(group_id="g"), [T0, T1]).partitions
    assert in_group == {T0: Exact(7), T1: Committed("g", Latest())}


def test_without_a_start_and_a_reset_there_is_an_error_that_says_where() -> None:
    with pytest.raises(OptionError, match=r"nothing says where to start in t-1"):
        start_positions(consumer(auto_offset_reset="none"), [T1])
    starts = start_positions(consumer(group_id="g", auto_offset_reset="none"), [T1])
    with pytest.raises(OptionError, match=r"nothing says where to start in t-1"):
        planned({}, snapshot({T1: seen(0, 9)}), starts=starts, answers={T1: None})


# What a batch has.


def test_the_first_batch_has_a_range_of_every_partition_even_an_empty_one() -> None:
    cluster = snapshot({T0: seen(0, 9), T1: seen(0, 4), U0: seen(2, 2)})
    batch = planned({}, cluster, starts=each(t0=Exact(7), t1=Latest(), u0=Earliest()))
    assert batch.ranges == (OffsetRange("t", 0, 7, 9), OffsetRange("t", 1, 4, 4), OffsetRange("u", 0, 2, 2))
    assert batch.added == (T0, T1, U0)
    assert [batch.start_of(topic_partition) for topic_partition in batch.added] == [7, 4, 2]
    assert {topic_partition: here.end for topic_partition, here in batch.progress.items()} == {T0: 9, T1: 4, U0: 2}


def test_later_batches_have_what_is_new_and_nothing_else() -> None:
    batch = planned(known(at(T0, 7), at(T1, 4)), snapshot({T0: seen(0, 9), T1: seen(0, 4)}))
    assert (batch.ranges, batch.added) == ((OffsetRange("t", 0, 7, 9),), ())
    assert {topic_partition: here.end for topic_partition, here in batch.progress.items()} == {T0: 9, T1: 4}
    idle = planned(batch.progress, snapshot({T0: seen(0, 9), T1: seen(0, 4)}))
    assert (idle.ranges, {topic_partition: here.end for topic_partition, here in idle.progress.items()}) == (
        (),
        {T0: 9, T1: 4},
    )


def test_a_partition_that_is_added_starts_beside_those_that_go_on() -> None:
    cluster = snapshot({T0: seen(0, 9), T1: seen(0, 4)})
    batch = planned(known(at(T0, 7)), cluster, starts=each(t1=Latest()))
    assert batch.ranges == (OffsetRange("t", 0, 7, 9), OffsetRange("t", 1, 4, 4))
    assert (batch.added, batch.start_of(T1)) == ((T1,), 4)


def test_rates_cut_a_batch_and_its_rest_comes_next() -> None:
    cluster = snapshot({T0: seen(0, 90), T1: seen(0, 10)})
    batch = planned(known(at(T0, 0), at(T1, 0)), cluster, rates=RatePolicy(rate_max=20))
    assert batch.ranges == (OffsetRange("t", 0, 0, 20), OffsetRange("t", 1, 0, 10))
    own = planned(batch.progress, cluster, rates=RatePolicy(rate_max=20), own=PartitionRates(maxima={T0: 5}))
    assert own.ranges == (OffsetRange("t", 0, 20, 25),)


def test_the_rate_of_all_partitions_is_shared_by_lag() -> None:
    cluster = snapshot({T0: seen(0, 90), T1: seen(0, 10)})
    batch = planned(known(at(T0, 0), at(T1, 0)), cluster, rates=RatePolicy(feedback=FeedbackPolicy()), rate=50)
    assert [offset_range.count() for offset_range in batch.ranges] == [45, 5]


# What is lost.


def test_records_that_are_gone_and_topics_that_were_made_again_are_losses() -> None:
    with pytest.raises(DataLossError, match="topic t, partition 0"):
        planned(known(at(T0, 5)), snapshot({T0: seen(6, 9)}))
    with pytest.raises(DataLossError, match="topic t, partition 0"):
        planned(known(at(T0, 5)), snapshot({T0: seen(0, 9, topic_id="id-2")}))
    with pytest.raises(DataLossError, match="topic t, partition 1"):
        planned(known(at(T0, 5), at(T1, 5)), snapshot({T0: seen(0, 9)}))


def test_ranges_that_were_planned_before_are_held_against_what_the_cluster_has_now() -> None:
    progress = known(at(T0, 20), at(T1, 7))
    ranges = [OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 7, 7)]
    check_planned(progress, ranges, snapshot({T0: seen(10, 20), T1: seen(0, 7)}))
    for cluster in (
        snapshot({T0: seen(11, 20), T1: seen(0, 7)}),
        snapshot({T0: seen(0, 19), T1: seen(0, 7)}),
        snapshot({T0: seen(0, 20, topic_id="id-2"), T1: seen(0, 7)}),
        snapshot({T1: seen(0, 7)}),
    ):
        with pytest.raises(DataLossError, match="topic t, partition 0"):
            check_planned(progress, ranges, cluster)


def test_a_partition_that_came_with_an_unknown_epoch_goes_on() -> None:
    progress = {T0: replace(at(T0, 5), leader_epoch=-1)}
    assert planned(progress, snapshot({T0: seen(0, 9)})).ranges == (OffsetRange("t", 0, 5, 9),)


def test_topics_without_partitions_make_an_empty_batch() -> None:
    assert planned({}, snapshot({})) == DirectBatch((), {}, ())
    assert start_positions(consumer(), list[TopicPartition]()).partitions == {}
