"""The entry of a reset: its lineage, and what each store makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.errors import LineageError
from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition
from directkafka.pipeline.ledger.reconcile import reconcile
from directkafka.pipeline.ledger.reset_entry import (
    changed_ranges,
    is_skipped,
    reset_entry,
    reset_entry_of_store,
    rows_policy_of,
)
from directkafka.planning.reset_target import RowsPolicy
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import SKIPPED


def air_partition(partition: int) -> TopicPartition:
    return TopicPartition("air", partition)


def progress(partition: int, end: int, *, start: int = 0, origin: int = 0, topic_id: str = "id") -> PartitionProgress:
    return PartitionProgress(
        topic="air", partition=partition, topic_id=topic_id, start=start, end=end, leader_epoch=0, origin=origin
    )


def entry(ends: Mapping[int, int], *, batch_id: int = 7, lineage: str = "first", origin: int = 0) -> LedgerEntry:
    return LedgerEntry(
        pipeline="p",
        generation=2,
        lineage=lineage,
        batch_id=batch_id,
        progress=tuple(progress(partition, end, origin=origin) for partition, end in ends.items()),
        row_counts={"t": 1},
        total_rows={"t": 10},
    )


def reset(ahead: LedgerEntry, ends: Mapping[int, int], rows: RowsPolicy = RowsPolicy.KEEP) -> LedgerEntry:
    starts = {
        air_partition(partition): progress(partition, end, start=end, origin=end) for partition, end in ends.items()
    }
    return reset_entry(ahead, starts, rows)


def test_what_is_not_reset_stays_where_it_was_and_nothing_was_read() -> None:
    done = reset(entry({0: 30, 1: 40}), {0: 15})
    assert done.ends() == {air_partition(0): 15, air_partition(1): 40}
    assert all(partition.start == partition.end for partition in done.progress)
    assert (done.batch_id, dict(done.row_counts), dict(done.total_rows)) == (8, {}, {})
    assert done.lineage not in ("first", reset(entry({0: 30, 1: 40}), {0: 16}).lineage)


@given(
    st.dictionaries(st.integers(0, 3), st.integers(0, 50), min_size=1),
    st.dictionaries(st.integers(0, 3), st.integers(0, 50)),
    st.sampled_from(list(RowsPolicy)),
    st.integers(0, 1),
)
def test_a_store_that_lacks_a_reset_is_known_and_what_the_reset_does_with_rows(
    ends: dict[int, int], new: dict[int, int], rows: RowsPolicy, behind: int
) -> None:
    ahead = entry(ends)
    done = reset(ahead, new, rows)
    own = replace(ahead, batch_id=ahead.batch_id - behind)
    assert rows_policy_of(done, own) is rows
    assert rows_policy_of(done, replace(own, lineage="another")) is None
    recovery = reconcile([("a", done), ("b", own)])
    assert (recovery.lacking_reset, recovery.rows) == ((1,), rows)
    with pytest.raises(LineageError):
        reconcile([("a", done), ("b", replace(own, batch_id=own.batch_id - 2))])
    other = next(policy for policy in RowsPolicy if policy is not rows)
    assert rows_policy_of(replace(done, lineage=reset(ahead, new, other).lineage), own) is other


def test_stores_of_which_some_lack_a_reset_have_one_history() -> None:
    before = entry({0: 30})
    done = reset(before, {0: 15}, RowsPolicy.DELETE)
    recovery = reconcile([("a", done), ("b", before), ("c", None), ("d", done)])
    assert recovery.ahead == done
    assert (recovery.lacking_reset, recovery.new, recovery.behind) == ((1,), (2,), ())
    assert recovery.rows is RowsPolicy.DELETE


def test_a_store_of_another_history_is_refused_beside_one_that_is_reset() -> None:
    done = reset(entry({0: 30}), {0: 15})
    with pytest.raises(LineageError):
        reconcile([("a", done), ("b", entry({0: 30}, lineage="another"))])


def test_a_store_keeps_its_own_origin_unless_the_pipeline_goes_back_behind_it() -> None:
    done = reset(entry({0: 30, 1: 40}), {0: 15, 1: 2})
    own = entry({0: 30, 1: 40}, origin=10)
    assert [partition.origin for partition in reset_entry_of_store(done, own).progress] == [10, 2]


def test_what_is_skipped_is_counted_and_what_is_read_again_is_not() -> None:
    own = entry({0: 30, 1: 40, 2: 5})
    done = reset(own, {0: 15, 1: 47, 3: 9})
    assert changed_ranges(own, done) == [OffsetRange("air", 0, 15, 30), OffsetRange("air", 1, 40, 47)]
    assert [is_skipped(own, each) for each in changed_ranges(own, done)] == [False, True]
    assert reset_entry_of_store(done, own).total_rows == {SKIPPED: 7}
    assert reset_entry_of_store(reset(own, {0: 15}), own).total_rows == {}


def test_offsets_of_a_topic_that_was_made_again_are_not_compared() -> None:
    own = entry({0: 30})
    starts = {air_partition(0): progress(0, 3, start=3, origin=3, topic_id="another")}
    done = reset_entry(own, starts, RowsPolicy.KEEP)
    assert changed_ranges(own, done) == []
    assert reset_entry_of_store(done, own).progress == (starts[air_partition(0)],)
