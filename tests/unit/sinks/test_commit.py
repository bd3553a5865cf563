"""Step 4 as all stores do it, over a store whose ledger is a value."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from directkafka.errors import (
    CommitUnknownError,
    FencedError,
    OffsetMismatchError,
    RowCountError,
    RowRejectedError,
    StoreUnavailableError,
)
from directkafka.fault_points import FAULT_POINTS
from directkafka.sinks import commit as module
from directkafka.sinks.api import BatchAttempt, LedgerEntry, TaskReport
from directkafka.sinks.commit import LedgerStore, Write, when_available
from directkafka.sinks.ledger import PipelineState, check_stands
from directkafka.sinks.mysql.store import MySQLStore
from directkafka.sinks.postgres.store import PostgresStore

LOST = OSError("the answer was lost")
DOWN = StoreUnavailableError(store="memory", cause="down")
RESOLVE_TIMEOUT_S = 12.0
#: Stores whose databases are none.
UNREACHABLE = {
    "postgres": lambda: PostgresStore("postgresql://nobody@127.0.0.1:1/none", resolve_timeout_s=RESOLVE_TIMEOUT_S),
    "mysql": lambda: MySQLStore("mysql://nobody:p@127.0.0.1:1/none", resolve_timeout_s=RESOLVE_TIMEOUT_S),
}


@dataclass
class Transaction:
    commit_id: str
    entry: LedgerEntry | None = None


@dataclass
class Memory(LedgerStore[Transaction]):
    """A ledger in memory, which says what happens to it.

    Attributes:
        ledger: as committed.
        at_end: what the end does beside committing, or in its place.
        unreadable: what reading raises, as long as there is any.
    """

    ledger: PipelineState = field(default_factory=lambda: PipelineState(generation=1))
    at_end: Sequence[str | Exception] = ("commit",)
    unreadable: Exception | None = None
    events: list[str] = field(default_factory=list)
    label = "memory"
    identity = "memory"

    def __post_init__(self) -> None:
        super().__init__()
        self._held = {"flights": 1}

    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        raise NotImplementedError

    def close(self) -> None: ...

    def state(self, pipeline: str) -> PipelineState:
        if self.unreadable is not None:
            raise self.unreadable
        return self.ledger

    @contextmanager
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> Iterator[Transaction]:
        self.events.append("begin")
        try:
            yield Transaction(commit_id)
        except BaseException:
            self.events.append("undo")
            raise

    def advance(self, transaction: Transaction, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        state = self.ledger
        check_stands(entry, previous, state, store=self.label)
        self.events.append("advance")

    def write_entry(self, transaction: Transaction, committed: LedgerEntry) -> None:
        transaction.entry = committed

    def end(self, transaction: Transaction, committed: LedgerEntry) -> None:
        for what in self.at_end:
            if isinstance(what, Exception):
                raise what
            generation = 2 if what == "fenced" else 1
            self.ledger = PipelineState(
                generation=generation,
                entry=transaction.entry if what == "commit" else self.ledger.entry,
                commit_id=transaction.commit_id if what == "commit" else self.ledger.commit_id,
            )

    def tidy(self, transaction: Transaction, committed: LedgerEntry) -> None:
        self.events.append("tidy")


class Rows:
    """A sink that has written so many rows, or fails."""

    name = "rows"

    def __init__(self, outcome: int | BaseException) -> None:
        self.outcome = outcome

    def apply(self, transaction: Transaction, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


ENTRY = LedgerEntry(pipeline="flights", generation=1, lineage="l", batch_id=0, progress=())
BATCH = BatchAttempt(pipeline="flights", generation=1, batch_id=0, attempt="a")


def write(row_count: int | BaseException, *, reported: int = 3) -> Any:
    return (Rows(row_count), BATCH, (TaskReport(rows=reported, attempt="t", staged=False),))


def test_a_commit_passes_its_parts_in_their_order_and_the_fault_points_between(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Memory()
    monkeypatch.setattr(module, "fault_point", store.events.append)
    committed = store.commit(ENTRY, previous=None, writes=[write(3), write(3)])
    assert store.events == ["begin", "commit.begun", "advance", "commit.rows_moved", "commit.answered", "tidy"]
    assert [event for event in store.events if "." in event] == [
        point for point in FAULT_POINTS if point in store.events
    ]
    assert (committed.row_counts, committed.total_rows) == ({"rows": 6}, {"rows": 6})
    assert store.read("flights") == committed


@pytest.mark.parametrize(
    ("error", "writes", "previous", "generation"),
    [
        (RowCountError, [write(2)], None, 1),
        (RowRejectedError, [write(RowRejectedError(store="s", sink="rows", detail="too long"))], None, 1),
        (KeyboardInterrupt, [write(KeyboardInterrupt())], None, 1),
        (FencedError, [write(3)], None, 2),
        (OffsetMismatchError, [write(3)], None, 0),
    ],
)
def test_what_fails_before_the_end_is_undone_and_not_settled(
    error: type[BaseException], writes: Any, previous: Any, generation: int
) -> None:
    store = Memory(ledger=PipelineState(generation=generation))
    with pytest.raises(error):
        store.commit(ENTRY, previous=previous, writes=writes)
    assert store.events[-1] == "undo"
    assert store.ledger.entry is None


def test_an_answer_that_was_lost_is_found_in_the_ledger() -> None:
    store = Memory(at_end=["commit", LOST])
    committed = store.commit(ENTRY, previous=None, writes=[write(3)])
    assert store.ledger.entry == committed
    assert store.events[-2:] == ["undo", "tidy"]


def test_a_commit_that_the_ledger_does_not_have_is_not_done_and_may_be_tried_again() -> None:
    store = Memory(at_end=[LOST])
    with pytest.raises(StoreUnavailableError, match="the answer was lost") as caught:
        store.commit(ENTRY, previous=None)
    assert caught.value.__cause__ is LOST
    store.at_end = ["commit"]
    assert store.commit(ENTRY, previous=None).batch_id == 0


def test_a_newer_driver_that_is_found_then_is_told() -> None:
    with pytest.raises(FencedError):
        Memory(at_end=["fenced", LOST]).commit(ENTRY, previous=None)


def test_only_a_ledger_that_cannot_be_read_leaves_the_outcome_unknown() -> None:
    store = Memory(at_end=["commit", LOST], unreadable=DOWN)
    with pytest.raises(CommitUnknownError, match=r"the answer was lost; then .* down"):
        store.commit(ENTRY, previous=None)


def test_what_is_no_lost_answer_is_raised_as_it_is() -> None:
    with pytest.raises(RowRejectedError):
        Memory(at_end=[RowRejectedError(store="s", sink="rows", detail="deferred")]).commit(ENTRY, previous=None)


def test_an_entry_that_is_not_the_next_one_begins_nothing() -> None:
    store = Memory()
    first = store.commit(ENTRY, previous=None)
    store.events.clear()
    with pytest.raises(OffsetMismatchError):
        store.commit(ENTRY, previous=first)
    assert store.events == []


def test_a_driver_that_was_fenced_reads_nothing() -> None:
    store = Memory()
    store.ledger = PipelineState(generation=2)
    with pytest.raises(FencedError):
        store.read("flights")
    assert store.read("another") is None


def test_what_may_pass_is_tried_again_for_a_while() -> None:
    fails = [DOWN, DOWN]

    def work() -> str:
        if fails:
            raise fails.pop()
        return "done"

    assert when_available(work, timeout_s=30.0) == "done"
    fails[:] = [DOWN] * 100
    with pytest.raises(StoreUnavailableError):
        when_available(work, timeout_s=0.05)


@pytest.mark.parametrize("stopped_at", [1, 4], ids=["stopped before", "stopped while it is tried again"])
@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_stop_bounds_the_search_for_what_became_of_a_commit(
    kind: str, stopped_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are a few more tries: one of them may be answered, and the batch is known."""
    assert module._STOPPED_S_MAX + module._STOPPED_PAUSE_S_MAX < 5.0, "decision 44: a stop ends every wait by then"
    monkeypatch.setattr(module, "_STOPPED_S_MAX", 0.3)
    monkeypatch.setattr(module, "_STOPPED_PAUSE_S_MAX", 0.05)
    monkeypatch.setattr(module, "_PAUSE_S_MAX", 0.05)
    store: Any = UNREACHABLE[kind]()
    stop, tries = threading.Event(), list[float]()
    store.heed(stop)

    def unreachable(*_: Any) -> None:
        tries.append(time.monotonic())
        if len(tries) == stopped_at:
            stop.set()
        raise DOWN

    monkeypatch.setattr(store._session, "read_settled" if kind == "postgres" else "settled_state", unreachable)
    with pytest.raises(StoreUnavailableError):
        store.settled_state(ENTRY, LOST)
    assert time.monotonic() - tries[stopped_at - 1] < RESOLVE_TIMEOUT_S / 2
    assert len(tries) > stopped_at + 1


def test_a_search_does_not_sleep_through_a_stop() -> None:
    slept: list[float | None] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            slept.append(timeout)
            self.set()
            return True

    answers = iter([DOWN, None])

    def work() -> str:
        if (answer := next(answers)) is not None:
            raise answer
        return "done"

    assert when_available(work, timeout_s=30.0, stop=Stop()) == "done"
    assert len(slept) == 1
