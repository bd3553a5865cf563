"""Ledgers of several stores compared: who is ahead, who is behind, and what has no common history."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.errors import LineageError, OffsetMismatchError
from directkafka.offsets import PartitionProgress
from directkafka.pipeline.ledger.commit_session import with_own_origins
from directkafka.pipeline.ledger.reconcile import Recovery, progress_of_new_store, reconcile
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import FORGOTTEN


def progress(start: int, end: int, *, topic: str = "t", topic_id: str = "id-1", origin: int = 0) -> PartitionProgress:
    return PartitionProgress(
        topic=topic, partition=0, topic_id=topic_id, start=start, end=end, leader_epoch=0, origin=origin
    )


def entry(batch_id: int, *parts: PartitionProgress, lineage: str = "l") -> LedgerEntry:
    return LedgerEntry(pipeline="p", generation=1, lineage=lineage, batch_id=batch_id, progress=parts)


FOURTH = entry(4, progress(30, 40))
FIFTH = entry(5, progress(40, 50))


def test_without_any_entry_there_is_nothing_to_go_on_from() -> None:
    assert reconcile([("a", None), ("b", None)]) == Recovery(ahead=None)


def test_stores_at_one_batch_need_nothing() -> None:
    assert reconcile([("a", FIFTH), ("b", FIFTH)]) == Recovery(ahead=FIFTH)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_store_one_batch_behind_is_named_whatever_its_place(order: tuple[int, int]) -> None:
    entries = [("a", FIFTH), ("b", FOURTH)]
    recovery = reconcile([entries[index] for index in order])
    assert recovery == Recovery(ahead=FIFTH, behind=(order.index(1),))


def test_a_store_without_an_entry_is_new_and_not_behind() -> None:
    assert reconcile([("a", FIFTH), ("b", None), ("c", FOURTH)]) == Recovery(ahead=FIFTH, behind=(2,), new=(1,))


def test_another_lineage_is_refused_with_both_sides() -> None:
    with pytest.raises(LineageError) as raised:
        reconcile([("a", FIFTH), ("b", replace(FIFTH, lineage="other"))])
    assert (raised.value.store, raised.value.expected, raised.value.found) == ("b", "lineage l", "lineage other")


def test_a_store_two_batches_behind_is_refused_with_both_sides() -> None:
    with pytest.raises(OffsetMismatchError) as raised:
        reconcile([("a", FIFTH), ("b", entry(3, progress(20, 40)))])
    assert "batch 4" in raised.value.expected
    assert "batch 3" in raised.value.found


def test_a_store_behind_that_ends_elsewhere_than_the_lacking_batch_starts_is_refused() -> None:
    with pytest.raises(OffsetMismatchError) as raised:
        reconcile([("a", FIFTH), ("b", entry(4, progress(30, 39)))])
    assert "{'t': {'0': 40}}" in raised.value.expected
    assert "{'t': {'0': 39}}" in raised.value.found


def test_a_partition_that_the_store_behind_has_and_the_other_lacks_is_refused() -> None:
    with pytest.raises(OffsetMismatchError):
        reconcile([("a", FIFTH), ("b", entry(4, progress(30, 40), progress(0, 1, topic="u")))])


def test_a_deleted_topic_that_the_lacking_batch_has_let_go_of_is_no_contradiction() -> None:
    ahead = replace(FIFTH, total_rows={"rows": 50, FORGOTTEN: 1})
    behind = entry(4, progress(30, 40), progress(0, 1, topic="u"))
    assert reconcile([("a", ahead), ("b", behind)]) == Recovery(ahead=ahead, behind=(1,))
    with pytest.raises(OffsetMismatchError):
        reconcile([("a", ahead), ("b", entry(4, progress(30, 39), progress(0, 1, topic="u")))])


def test_a_partition_that_began_with_the_lacking_batch_is_no_contradiction() -> None:
    ahead = entry(5, progress(40, 50), progress(0, 7, topic="u"))
    assert reconcile([("a", ahead), ("b", FOURTH)]).behind == (1,)


def test_a_topic_that_was_made_again_in_the_lacking_batch_is_no_contradiction() -> None:
    ahead = entry(5, progress(0, 7, topic_id="id-2"))
    assert reconcile([("a", ahead), ("b", FOURTH)]).behind == (1,)


def test_one_batch_with_two_ends_is_refused() -> None:
    with pytest.raises(OffsetMismatchError) as raised:
        reconcile([("a", FIFTH), ("b", entry(5, progress(40, 51)))])
    assert raised.value.store == "b"


steps = st.lists(st.integers(0, 100), min_size=1, max_size=8)


@given(steps, st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_stores_of_one_history_go_on_from_the_newest_unless_one_is_two_batches_behind(
    counts: list[int], places: list[int]
) -> None:
    ends = [sum(counts[: index + 1]) for index in range(len(counts))]
    history = [
        entry(index, progress(end - count, end)) for index, (count, end) in enumerate(zip(counts, ends, strict=True))
    ]
    stores = [
        (f"s{index}", history[min(history_index, len(history) - 1)]) for index, history_index in enumerate(places)
    ]
    ids = [ledger_entry.batch_id for _, ledger_entry in stores]
    if max(ids) - min(ids) > 1:
        with pytest.raises(OffsetMismatchError):
            reconcile(stores)
        return
    recovery = reconcile(stores)
    assert recovery.ahead == history[max(ids)]
    assert recovery.behind == tuple(index for index, batch_id in enumerate(ids) if batch_id < max(ids))
    assert recovery.new == ()


def test_a_newcomer_begins_at_the_ends_and_has_nothing_before() -> None:
    assert progress_of_new_store(FIFTH) == (progress(50, 50, origin=50),)


def test_each_store_keeps_the_origin_at_which_it_began() -> None:
    batch = (progress(50, 60), progress(0, 5, topic="u"))
    own = entry(5, progress(50, 50, origin=50))
    assert with_own_origins(batch, own) == (progress(50, 60, origin=50), progress(0, 5, topic="u"))
    assert with_own_origins(batch, None) == batch


def test_the_origin_of_a_topic_that_was_made_again_is_the_new_ones() -> None:
    batch = (progress(3, 9, topic_id="id-2", origin=3),)
    assert with_own_origins(batch, entry(5, progress(50, 50, origin=50))) == batch
