"""The structured engine's decision: every ledger beside every checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.errors import LineageError
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE, Recovery, reconcile
from directkafka.pipeline.structured.lineage import Case, CheckpointBatch, Decision, classify, decide, progress_of
from directkafka.sinks.api import LedgerEntry

PARTITION = TopicPartition("t", 0)
MINE = "mine"


def planned(batch_id: int = 5, start: int = 50, end: int = 60, **changes: Any) -> CheckpointBatch:
    batch = CheckpointBatch(
        lineage=MINE, batch_id=batch_id, starts={PARTITION: start}, ends={PARTITION: end}, planned_at_ms=1_000
    )
    return replace(batch, **changes)


def entry(batch_id: int = 4, start: int = 40, end: int = 50, **changes: Any) -> LedgerEntry:
    partition = PartitionProgress(topic="t", partition=0, topic_id="", start=start, end=end, leader_epoch=-1, origin=0)
    ledger_entry = LedgerEntry(
        pipeline="p", generation=1, lineage=MINE, batch_id=batch_id, progress=(partition,), committed_at_ms=2_000
    )
    return replace(ledger_entry, **changes)


FIRST_BATCH = planned(0, starts={}, end=50)

CASES: list[tuple[Case, LedgerEntry | None, CheckpointBatch]] = [
    (Case.FIRST, None, FIRST_BATCH),
    (Case.NO_ENTRY, None, planned()),
    (Case.NEXT, entry(), planned()),
    (Case.OFFSETS_DIFFER, entry(end=49), planned()),
    (Case.OFFSETS_DIFFER, entry(progress=()), planned()),
    (Case.DONE, entry(5, 50, 60), planned()),
    (Case.PLANNED_AGAIN, entry(5, 50, 61), planned()),
    (Case.PLANNED_AGAIN, entry(5, 50, 60), planned(planned_at_ms=2_001)),
    (Case.CHECKPOINT_IS_OLD, entry(6, 60, 70), planned()),
    (Case.LEDGER_IS_OLD, entry(3, 30, 40), planned()),
    (Case.CHECKPOINT_IS_NEW, entry(lineage="other"), FIRST_BATCH),
    (Case.CHECKPOINT_IS_FOREIGN, entry(lineage="other"), planned()),
    (Case.RESTARTED, entry(lineage=OPEN_LINEAGE), FIRST_BATCH),
    (Case.RESTARTED, entry(lineage=OPEN_LINEAGE, progress=()), FIRST_BATCH),
    (Case.BEGINS_ELSEWHERE, entry(lineage=OPEN_LINEAGE, end=49), FIRST_BATCH),
    (Case.BEGINS_ELSEWHERE, entry(lineage=OPEN_LINEAGE), planned(0, starts={}, ends={})),
    (Case.WAITS_FOR_ANOTHER, entry(lineage=OPEN_LINEAGE), planned()),
    # Where no source is Kafka, batch ids and the time of the plan are all there is.
    (Case.NEXT, entry(progress=()), planned(starts={}, ends={})),
    (Case.DONE, entry(5, progress=()), planned(starts={}, ends={})),
    (Case.PLANNED_AGAIN, entry(5, progress=()), planned(starts={}, ends={}, planned_at_ms=2_001)),
]


@pytest.mark.parametrize(("case", "ledger_entry", "batch"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_each_ledger_and_checkpoint_have_their_case(
    case: Case, ledger_entry: LedgerEntry | None, batch: CheckpointBatch
) -> None:
    assert classify(ledger_entry, batch) is case


def test_every_case_is_reached() -> None:
    assert {case for case, _, _ in CASES} == set(Case)


def test_every_error_names_both_sides_and_a_way_out() -> None:
    for case, ledger_entry, batch in CASES:
        if not case.is_error:
            continue
        with pytest.raises(LineageError) as caught:
            decide(Recovery(ahead=ledger_entry), batch, pipeline="p", stores=["db"])
        message = str(caught.value)
        assert f"{MINE} (batch {batch.batch_id}" in message
        assert ledger_entry is None or f"(batch {ledger_entry.batch_id}" in message
        assert any(way in message for way in ("directkafka restart", "directkafka adopt")), message


def test_a_partition_that_joins_in_the_batch_is_no_difference() -> None:
    later = TopicPartition("t", 1)
    assert classify(entry(), planned(ends={PARTITION: 60, later: 0})) is Case.NEXT


def test_a_partition_that_joins_is_read_from_where_the_batch_says() -> None:
    """Spark's own source reads a partition in the batch that names it first, and from 0."""
    later = TopicPartition("t", 1)
    batch = planned(ends={PARTITION: 60, later: 7}, joined={later: 0})
    assert classify(entry(), batch) is Case.NEXT
    assert [(partition.origin, partition.start, partition.end) for partition in progress_of(batch, entry())] == [
        (0, 50, 60),
        (0, 0, 7),
    ]


