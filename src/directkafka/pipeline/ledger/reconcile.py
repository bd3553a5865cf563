"""Reconciliation of ledgers: where a pipeline stands when it starts, by comparing its stores. Pure.

One store: its entry says it all. Several stores commit one after the other, so a crash leaves each at batch n
or n-1; the one that is ahead pins the ranges for the others, which must be exactly one batch behind. A store
without an entry is new to the pipeline, and begins where the others end. A store with the history before a reset that
another store has (:mod:`directkafka.pipeline.ledger.reset_entry`) is reset as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from directkafka.errors import LineageError, OffsetMismatchError
from directkafka.offsets import PartitionProgress, TopicPartition, to_nested
from directkafka.pipeline.ledger.reset_entry import rows_policy_of
from directkafka.planning.reset_target import RowsPolicy
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import FORGOTTEN

#: Lineage of an entry that waits for a new checkpoint: its batch 0 may follow, and no other batch (structured engine).
OPEN_LINEAGE = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What to do first.

    Attributes:
        ahead: the newest entry; None when the pipeline never committed anything anywhere.
        behind: indexes of the stores that lack the newest entry's batch.
        new: indexes of the stores that have no entry, while others have.
        lacking_reset: indexes of the stores that lack the reset which the newest entry is.
        rows: what that reset does with rows.
    """

    ahead: LedgerEntry | None
    behind: tuple[int, ...] = ()
    new: tuple[int, ...] = ()
    lacking_reset: tuple[int, ...] = ()
    rows: RowsPolicy = RowsPolicy.KEEP

    @property
    def is_whole(self) -> bool:
        """Whether all stores have the newest entry."""
        return self.ahead is not None and not (self.behind or self.new or self.lacking_reset)


def reconcile(entries: Sequence[tuple[str, LedgerEntry | None]]) -> Recovery:
    """Compare the ledgers of a pipeline's stores.

    Args:
        entries: identity and entry of each store, in the order in which they commit.

    Raises:
        LineageError: entries of two different histories.
        OffsetMismatchError: a store that is more than one batch behind, whose ends are not the starts of the
            batch it lacks, or that ends elsewhere after the same batch.
    """
    known = [entry for _, entry in entries if entry is not None]
    if not known:
        return Recovery(ahead=None)
    ahead = max(known, key=lambda entry: (entry.lineage != OPEN_LINEAGE, entry.batch_id))
    behind, new, lacking_reset, policy = [], [], [], RowsPolicy.KEEP
    for index, (identity, store_entry) in enumerate(entries):
        if store_entry is None:
            new.append(index)
            continue
        if (rows := _lacked_reset_policy(store_entry, ahead)) is not None:
            lacking_reset.append(index)
            policy = rows
            continue
        entry = _as_predecessor(store_entry, ahead)
        _check_lineage(identity, entry, ahead)
        if entry.batch_id == ahead.batch_id:
            _check_same_ends(identity, entry, ahead)
        else:
            _check_one_behind(identity, entry, ahead)
            behind.append(index)
    return Recovery(ahead=ahead, behind=tuple(behind), new=tuple(new), lacking_reset=tuple(lacking_reset), rows=policy)


def is_half_reset(entries: Sequence[LedgerEntry | None]) -> bool:
    """Whether some of a pipeline's stores have a reset that others lack."""
    known = [entry for entry in entries if entry is not None]
    return any(_lacked_reset_policy(entry, other) is not None for entry in known for other in known)


def check_together(entries: Sequence[tuple[str, LedgerEntry]], *, same_ends: bool) -> None:
    """Refuse stores that stand at different points after a crash: they must be brought together first.

    Args:
        entries: identity and entry of each store that has one.
        same_ends: whether stores that end at other offsets, for example by one batch, are refused too.

    Raises:
        LineageError: the stores stand at different points; it says what to do.
    """
    stores, known = ", ".join(store for store, _ in entries), [entry for _, entry in entries]
    if is_half_reset(known):
        raise LineageError(
            store=stores,
            pipeline=known[0].pipeline,
            expected="a reset in all stores or in none",
            found="a reset that was ended between two stores",
            remedy="Run directkafka reset FILE --to-latest --yes, which finishes that reset and does nothing else.",
        )
    if same_ends and any(entry.ends() != known[0].ends() for entry in known):
        waiting = all(entry.lineage == OPEN_LINEAGE for entry in known)
        raise LineageError(
            store=stores,
            pipeline=known[0].pipeline,
            expected="the same offsets in all stores",
            found="; ".join(f"{store} ends at {to_nested(entry.ends())}" for store, entry in entries),
            remedy="Run directkafka restart FILE --from checkpoint. It says what would be lost or doubled."
            if waiting
            else "First run directkafka reset FILE --shift-by 0 --rows delete, and look. Then run it with --yes: this "
            "brings the stores together. Then repeat this command. Without --rows delete, the store that is ahead gets "
            "the rows of its last batch twice.",
        )


