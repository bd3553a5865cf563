"""Where a pipeline stands when it starts: the stores' ledgers compared. Pure.

One store: its entry says it all. Several stores commit one after the other, so a crash leaves each at batch n
or n-1; the one that is ahead pins the ranges for the others, which must be exactly one batch behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from directkafka.errors import LineageError, OffsetMismatchError
from directkafka.offsets import to_nested
from directkafka.stores.base import LedgerEntry

__all__ = ["Recovery", "reconcile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What to do first.

    Attributes:
        ahead: the newest entry; None when the pipeline never committed anything anywhere.
        behind: indexes of the stores that lack the newest entry's batch.
    """

    ahead: LedgerEntry | None
    behind: tuple[int, ...]


def reconcile(entries: Sequence[tuple[str, LedgerEntry | None]]) -> Recovery:
    """Compare the ledgers of a pipeline's stores.

    Args:
        entries: identity and entry of each store, in the order in which they commit.

    Raises:
        LineageError: entries of two different histories.
        OffsetMismatchError: a store that is more than one batch behind, or whose ends are not the starts of
            the batch it lacks.
    """
    known = [entry for _, entry in entries if entry is not None]
    if not known:
        return Recovery(ahead=None, behind=())
    ahead = max(known, key=lambda entry: entry.batch_id)
    behind = []
    for index, (identity, entry) in enumerate(entries):
        if entry is None:
            _check_new(identity, ahead)
            behind.append(index)
        elif entry.lineage != ahead.lineage:
            raise LineageError(
                store=identity,
                pipeline=ahead.pipeline,
                expected=ahead.lineage,
                found=entry.lineage,
                remedy="The stores of one pipeline must have one history: give this pipeline another name.",
            )
        elif entry.batch_id < ahead.batch_id:
            _check_one_behind(identity, entry, ahead)
            behind.append(index)
    return Recovery(ahead=ahead, behind=tuple(behind))


def _check_new(identity: str, ahead: LedgerEntry) -> None:
    """A store without an entry can only lack batch 0, which has no rows."""
    if ahead.batch_id > 0:
        raise OffsetMismatchError(
            store=identity,
            pipeline=ahead.pipeline,
            batch_id=ahead.batch_id,
            expected=f"batch {ahead.batch_id} or {ahead.batch_id - 1}, as in the pipeline's other stores",
            found="no entry: this store was added later, or its ledger was deleted",
        )


def _check_one_behind(identity: str, entry: LedgerEntry, ahead: LedgerEntry) -> None:
    starts = {one.topic_partition: one.start for one in ahead.progress}
    ends = entry.ends()
    differing = any(starts.get(one) != end for one, end in ends.items())
    if entry.batch_id != ahead.batch_id - 1 or differing:
        raise OffsetMismatchError(
            store=identity,
            pipeline=ahead.pipeline,
            batch_id=ahead.batch_id,
            expected=f"batch {ahead.batch_id - 1} ending at {to_nested(starts)}",
            found=f"batch {entry.batch_id} ending at {to_nested(ends)}",
        )
