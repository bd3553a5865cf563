"""Ways out of a LineageError: a ledger adopts a checkpoint, or a pipeline is restarted.

**adopt**: the checkpoint stands exactly where the ledger ends, only its id or its numbers are others. The entry takes
its lineage and its batch id; nothing is lost or doubled, and where that cannot be shown it is refused.

**restart**: from the ledger, the entry waits for a new checkpoint, whose batch 0 must begin where it ends. From the
checkpoint, the checkpoint's position becomes the ledger's, and what lies between the two is said in numbers before
anything is done: records that the next batch leaves out, and records that it writes again.

Both look first, and change nothing unless they are told to; then they fence, as a driver does, and set the entry by
a commit without rows. An entry of this very lineage goes through a waiting one, since batch ids only grow within a
lineage: a crash between the two commits leaves a ledger that waits, which the same command takes as it would the
first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyspark.sql import SparkSession

from directkafka.errors import LineageError, OptionError
from directkafka.offsets import PartitionProgress, TopicPartition, to_nested
from directkafka.options.texts import path_text
from directkafka.pipeline.execution.routes import Route, Sinks, route_outputs
from directkafka.pipeline.ledger.commit_session import CommitSession
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE, check_together
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.structured.checkpoint import Checkpoint
from directkafka.pipeline.structured.hadoop_files import checkpoint_at
from directkafka.pipeline.structured.lineage import describe_position
from directkafka.sinks.api import LedgerEntry

Origin = Literal["ledger", "checkpoint"]
Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One partition, before and after.

    Attributes:
        topic, partition: which.
        ledger: where the ledger ends; None when it does not know the partition.
        next: where the next batch begins; None when nobody can say yet.
    """

    topic: str
    partition: int
    ledger: int | None
    next: int | None

    @property
    def lost(self) -> int | None:
        """Offsets that no batch will have; None when nobody can say."""
        return None if self.ledger is None or self.next is None else max(0, self.next - self.ledger)

    @property
    def doubled(self) -> int | None:
        """Offsets that the next batches have again; None when nobody can say."""
        return None if self.ledger is None or self.next is None else max(0, self.ledger - self.next)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChange:
    """What becomes, or would become, of one store's ledger entry.

    Attributes:
        store: the store's identity.
        before, after: lineage, batch and ends in words.
        moved: per partition, what the change means.
        is_done: whether it was made, or only looked at.
    """

    store: str
    before: str
    after: str
    moved: tuple[Moved, ...]
    is_done: bool

    def as_records(self) -> list[dict[str, Any]]:
        """For printing, one for each partition; None where nobody can say."""
        return [
            {
                "store": self.store,
                "topic": target.topic,
                "partition": target.partition,
                "ledger": target.ledger,
                "next": target.next,
                "lost": target.lost,
                "doubled": target.doubled,
                "is_done": self.is_done,
            }
            for target in self.moved
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a checkpoint stands.

    Attributes:
        lineage: its id; None when no query has begun there.
        done: number of the last batch that Spark has noted as done; -1 before the first.
        done_ends: its offsets.
        planned: number of a batch that is planned and not noted; None when there is none.
        planned_begin, planned_ends: that batch's offsets.
        planned_at_ms: when the newest batch was planned.
    """

    lineage: str | None
    done: int = -1
    done_ends: Offsets
    planned: int | None = None
    planned_begin: Offsets
    planned_ends: Offsets
    planned_at_ms: int = 0


def position_of(checkpoint: Checkpoint) -> Position:
    """Where a checkpoint stands, from its logs.

    Raises:
        EnvironmentFaultError: it cannot be read.
    """
    done, last = checkpoint.last_done(), checkpoint.last_planned()
    newest = None if last is None else checkpoint.planned(last)
    noted = None if done is None else checkpoint.logged(done)
    planned = newest if last != done else None
    return Position(
        lineage=checkpoint.lineage(),
        done=-1 if done is None else done,
        done_ends=noted.ends if noted else {},
        planned=planned.batch_id if planned else None,
        planned_begin=planned.begin() if planned else {},
        planned_ends=planned.ends if planned else {},
        planned_at_ms=newest.planned_at_ms if newest else 0,
    )


def adopt(
    name: str,
    sinks: Sinks,
    *,
    checkpoint: str | os.PathLike[str],
    confirm: bool = False,
    spark: SparkSession | None = None,
) -> tuple[LedgerChange, ...]:
    """Let a pipeline's ledger follow a checkpoint that stands exactly where the ledger ends.

    For a checkpoint that was rebuilt, renamed or restored: another id, or other batch numbers, and the same offsets.

    Args:
        name: the pipeline's name in the ledgers.
        sinks: the pipeline's.
        checkpoint: the query's ``checkpointLocation``.
        confirm: do it. Otherwise only look, and disturb no driver of another process.
        spark: whose Hadoop settings count; the active session by default.

    Returns:
        The change of each store's entry.

    Raises:
        LineageError: a store's ends and the checkpoint's position differ; both are named, and nothing is changed.
        OptionError: the checkpoint has not begun.
    """
    position = position_of(checkpoint_at(spark or _active(), path_text(checkpoint, option="checkpoint")))

    def target(entry: LedgerEntry | None, store: str) -> _Target:
        return _adopted(name, entry, position, store)

    return _change(name, route_outputs(sinks), target, confirm=confirm)


def restart(
    name: str,
    sinks: Sinks,
    *,
    checkpoint: str | os.PathLike[str],
    origin: Origin = "ledger",
    starts: Offsets | None = None,
    confirm: bool = False,
    spark: SparkSession | None = None,
) -> tuple[LedgerChange, ...]:
    """Let a pipeline go on with another checkpoint, from where its ledger ends or from where the checkpoint stands.

    Args:
        name: the pipeline's name in the ledgers.
        sinks: the pipeline's.
        checkpoint: the query's ``checkpointLocation``.
        origin: ``"ledger"``: the checkpoint must be new, and its batch 0 must begin at the ledger's ends; a pipeline
            file's does so by itself, another query is given them as ``startingOffsets``. ``"checkpoint"``: the next
            batch begins where the checkpoint stands, or, when it is new, wherever its source starts.
        starts: where a new checkpoint's source would start, for the numbers, where the caller knows.
        confirm: do it. Otherwise only look, and disturb no driver of another process.
        spark: whose Hadoop settings count; the active session by default.

    Returns:
        The change of each store's entry, with the offsets that would be lost or doubled by partition.

    Raises:
        LineageError: there is no ledger to go on from, or its stores are apart.
        OptionError: ``origin="ledger"`` and the checkpoint has begun.
    """
    if origin not in ("ledger", "checkpoint"):
        raise OptionError(option="origin", reason=f"expected 'ledger' or 'checkpoint', found {origin!r}")
    position = position_of(checkpoint_at(spark or _active(), path_text(checkpoint, option="checkpoint")))
    if origin == "ledger" and (position.planned is not None or position.done >= 0):
        raise OptionError(
            option="checkpoint",
            where=f"pipeline {name!r}",
            reason=f"{checkpoint} has begun: it is at batch {position.done}; delete it or name another folder, or "
            "restart from the checkpoint",
        )

    def target(entry: LedgerEntry | None, store: str) -> _Target:
        if origin == "ledger":
            return _waiting(name, entry, store)
        return _believing(entry, position, starts)

    # From the checkpoint all stores are set to one position; from the ledger each one waits where it ends.
    together = origin == "ledger"
    return _change(name, route_outputs(sinks), target, confirm=confirm, must_be_together=together)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The entry to be: its key, where its next batch begins, and what of it is stored: its batch's ends and starts."""

    lineage: str
    batch_id: int
    next_begin: Offsets
    ends: Offsets
    starts: Offsets = field(default_factory=dict)
    not_before_ms: int = 0

    def is_reached_by(self, entry: LedgerEntry) -> bool:
        """Whether an entry of this lineage is there already."""
        return entry.ends() == dict(self.ends) and (self.lineage == OPEN_LINEAGE or entry.batch_id == self.batch_id)


def _adopted(name: str, entry: LedgerEntry | None, position: Position, store: str) -> _Target:
    if position.lineage is None or (position.planned is None and position.done < 0):
        raise OptionError(option="checkpoint", reason="no query has begun there; run directkafka restart instead")
    ends = {} if entry is None else entry.ends()
    # The batch before first: where the planned one brings nothing from Kafka, its rows come from Spark's state.
    done = (position.done, position.done_ends, position.done_ends)
    # Another store may be at the batch before, and goes on from where the planned one begins.
    planned = (position.planned, position.planned_ends, position.planned_begin)
    for batch_id, offsets, starts in (done, planned):
        if batch_id is not None and batch_id >= 0 and _stand_alike(ends, offsets):
            both = {**offsets, **ends}
            return _Target(
                lineage=position.lineage, batch_id=batch_id, next_begin=both, ends=both, starts=starts,
                not_before_ms=position.planned_at_ms,
            )  # fmt: skip
    raise LineageError(
        store=store,
        pipeline=name,
        expected=f"lineage {_describe(position)}",
        found="none" if entry is None else f"lineage {describe_position(entry.lineage, entry.batch_id, ends)}",
        remedy="The two do not stand at the same offsets, so nothing was adopted. 'directkafka restart FILE --from "
        "checkpoint' (directkafka.restart) says what would be lost or doubled by going on from the checkpoint.",
    )


def _stand_alike(ledger: Offsets, checkpoint: Offsets) -> bool:
    """Whether nothing lies between the two. A partition that one side does not know yet, it has read nothing of."""
    partitions = {*ledger, *checkpoint}
    is_known = bool(ledger) and bool(checkpoint)
    return is_known and all(ledger.get(partition, 0) == checkpoint.get(partition, 0) for partition in partitions)


def _waiting(name: str, entry: LedgerEntry | None, store: str) -> _Target:
    if entry is None:
        raise LineageError(
            store=store,
            pipeline=name,
            expected="an entry",
            found="none",
            remedy="There is nothing to go on from: a first run needs no restart.",
        )
    return _Target(lineage=OPEN_LINEAGE, batch_id=0, next_begin=entry.ends(), ends=entry.ends())


def _believing(entry: LedgerEntry | None, position: Position, starts: Offsets | None) -> _Target:
    """The checkpoint's position, whatever the ledger says."""
    if position.done >= 0:
        assert position.lineage is not None, "a batch was noted, so the query has an id"
        ends = position.done_ends
        return _Target(
            lineage=position.lineage, batch_id=position.done, next_begin=ends, ends=ends,
            not_before_ms=position.planned_at_ms,
        )  # fmt: skip
    begin = position.planned_begin if position.planned is not None else (starts or {})
    # Nothing is stored: batch 0 begins where it begins.
    return _Target(lineage=OPEN_LINEAGE, batch_id=0, next_begin=begin, ends={})


def _describe(position: Position) -> str:
    done = f"batch {position.done} done, at {to_nested(position.done_ends)}" if position.done >= 0 else "no batch done"
    planned = f", batch {position.planned} planned to {to_nested(position.planned_ends)}"
    return f"{position.lineage} ({done}{planned if position.planned is not None else ''})"


def _change(
    name: str,
    routes: Sequence[Route],
    target_of: Callable[[LedgerEntry | None, str], _Target],
    *,
    confirm: bool,
    must_be_together: bool = False,
) -> tuple[LedgerChange, ...]:
    with closing(Ledgers(name, routes)) as ledgers:
        ledgers.claim()
        ledgers.connect()
        _check_together(ledgers, must_be_together)
        if confirm:
            ledgers.fence()
            # A driver may have gone on since.
            _check_together(ledgers, must_be_together)
        ledgers.read_each()
        entries = ledgers.entries
        # All are looked at before one is changed.
        targets = [target_of(entry, store) for store, entry in zip(ledgers.identities, entries, strict=True)]
        if confirm:
            for index, target in enumerate(targets):
                _set(ledgers, index, target, name)
        return tuple(
            _describe_change(store, entry, target, is_done=confirm)
            for store, entry, target in zip(ledgers.identities, entries, targets, strict=True)
        )


def _check_together(ledgers: Ledgers, same_ends: bool) -> None:
    if len(ledgers.identities) > 1:
        ledgers.read_each()
        check_together([(ledger.store.identity, entry) for ledger, entry in ledgers.known()], same_ends=same_ends)


def _set(ledgers: Ledgers, index: int, target: _Target, name: str) -> None:
    """Commit the entry without rows; nothing where it stands there already."""
    entry = ledgers.entries[index]
    if entry is not None and target.lineage == entry.lineage and target.is_reached_by(entry):
        return
    if entry is not None and target.lineage == entry.lineage != OPEN_LINEAGE:
        waiting = _Target(lineage=OPEN_LINEAGE, batch_id=0, next_begin=entry.ends(), ends=entry.ends())
        _set(ledgers, index, waiting, name)
        entry = ledgers.entries[index]
    waits_again = entry is not None and entry.lineage == target.lineage
    after = LedgerEntry(
        pipeline=name,
        generation=ledgers.generation,
        lineage=target.lineage,
        batch_id=entry.batch_id + 1 if entry is not None and waits_again else target.batch_id,
        progress=tuple(_standing(target, entry)),
        committed_at_ms=max(int(time.time() * 1000), target.not_before_ms),
    )
    CommitSession(name, ledgers).commit(after, only=[index])


def _standing(target: _Target, before: LedgerEntry | None) -> Iterable[PartitionProgress]:
    """Progress at the target's offsets; what the ledger knows of a partition besides stays."""
    known = before.by_partition() if before is not None else {}
    for partition, end in sorted(target.ends.items()):
        start = target.starts.get(partition, end)
        yield replace(known.get(partition) or PartitionProgress.at(partition, end), start=start, end=end)


def _describe_change(store: str, entry: LedgerEntry | None, target: _Target, *, is_done: bool) -> LedgerChange:
    ends = {} if entry is None else entry.ends()
    return LedgerChange(
        store=store,
        before="none" if entry is None else describe_position(entry.lineage, entry.batch_id, ends),
        after=describe_position(target.lineage, target.batch_id, target.ends),
        moved=tuple(
            Moved(
                topic=partition.topic,
                partition=partition.partition,
                ledger=ends.get(partition),
                next=target.next_begin.get(partition),
            )
            for partition in sorted({*ends, *target.next_begin})
        ),
        is_done=is_done,
    )


def _active() -> SparkSession:
    session = SparkSession.getActiveSession()
    if session is None:
        raise OptionError(option="spark", reason="there is no active Spark session; pass one")
    return session
