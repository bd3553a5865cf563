"""Named fault points: places where a test can kill, stop or fail the process.

A point is a no-op unless the environment arms it::

    DIRECTKAFKA_FAULTS="commit.ledger_updated=kill"            at the first pass
    DIRECTKAFKA_FAULTS="batch.written@3=stop, fence.done=raise"  at the third pass; several points

``kill`` is SIGKILL to this process, ``stop`` SIGSTOP (a driver that hangs and comes back), ``raise`` an
:class:`InjectedFaultError`. With ``DIRECTKAFKA_FAULTS_ONCE`` set to a path, a point fires only for the one
process that manages to create that file, so that a restarted driver with the same environment runs through.

The points of the commit protocol are numbered like its steps; ``docs/DESIGN.md`` maps each to its test.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from directkafka.errors import OptionError

ENVIRONMENT_NAME = "DIRECTKAFKA_FAULTS"
ENVIRONMENT_NAME_ONCE = "DIRECTKAFKA_FAULTS_ONCE"

#: Every point, by the step of the commit protocol, which its number is; no batch passes all of them.
FAULT_POINTS: dict[str, str] = {
    "fence.before": "1. before the fence is sent",
    "fence.taken": "1. Kafka: the transactional id is taken over, the fence not yet written",
    "fence.done": "1. the fence is committed, the ledger not yet read",
    "ledger.read": "2. the ledger is read",
    "origin.planned": "2. start positions are resolved, batch 0 not yet committed",
    "origin.committed": "2. batch 0, which has no rows, is committed",
    "batch.planned": "3. the ranges of a batch are decided",
    "task.file_written": "3. on an executor: a file of rows is whole under its temporary name",
    "task.staged": "3. on an executor: a task's rows are staged, its report not yet sent",
    "transaction.fresh": "3. Kafka: the transaction has its epoch, and no partition yet",
    "transaction.opened": "3. Kafka: the transaction has its partitions, nothing is written",
    "task.flushed": "3. Kafka, on an executor: a task's rows are acknowledged, its report not yet sent",
    "isolation.part_tried": "3. a part of a batch that fails was tried, to find the records that make it fail",
    "isolation.letters_written": "3. the dead letters of records that were set apart are written",
    "batch.written": "3. all tasks have written and reported, the commit not yet begun",
    "commit.begun": "4. the transaction is open, nothing done in it",
    "commit.ledger_updated": "4. the ledger row is updated and locked, rows not yet moved",
    "replay.planned": "4. a replay: the dead letters have their batches, COMMIT not yet sent",
    "replay.taken_out": "4. a replay: a batch's dead letters are deleted, the rejected ones not yet put back",
    "reset.planned": "4. a reset: all stores are fenced and it is known where to go on, nothing is committed",
    "reset.rows_deleted": "4. a reset: rows of records that are read again are deleted, COMMIT not yet sent",
    "commit.rows_moved": "4. rows are in the tables, COMMIT not yet sent",
    "commit.ledger_produced": "4. Kafka: the ledger record is acknowledged, EndTxn not yet sent",
    "log.entry_written": "4. files: the entry is written, its slot of the log not yet taken; a fence passes this too",
    "log.slot_taken": "4. files: the slot is taken, the answer not yet read; a fence passes this too",
    "commit.answered": "4. COMMIT is answered, or the log has the entry",
    "log.checkpoint_written": "4. a checkpoint of the log is written to a temporary file",
    "log.checkpoint_put": "4. a checkpoint of the log has its name, entries before it are not yet removed",
    "batch.reported": "5. progress is told to the outside",
}

#: The points of a direct stream, whose batches have steps of their own (:mod:`directkafka.spark.dstream.planner`).
STREAM_FAULT_POINTS: dict[str, str] = {
    "stream.planned": "1. a batch has its ranges, Spark not yet its jobs",
    "stream.done": "3. all outputs have succeeded, offsets are not yet sent to the group",
    "stream.committed": "4. the group has the offsets, nobody has been told",
}

_ALL = {**FAULT_POINTS, **STREAM_FAULT_POINTS}

_ACTIONS = ("kill", "stop", "raise")
_passes: Counter[str] = Counter()


class InjectedFaultError(RuntimeError):
    """What an armed point with the action ``raise`` raises."""


def fault_point(point: str) -> None:
    """Pass a fault point.

    Args:
        point: a name of :data:`FAULT_POINTS` or :data:`STREAM_FAULT_POINTS`.

    Raises:
        InjectedFaultError: when the environment arms this point with ``raise``.
        OptionError: when the environment arms a point that does not exist.
    """
    armed = os.environ.get(ENVIRONMENT_NAME)
    if armed is None:
        return
    assert point in _ALL, point
    _passes[point] += 1
    for name, count, action in _parse(armed):
        if name == point and count == _passes[point] and _claim():
            _act(point, action)


def _parse(armed: str) -> list[tuple[str, int, str]]:
    rules = []
    for rule in filter(None, (part.strip() for part in armed.split(","))):
        target, _, action = rule.partition("=")
        name, _, count = target.partition("@")
        if name not in _ALL or action not in _ACTIONS or not (count or "1").isdigit():
            raise OptionError(
                option=rule,
                where=ENVIRONMENT_NAME,
                reason=f"expected POINT[@COUNT]=ACTION with an action of {', '.join(_ACTIONS)} and a point of "
                + ", ".join(_ALL),
            )
        rules.append((name, int(count or "1"), action))
    return rules


def _claim() -> bool:
    path = os.environ.get(ENVIRONMENT_NAME_ONCE)
    if path is None:
        return True
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _act(point: str, action: str) -> None:
    if action == "raise":
        raise InjectedFaultError(f"fault point {point}")
    os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)
