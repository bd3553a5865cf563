"""Batches that take longer than a transaction may: halved until they fit, and larger again when that is easy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planning.snapshots import T0, T1, at, known, seen, snapshot

from directkafka.offsets import TopicPartition
from directkafka.options.limits import OffsetLimits
from directkafka.planning.adaptive_limit import NO_LIMIT, AdaptiveLimit
from directkafka.planning.plan import BatchPlan, PlanPolicy, plan

BUDGET_MS = 1_000


def planned(limit: AdaptiveLimit, *backlogs: int, policy: PlanPolicy | None = None) -> BatchPlan:
    places = [TopicPartition("t", number) for number in range(len(backlogs))]
    partitions = {topic_partition: seen(0, backlog) for topic_partition, backlog in zip(places, backlogs, strict=True)}
    batch = plan(
        known(*(at(topic_partition, 0) for topic_partition in places)),
        snapshot(partitions),
        limit.over(policy or PlanPolicy()),
    )
    assert batch is not None
    return batch


def test_without_a_ceiling_the_users_policy_stands_as_it_is() -> None:
    policy = PlanPolicy(limits=OffsetLimits(total=7))
    assert NO_LIMIT.over(policy) is policy
    assert NO_LIMIT.after(planned(NO_LIMIT, 10), took_ms=1) is NO_LIMIT


def test_a_batch_that_was_too_slow_is_planned_half_as_large() -> None:
    batch = planned(NO_LIMIT, 60, 40)
    lowered = NO_LIMIT.lowered(batch, budget_ms=BUDGET_MS)
    assert lowered is not None
    assert {offset_range.topic_partition: offset_range.count() for offset_range in planned(lowered, 60, 40).ranges} == {
        T0: 30,
        T1: 20,
    }


def test_the_users_limit_counts_where_it_is_the_lower_one() -> None:
    policy = PlanPolicy(limits=OffsetLimits(total=7))
    assert AdaptiveLimit(offsets=50).over(policy).limits.total == 7
    assert AdaptiveLimit(offsets=5).over(policy).limits.total == 5


def test_a_batch_of_one_offset_in_each_partition_cannot_be_halved() -> None:
    assert NO_LIMIT.lowered(planned(NO_LIMIT, 1), budget_ms=BUDGET_MS) is None
    assert NO_LIMIT.lowered(planned(NO_LIMIT, 1, 1, 1), budget_ms=BUDGET_MS) is None


@given(st.lists(st.lists(st.integers(1, 100_000), min_size=3, max_size=3), min_size=40, max_size=40))
def test_halving_comes_to_an_end_whatever_comes_in_meanwhile(backlogs: list[list[int]]) -> None:
    """40 tries are more than the halvings of any batch here."""
    limit: AdaptiveLimit | None = NO_LIMIT
    for partition_backlogs in backlogs:
        assert limit is not None
        limit = limit.lowered(planned(limit, *partition_backlogs), budget_ms=BUDGET_MS)
        if limit is None:
            return
    raise AssertionError(f"it is still halved: {limit}")


def test_a_batch_that_stays_larger_than_its_limit_is_not_halved_for_ever() -> None:
    """Each of 100 partitions gets one offset at least, so that a limit of 50 gives 148 offsets."""
    limit = NO_LIMIT.lowered(planned(NO_LIMIT, 2, *[1] * 99), budget_ms=BUDGET_MS)
    heights = []
    while limit is not None:
        heights.append(limit.offsets)
        limit = limit.lowered(planned(limit, 1_000_000, *[1] * 99), budget_ms=BUDGET_MS)
        assert len(heights) < 10
    assert heights == [50, 25, 12, 6, 3, 1]


def test_a_ceiling_rises_after_full_batches_that_were_easy_and_ends_where_it_began() -> None:
    limit = AdaptiveLimit(offsets=25, too_slow=100, budget_ms=BUDGET_MS)
    assert limit.after(planned(limit, 500), took_ms=251) is limit
    assert limit.after(planned(limit, 5), took_ms=1) is limit, "a small batch shows nothing"
    higher = limit.after(planned(limit, 500), took_ms=250)
    assert higher == AdaptiveLimit(offsets=50, too_slow=100, budget_ms=BUDGET_MS)
    assert higher.after(planned(higher, 500), took_ms=1) == NO_LIMIT
