"""The lineage of a checkpoint: what it and a ledger say of each other, the structured engine's decision. Pure.

Structured Streaming has a log of its own: the checkpoint plans batch N in ``offsets/N`` before it runs, and notes it
in ``commits/N`` after the sink is done. A batch id alone says little: a deleted checkpoint counts from 0 again, a
copied one plans other offsets under the same id. So a ledger entry is taken for batch N of this checkpoint only
when lineage (the id in the checkpoint's ``metadata``), batch id and offsets agree. :class:`Case` has every
combination; ``docs/adr/0023-lineage.md`` is the same as a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from directkafka.errors import LineageError
from directkafka.offsets import PartitionProgress, TopicPartition, to_nested
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE, Recovery
from directkafka.sinks.api import LedgerEntry

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBatch:
    """A batch as the checkpoint planned it.

    Attributes:
        lineage: the id in the checkpoint's ``metadata``.
        batch_id: Spark's number of the batch.
        starts: offsets of Kafka's partitions in ``offsets/N-1``; for batch 0 what Spark's own source noted apart.
        ends: the same in ``offsets/N``. Both are empty where no source is Kafka.
        planned_at_ms: when Spark planned it, in milliseconds since 1970 (the driver's clock).
        joined: where partitions begin that this batch names for the first time and reads at once.
        dropped: partitions of the batch before that our source names no more: their topics are deleted for good.
    """

    lineage: str
    batch_id: int
    starts: Offsets
    ends: Offsets
    planned_at_ms: int
    joined: Offsets = field(default_factory=dict)
    dropped: frozenset[TopicPartition] = frozenset()

    def begin(self) -> dict[TopicPartition, int]:
        """Where it starts. Our source names a partition one batch before it reads a record of it."""
        known = {**self.joined, **self.starts}
        return {partition: known.get(partition, end) for partition, end in self.ends.items()}

    def __str__(self) -> str:
        offsets = f", from {to_nested(self.begin())} to {to_nested(self.ends)}" if self.ends else ""
        return f"{self.lineage} (batch {self.batch_id}{offsets})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a batch.

    Attributes:
        write: indexes of the stores that it is written to; none when all have it.
        join: indexes of the stores that are new to the pipeline, and begin where the others end.
    """

    write: tuple[int, ...]
    join: tuple[int, ...] = ()


class Case(Enum):
    """What an entry is to the batch that Spark hands over; each error's value is its way out."""

    FIRST = "no entry, and the checkpoint begins"
    RESTARTED = "the entry waits for a new checkpoint, and this one begins where it ends"
    NEXT = "the entry is the batch before"
    DONE = "the entry is this batch: Spark died after the store had committed, before it noted so itself"

    NO_ENTRY = (
        "The ledger was deleted, or this pipeline is new to the store and the checkpoint is not. If the tables hold "
        "what the checkpoint has read, run 'directkafka restart FILE --from checkpoint' (directkafka.restart), which "
        "takes the checkpoint's position for the ledger's; otherwise restore the ledger."
    )
    CHECKPOINT_IS_NEW = (
        "The checkpoint was deleted, moved, or is another job's. To go on where the ledger ends, run 'directkafka "
        "restart FILE' (directkafka.restart); to begin at the new checkpoint's start, add --from checkpoint, which "
        "says first what would be doubled or lost; or give this job a name of its own."
    )
    CHECKPOINT_IS_FOREIGN = (
        "This is the checkpoint of another query, or the pipeline was reset since: then name an empty one, and run "
        "'directkafka restart FILE --from ledger --yes'. If it stands where the ledger ends, run 'directkafka adopt "
        "FILE' (directkafka.adopt), which compares the two; otherwise name the right checkpoint, or give this job a "
        "name of its own."
    )
    CHECKPOINT_IS_OLD = (
        "The checkpoint is an older copy, or was restored: what it would do again is committed. Name the newer "
        "checkpoint; or delete this one and run 'directkafka restart FILE' (directkafka.restart), which goes on "
        "where the ledger ends."
    )
    LEDGER_IS_OLD = (
        "The ledger lacks batches that the checkpoint has done: it was restored from an older state, or another "
        "copy of the checkpoint ran elsewhere. Restore the newer ledger; or delete the checkpoint and run "
        "'directkafka restart FILE' (directkafka.restart), which goes on where the ledger ends."
    )
    PLANNED_AGAIN = (
        "The batch of this number that is committed is another one: the checkpoint was copied or restored, and "
        "planned it anew. Skipping it would lose records, writing it would double some. Name the checkpoint that "
        "the ledger follows; or delete this one and run 'directkafka restart FILE' (directkafka.restart)."
    )
    OFFSETS_DIFFER = (
        "The batch does not begin where the ledger ends: one of the two was changed or restored. Compare both; "
        "delete the checkpoint and run 'directkafka restart FILE' (directkafka.restart) to go on where the ledger "
        "ends, or add --from checkpoint to go on where the checkpoint stands."
    )
    WAITS_FOR_ANOTHER = (
        "The ledger waits for a new checkpoint since 'directkafka restart', and this one has begun already. Name an "
        "empty one; or run 'directkafka adopt FILE' (directkafka.adopt) if this one stands where the ledger ends."
    )
    BEGINS_ELSEWHERE = (
        "The ledger waits for a checkpoint that begins where it ends, and this one begins elsewhere. Delete the "
        "checkpoint and give the ledger's ends as startingOffsets (a pipeline file does it by itself); or run "
        "'directkafka restart FILE --from checkpoint' to accept what would be doubled or lost."
    )

    @property
    def is_error(self) -> bool:
        """Whether nothing may be written or skipped."""
        return self not in (Case.FIRST, Case.RESTARTED, Case.NEXT, Case.DONE)


def classify(entry: LedgerEntry | None, batch: CheckpointBatch) -> Case:
    """What the newest entry of a pipeline's stores is to this batch; every combination has its case."""
    if entry is None:
        return Case.FIRST if batch.batch_id == 0 else Case.NO_ENTRY
    if entry.lineage == OPEN_LINEAGE:
        return _classify_open(entry, batch)
    if entry.lineage != batch.lineage:
        return Case.CHECKPOINT_IS_NEW if batch.batch_id == 0 else Case.CHECKPOINT_IS_FOREIGN
    return _classify_followed(entry, batch)


def _classify_followed(entry: LedgerEntry, batch: CheckpointBatch) -> Case:
    """Entry and batch are of one lineage."""
    if entry.batch_id > batch.batch_id:
        return Case.CHECKPOINT_IS_OLD
    if entry.batch_id == batch.batch_id:
        return Case.DONE if _is_this_plan(entry, batch) else Case.PLANNED_AGAIN
    if entry.batch_id < batch.batch_id - 1:
        return Case.LEDGER_IS_OLD
    ends = entry.ends()
    # A partition that is new to the log may be known to the ledger: its topic was left out for a while, or made anew.
    # The query begins it at its first record, and what the tables have of it would come again.
    again = {partition: offset for partition, offset in batch.begin().items() if partition in ends}
    return Case.NEXT if _follows(ends, batch.starts) and _follows(ends, again) else Case.OFFSETS_DIFFER


def _classify_open(entry: LedgerEntry, batch: CheckpointBatch) -> Case:
    if batch.batch_id != 0:
        return Case.WAITS_FOR_ANOTHER
    # The other way round than for a batch in mid-query: what the ledger has must go on, new partitions may join.
    return Case.RESTARTED if _follows(batch.begin(), entry.ends()) else Case.BEGINS_ELSEWHERE


def _follows(known: Offsets, wanted: Offsets) -> bool:
    return all(known.get(partition) == offset for partition, offset in wanted.items())


def _is_this_plan(entry: LedgerEntry, batch: CheckpointBatch) -> bool:
    """Whether the batch that was committed is the one that is planned.

    Offsets alone would do for Kafka. For other sources the time helps: an entry is never older than the plan that
    it commits, so a copy of the checkpoint that planned the batch anew shows by being younger than the commit.
    """
    return _follows(entry.ends(), batch.ends) and batch.planned_at_ms <= entry.committed_at_ms


def decide(recovery: Recovery, batch: CheckpointBatch, *, pipeline: str, stores: Sequence[str]) -> Decision:
    """Which stores this batch is written to.

    Args:
        recovery: the stores' ledgers compared.
        batch: what Spark hands over.
        pipeline: the pipeline's name.
        stores: identities of the stores, in the order in which they commit.

    Raises:
        LineageError: the checkpoint is not the one that the ledger follows, or no longer.
    """
    case = classify(recovery.ahead, batch)
    if case is Case.NEXT and recovery.behind:
        # They lack a batch that Spark has noted as done, so nobody can compute it again.
        raise _error(Case.LEDGER_IS_OLD, recovery, batch, pipeline, stores[recovery.behind[0]])
    if case.is_error:
        known = [index for index in range(len(stores)) if index not in recovery.new]
        raise _error(case, recovery, batch, pipeline, stores[known[0] if known else 0])
    if case is not Case.DONE:
        return Decision(write=tuple(range(len(stores))), join=recovery.new)
    if batch.batch_id == 0:
        # The first driver died between the stores' first commits. Nobody has joined: the batch's rows are lacking.
        return Decision(write=tuple(sorted((*recovery.behind, *recovery.new))))
    return Decision(write=recovery.behind, join=recovery.new)


def _error(case: Case, recovery: Recovery, batch: CheckpointBatch, pipeline: str, store: str) -> LineageError:
    entry = recovery.ahead
    position = "none" if entry is None else f"lineage {describe_position(entry.lineage, entry.batch_id, entry.ends())}"
    return LineageError(store=store, pipeline=pipeline, expected=f"lineage {batch}", found=position, remedy=case.value)


def describe_position(lineage: str, batch_id: int, ends: Offsets) -> str:
    """Lineage, batch and ends in one line."""
    return f"{lineage} (batch {batch_id}" + (f", ending at {to_nested(ends)})" if ends else ")")


def progress_of(batch: CheckpointBatch, before: LedgerEntry | None) -> tuple[PartitionProgress, ...]:
    """The batch's progress: one item for each partition that the pipeline has ever read and that is not gone for good.

    Spark's offset log has neither topic ids nor epochs; those that an entry of the direct engine left are kept.
    """
    known = before.by_partition() if before is not None else {}
    progress = []
    for partition, start in batch.begin().items():
        past = known.pop(partition, None) or PartitionProgress.at(partition, start)
        progress.append(replace(past, start=start, end=batch.ends[partition]))
    progress += [replace(past, start=past.end) for partition, past in known.items() if partition not in batch.dropped]
    return tuple(sorted(progress))
