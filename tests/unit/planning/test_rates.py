"""Rates of a direct stream, against the numbers of Spark's DirectKafkaStreamSuite and PIDRateEstimatorSuite."""

from __future__ import annotations

import pytest

from directkafka.offsets import TopicPartition
from directkafka.options.limits import FeedbackPolicy, RatePolicy
from directkafka.planning.rates import BatchTimes, Feedback, PartitionRates, observe, rated_ends

PARTITIONS = [TopicPartition("backpressure", number) for number in range(4)]
PID = FeedbackPolicy()
TENTH_S = 100
FROM_ZERO = dict.fromkeys(PARTITIONS, 0)


def ends(latest: list[int], policy: RatePolicy, *, interval_ms: int = TENTH_S, rate: float | None = None) -> list[int]:
    """The ends of so many partitions that start at 0."""
    known = dict(zip(PARTITIONS, latest, strict=False))
    end_offsets = rated_ends(dict.fromkeys(known, 0), known, policy, interval_ms=interval_ms, rate=rate)
    return [end_offsets[partition] for partition in known]


def test_nothing_is_limited_where_no_rate_is_given() -> None:
    assert ends([50, 7], RatePolicy()) == [50, 7]


def test_without_backpressure_each_partition_has_its_maximum() -> None:
    assert ends([50, 50], RatePolicy(rate_max=100)) == [10, 10]


def test_without_lag_nothing_is_planned() -> None:
    assert ends([0, 0], RatePolicy(rate_max=100, feedback=PID), rate=100) == [0, 0]


def test_the_maximum_counts_where_the_controller_would_allow_more() -> None:
    assert ends([1000, 1000], RatePolicy(rate_max=100, feedback=PID), rate=1000) == [10, 10]


@pytest.mark.parametrize(("rate", "expected"), [(100, [5, 5]), (50, [2, 2]), (20, [1, 1])])
def test_the_controller_s_rate_is_shared_by_lag(rate: int, expected: list[int]) -> None:
    assert ends([1000, 1000], RatePolicy(rate_max=100, feedback=PID), rate=rate) == expected


@pytest.mark.parametrize(("rate_max", "initial", "expected"), [(1000, 500, 250), (300, 1000, 150)])
def test_the_initial_rate_counts_until_the_controller_speaks_and_honours_the_maximum(
    rate_max: int, initial: int, expected: int
) -> None:
    policy = RatePolicy(rate_max=rate_max, feedback=PID, initial_rate=initial)
    assert ends([5000], policy, interval_ms=500) == [expected]
    assert ends([5000], policy, interval_ms=500, rate=40) == [20]


def test_a_rate_is_a_share_of_the_lag_and_a_partition_never_starves() -> None:
    policy = RatePolicy(feedback=PID)
    assert ends([0, 100, 200, 300], policy, interval_ms=60_000, rate=1) == [0, 10, 20, 30]
    assert ends([1, 100, 200, 299], policy, interval_ms=60_000, rate=0.01) == [1, 1, 1, 1]


def test_a_batch_never_ends_past_the_log_or_before_its_start() -> None:
    starts = dict(zip(PARTITIONS, (100, 100), strict=False))
    latest = dict(zip(PARTITIONS, (104, 90), strict=False))
    end_offsets = rated_ends(starts, latest, RatePolicy(rate_max=1000), interval_ms=1000)
    assert list(end_offsets.values()) == [104, 100]


def test_single_partitions_may_have_bounds_of_their_own() -> None:
    own = PartitionRates(maxima={PARTITIONS[1]: 20, PARTITIONS[2]: 0}, minima={PARTITIONS[2]: 7})
    latest = dict.fromkeys(PARTITIONS[:3], 1000)
    end_offsets = rated_ends(
        dict.fromkeys(latest, 0), latest, RatePolicy(rate_max=100), interval_ms=1000, partitions=own
    )
    assert list(end_offsets.values()) == [100, 20, 7]


def batch(ended_ms: int, *, records: int = 1000, processing_ms: int = 1000, scheduling_ms: int = 0) -> BatchTimes:
    return BatchTimes(ended_ms=ended_ms, records=records, processing_ms=processing_ms, scheduling_ms=scheduling_ms)


def observed(*batches: BatchTimes, policy: FeedbackPolicy = PID, interval_ms: int = 20) -> Feedback:
    state = Feedback()
    for batch_times in batches:
        state = observe(state, batch_times, interval_ms=interval_ms, policy=policy)
    return state


def test_the_first_batch_only_tells_how_fast_records_are_processed() -> None:
    state = observed(batch(1000, records=500))
    assert (state.rate, state.latest_rate) == (None, 500)


def test_a_steady_speed_is_kept() -> None:
    assert observed(batch(1000), batch(2000), batch(3000)).rate == 1000


def test_a_faster_batch_raises_the_rate_and_a_slower_one_lowers_it() -> None:
    assert observed(batch(1000), batch(2000, records=1500)).rate == 1500
    assert observed(batch(1000), batch(2000, records=700)).rate == 700


def test_batches_that_wait_lower_the_rate() -> None:
    # 10 ms of waiting at 1,000 a second are 10 records, which are made up for within an interval of 20 ms.
    assert observed(batch(1000), batch(2000, scheduling_ms=10)).rate == 1000 - 0.2 * (10 * 1000 / 20)


def test_the_rate_does_not_fall_below_the_minimum() -> None:
    state = observed(batch(1000), batch(2000, records=1), policy=FeedbackPolicy(rate_min=10))
    assert state.rate == 10


def test_the_derivative_counts_how_the_error_changes() -> None:
    policy = FeedbackPolicy(proportional=0, integral=0, derivative=1)
    # From no error to one of 300 within two seconds.
    assert observed(batch(1000), batch(3000, records=700), policy=policy).rate == 1000 - 150


@pytest.mark.parametrize("idle", [batch(2000, records=0), batch(2000, processing_ms=0), batch(1000), batch(500)])
def test_an_empty_batch_or_one_of_the_past_says_nothing(idle: BatchTimes) -> None:
    first = observed(batch(1000))
    assert observe(first, idle, interval_ms=20, policy=PID) == first