@pytest.mark.parametrize(("known", "case"), [(0, Case.NEXT), (4, Case.OFFSETS_DIFFER), (7, Case.OFFSETS_DIFFER)])
def test_a_partition_that_the_ledger_knows_is_not_read_again_in_silence(known: int, case: Case) -> None:
    later = TopicPartition("t", 1)
    past = PartitionProgress(topic="t", partition=1, topic_id="", start=0, end=known, leader_epoch=-1, origin=0)
    before = entry(progress=(*entry().progress, past))
    assert classify(before, planned(ends={PARTITION: 60, later: 9}, joined={later: 0})) is case
    # Our own source: named first, read in the batch after.
    assert classify(before, planned(ends={PARTITION: 60, later: 0})) is case


def test_a_partition_that_is_gone_from_the_checkpoint_is_no_difference_and_its_progress_is_kept() -> None:
    gone = PartitionProgress(topic="gone", partition=0, topic_id="", start=0, end=7, leader_epoch=-1, origin=2)
    before = entry(progress=(gone, *entry().progress))
    assert classify(before, planned()) is Case.NEXT
    kept = [partition for partition in progress_of(planned(), before) if partition.topic == "gone"]
    assert [(partition.start, partition.end, partition.origin) for partition in kept] == [(7, 7, 2)]


def test_a_partition_that_our_source_has_dropped_for_good_leaves_the_ledger_too() -> None:
    gone = PartitionProgress(topic="gone", partition=0, topic_id="", start=0, end=7, leader_epoch=-1, origin=2)
    before = entry(progress=(gone, *entry().progress))
    batch = replace(planned(), dropped=frozenset({gone.topic_partition}))
    assert progress_of(batch, before) == progress_of(planned(), entry())


def test_progress_carries_on_what_is_known_of_a_partition() -> None:
    known = replace(entry().progress[0], topic_id="id-1", leader_epoch=3, origin=12)
    progress = progress_of(planned(), entry(progress=(known,)))
    assert progress == (replace(known, start=50, end=60),)


def test_a_partition_begins_where_the_log_first_names_it() -> None:
    assert [(partition.origin, partition.start, partition.end) for partition in progress_of(FIRST_BATCH, None)] == [
        (50, 50, 50)
    ]


# Several stores.

STORES = ["a", "b"]


def decided(*entries: LedgerEntry | None, batch: CheckpointBatch) -> Decision:
    recovery = reconcile(list(zip(STORES, entries, strict=True)))
    return decide(recovery, batch, pipeline="p", stores=STORES)


def test_only_the_stores_that_lack_the_batch_are_written() -> None:
    assert decided(entry(), entry(), batch=planned()) == Decision(write=(0, 1))
    assert decided(entry(5, 50, 60), entry(), batch=planned()) == Decision(write=(1,))
    assert decided(entry(5, 50, 60), entry(5, 50, 60), batch=planned()) == Decision(write=())


