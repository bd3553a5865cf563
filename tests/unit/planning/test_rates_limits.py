from __future__ import annotations

import pytest
from tests.unit.planning.snapshots import T0, T1, U0

from directkafka.options.limits import NO_LIMITS, OffsetLimits
from directkafka.planning.rates import limited_ends


def test_without_a_limit_a_batch_goes_to_the_latest_offsets() -> None:
    assert limited_ends({T0: 3, T1: 0}, {T0: 10, T1: 7}, NO_LIMITS) == {T0: 10, T1: 7}


def test_the_limit_is_shared_in_proportion_to_the_backlog() -> None:
    # The numbers of Spark's test "maxOffsetsPerTrigger": 1, 10 and 100 records, ten a batch: 1 + 1 + 8.
    starts = {T0: 0, T1: 0, U0: 0}
    first = limited_ends(starts, {T0: 100, T1: 10, U0: 1}, OffsetLimits(total=10))
    assert first == {T0: 9, T1: 1, U0: 1}
    second = limited_ends(first, {T0: 100, T1: 10, U0: 1}, OffsetLimits(total=10))
    assert second == {T0: 18, T1: 2, U0: 1}


def test_a_share_under_one_is_rounded_up_so_that_no_partition_starves() -> None:
    assert limited_ends({T0: 0, T1: 5}, {T0: 1_000_000, T1: 6}, OffsetLimits(total=10)) == {T0: 9, T1: 6}


def test_a_share_over_one_is_rounded_down() -> None:
    assert limited_ends({T0: 0, T1: 0}, {T0: 5, T1: 5}, OffsetLimits(total=3)) == {T0: 1, T1: 1}


def test_a_share_is_computed_in_floating_point_as_spark_does() -> None:
    # 100 * (29 / 200) is 14.499999999999998, and 7 * (2 / 14) is exactly 1.
    assert limited_ends({T0: 0, T1: 0}, {T0: 29, T1: 171}, OffsetLimits(total=100)) == {T0: 14, T1: 85}
    assert limited_ends({T0: 0, T1: 0}, {T0: 2, T1: 12}, OffsetLimits(total=7)) == {T0: 1, T1: 6}


def test_a_limit_over_the_backlog_reads_all_of_it() -> None:
    assert limited_ends({T0: 0, T1: 1}, {T0: 3, T1: 30}, OffsetLimits(total=32)) == {T0: 3, T1: 30}


@pytest.mark.parametrize("limit", [2**63 - 1, 2**63 - 2, 2**62])
def test_a_limit_near_the_largest_long_does_not_overflow(limit: int) -> None:
    # SPARK-26718
    assert limited_ends({T0: 5}, {T0: 10}, OffsetLimits(total=limit)) == {T0: 10}


def test_a_share_that_a_float_rounds_up_is_held_to_the_backlog() -> None:
    assert float(2**63 - 2) > 2**63 - 1
    assert limited_ends({T0: 0}, {T0: 2**63 - 1}, OffsetLimits(total=2**63 - 2)) == {T0: 2**63 - 1}


def test_a_log_that_ends_before_the_start_counts_as_no_backlog() -> None:
    assert limited_ends({T0: 10, T1: 0}, {T0: 4, T1: 8}, OffsetLimits(total=4)) == {T0: 10, T1: 4}


def test_a_topic_s_limit_is_shared_by_its_partitions_and_holds_nobody_else() -> None:
    limits = OffsetLimits(topics={"t": 10})
    assert limited_ends({T0: 0, T1: 0, U0: 0}, {T0: 60, T1: 40, U0: 500}, limits) == {T0: 6, T1: 4, U0: 500}


def test_a_partition_s_limit_holds_it_and_nobody_else() -> None:
    limits = OffsetLimits(partitions={T0: 7})
    assert limited_ends({T0: 3, T1: 0}, {T0: 60, T1: 40}, limits) == {T0: 10, T1: 40}


def test_limits_count_one_after_the_other_from_the_partition_to_all() -> None:
    limits = OffsetLimits(total=40, topics={"t": 60}, partitions={T0: 20})
    # 20 + 80 of topic t become 12 + 48; with the 20 of u, 80 in all become 40.
    assert limited_ends({T0: 0, T1: 0, U0: 0}, {T0: 900, T1: 80, U0: 20}, limits) == {T0: 6, T1: 24, U0: 10}


def test_a_limit_of_what_is_not_read_limits_nothing() -> None:
    limits = OffsetLimits(topics={"elsewhere": 1}, partitions={U0: 1})
    assert limited_ends({T0: 0}, {T0: 60}, limits) == {T0: 60}