def _lacked_reset_policy(entry: LedgerEntry, ahead: LedgerEntry) -> RowsPolicy | None:
    """What becomes of rows in the reset that ``ahead`` is, if an entry lacks it; else None.

    The entry may lack the batch before the reset as well. Waiting entries are numbered by each store for itself.
    """
    is_near = entry.lineage == OPEN_LINEAGE or ahead.batch_id - entry.batch_id in (1, 2)
    return rows_policy_of(ahead, entry) if is_near and entry.lineage != ahead.lineage else None


def progress_of_new_store(ahead: LedgerEntry) -> tuple[PartitionProgress, ...]:
    """The first entry's progress of a store that joins: it has nothing of what lies before."""
    return tuple(replace(partition, start=partition.end, origin=partition.end) for partition in ahead.progress)


def _as_predecessor(entry: LedgerEntry, ahead: LedgerEntry) -> LedgerEntry:
    """An entry that waited for a checkpoint whose batch 0 another store has by now is the one before it.

    Waiting entries count nothing: each store numbers them by itself.
    """
    if entry.lineage != OPEN_LINEAGE:
        return entry
    if ahead.lineage == OPEN_LINEAGE:
        return replace(entry, batch_id=ahead.batch_id)
    return replace(entry, lineage=ahead.lineage, batch_id=-1) if ahead.batch_id == 0 else entry


def _check_lineage(identity: str, entry: LedgerEntry, ahead: LedgerEntry) -> None:
    if entry.lineage != ahead.lineage:
        raise LineageError(
            store=identity,
            pipeline=ahead.pipeline,
            expected=f"lineage {ahead.lineage}",
            found=f"lineage {entry.lineage}",
            remedy="The stores of one pipeline must have one history: give this pipeline another name.",
        )


def _check_same_ends(identity: str, entry: LedgerEntry, ahead: LedgerEntry) -> None:
    if entry.ends() != ahead.ends():
        raise _mismatch(identity, entry, ahead, ahead.batch_id, ahead.ends())


def _check_one_behind(identity: str, entry: LedgerEntry, ahead: LedgerEntry) -> None:
    """A topic that was made again starts anew in the batch that found out, so its starts say nothing."""
    starts = {partition.topic_partition: partition for partition in ahead.progress}
    may_lack = FORGOTTEN in ahead.total_rows
    differing = any(
        not _continues(partition, starts.get(partition.topic_partition), may_lack) for partition in entry.progress
    )
    if entry.batch_id != ahead.batch_id - 1 or differing:
        expected = {topic_partition: partition.start for topic_partition, partition in starts.items()}
        raise _mismatch(identity, entry, ahead, ahead.batch_id - 1, expected)


def _continues(before: PartitionProgress, after: PartitionProgress | None, may_lack: bool) -> bool:
    if after is None:
        # Its topic is deleted for good, and the batch that found out has let go of it.
        return may_lack
    is_other_topic = before.topic_id and after.topic_id and before.topic_id != after.topic_id
    return bool(is_other_topic) or before.end == after.start


def _mismatch(
    identity: str, entry: LedgerEntry, ahead: LedgerEntry, batch_id: int, ends: dict[TopicPartition, int]
) -> OffsetMismatchError:
    return OffsetMismatchError(
        store=identity,
        pipeline=ahead.pipeline,
        batch_id=ahead.batch_id,
        expected=f"batch {batch_id} ending at {to_nested(ends)}, as the pipeline's other stores have it",
        found=f"batch {entry.batch_id} ending at {to_nested(entry.ends())}",
    )