def test_a_store_that_is_new_joins_and_gets_the_next_batch() -> None:
    assert decided(entry(), None, batch=planned()) == Decision(write=(0, 1), join=(1,))
    assert decided(entry(5, 50, 60), None, batch=planned()) == Decision(write=(), join=(1,))


def test_a_store_that_lacks_the_very_first_batch_gets_its_rows() -> None:
    """The driver died between the stores' first commits: a store without an entry is not one that was added."""
    begun = entry(0, 50, 50)
    assert decided(begun, None, batch=FIRST_BATCH) == Decision(write=(1,))
    waiting = entry(9, lineage=OPEN_LINEAGE)
    assert decided(begun, waiting, batch=FIRST_BATCH) == Decision(write=(1,))


def test_waiting_entries_are_one_whatever_their_numbers() -> None:
    decision = decided(entry(2, lineage=OPEN_LINEAGE), entry(0, lineage=OPEN_LINEAGE), batch=FIRST_BATCH)
    assert decision == Decision(write=(0, 1))


def test_a_store_that_lacks_a_batch_which_spark_has_noted_cannot_be_caught_up() -> None:
    with pytest.raises(LineageError) as caught:
        decided(entry(), entry(3, 30, 40), batch=planned())
    assert caught.value.store == "b"


# Properties.

offsets = st.integers(0, 5)
batch_ids = st.integers(0, 4)


@st.composite
def entries(draw: st.DrawFn) -> LedgerEntry | None:
    if draw(st.booleans()):
        return None
    start = draw(offsets)
    return entry(
        draw(batch_ids),
        start,
        start + draw(offsets),
        lineage=draw(st.sampled_from([MINE, "other", OPEN_LINEAGE])),
        committed_at_ms=draw(st.integers(0, 3)),
    )


@st.composite
def batches(draw: st.DrawFn) -> CheckpointBatch:
    start = draw(offsets)
    batch_id = draw(batch_ids)
    return planned(
        batch_id,
        starts={} if batch_id == 0 else {PARTITION: start},
        ends={PARTITION: start + draw(offsets)},
        planned_at_ms=draw(st.integers(0, 3)),
    )


@given(entries(), batches())
def test_nothing_is_written_unless_it_begins_where_the_ledger_ends(
    ledger_entry: LedgerEntry | None, batch: CheckpointBatch
) -> None:
    case = classify(ledger_entry, batch)
    if case in (Case.NEXT, Case.RESTARTED):
        assert ledger_entry is not None
        assert batch.begin()[PARTITION] == ledger_entry.ends()[PARTITION]
    if case is Case.FIRST:
        assert ledger_entry is None
        assert batch.batch_id == 0


@given(entries(), batches())
def test_nothing_is_skipped_unless_the_ledger_has_this_very_plan(
    ledger_entry: LedgerEntry | None, batch: CheckpointBatch
) -> None:
    if classify(ledger_entry, batch) is Case.DONE:
        assert ledger_entry is not None
        assert (ledger_entry.lineage, ledger_entry.batch_id, ledger_entry.ends()) == (
            batch.lineage,
            batch.batch_id,
            dict(batch.ends),
        )
        assert batch.planned_at_ms <= ledger_entry.committed_at_ms


@given(batches(), st.integers(0, 3))
def test_what_was_committed_from_a_plan_is_done_for_that_plan_and_next_for_the_following(
    batch: CheckpointBatch, records: int
) -> None:
    committed = entry(batch.batch_id, progress=progress_of(batch, None), committed_at_ms=batch.planned_at_ms)
    assert classify(committed, batch) is Case.DONE
    following = replace(
        batch, batch_id=batch.batch_id + 1, starts=batch.ends, ends={PARTITION: batch.ends[PARTITION] + records}
    )
    assert classify(committed, following) is Case.NEXT
    assert classify(entry(batch.batch_id + 1, progress=progress_of(following, committed)), batch).is_error
