"""What an engine keeps of a batch between two tries of its commit, and how the outside is told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka import row_files
from directkafka.errors import DirectKafkaError, RowCountError, RowFileError, StoreUnavailableError
from directkafka.offsets import PartitionProgress
from directkafka.pipeline.ledger.commit_session import CommitSession
from directkafka.sinks.api import LedgerEntry

PROGRESS = (PartitionProgress(topic="t", partition=0, start=3, end=7, origin=0, topic_id="id", leader_epoch=1),)
DOWN = StoreUnavailableError(store="b", cause="down")


class FakeLedgers:
    """One store, which commits, or fails as it is told to."""

    generation = 4

    def __init__(self) -> None:
        self.fails: list[Exception] = []
        self.commits: list[tuple[LedgerEntry, Any]] = []
        self.lacked: list[Iterable[int] | None] = []
        self.entry = SimpleNamespace(batch_id=9)

    def lacking(self, only: Iterable[int] | None) -> list[Any]:
        self.lacked.append(only)
        return [SimpleNamespace(store=self, entry=None)]

    def commit(self, entry: LedgerEntry, *, previous: LedgerEntry | None, writes: Any) -> LedgerEntry:
        if self.fails:
            raise self.fails.pop()
        self.commits.append((entry, writes))
        return entry


def written(*, is_kept: bool = True) -> Any:
    return SimpleNamespace(is_kept_for=lambda stores: is_kept, for_store=lambda store: ("rows",))


@pytest.fixture
def ledgers() -> FakeLedgers:
    return FakeLedgers()


@pytest.fixture
def session(ledgers: Any) -> CommitSession:
    return CommitSession("flights", ledgers)


def test_an_entry_and_a_try_are_of_the_generation_that_is_held(session: CommitSession) -> None:
    entry = session.entry(5, "l", PROGRESS, not_before_ms=2**50)
    assert (entry.pipeline, entry.generation, entry.batch_id, entry.progress) == ("flights", 4, 5, PROGRESS)
    assert entry.committed_at_ms == 2**50
    first_attempt, two = session.attempt(5), session.attempt(5)
    assert (first_attempt.pipeline, first_attempt.generation, first_attempt.batch_id) == ("flights", 4, 5)
    assert first_attempt.attempt != two.attempt


def test_rows_are_kept_until_all_stores_have_them(session: CommitSession, ledgers: FakeLedgers) -> None:
    entry, rows = session.entry(5, "l", PROGRESS), written()
    assert session.kept(entry, {"b"}) is None
    ledgers.fails = [DOWN]
    with pytest.raises(StoreUnavailableError):
        session.commit(entry, rows)
    assert session.kept(session.entry(5, "l", PROGRESS), {"b"}) is rows
    session.commit(entry, rows, only=[1])
    assert session.kept(entry, {"b"}) is None


@pytest.mark.parametrize(
    ("batch_id", "lineage", "progress"), [(6, "l", PROGRESS), (5, "another", PROGRESS), (5, "l", ())]
)
def test_rows_of_another_batch_are_not_taken(
    session: CommitSession, ledgers: FakeLedgers, batch_id: int, lineage: str, progress: Any
) -> None:
    ledgers.fails = [DOWN]
    with pytest.raises(StoreUnavailableError):
        session.commit(session.entry(5, "l", PROGRESS), written())
    assert session.kept(session.entry(batch_id, lineage, progress), {"b"}) is None


def test_rows_that_went_with_a_transaction_are_written_again(session: CommitSession, ledgers: FakeLedgers) -> None:
    ledgers.fails = [DOWN]
    with pytest.raises(StoreUnavailableError):
        session.commit(session.entry(5, "l"), written(is_kept=False))
    assert session.kept(session.entry(5, "l"), {"b"}) is None


@pytest.mark.parametrize(
    "error",
    [RowCountError(store="b", sink="s", reported=2, found=1), RowFileError(path="rows", cause="it is gone")],
    ids=["number", "file"],
)
def test_rows_whose_number_was_wrong_or_whose_file_is_gone_are_not_kept(
    session: CommitSession, ledgers: FakeLedgers, error: DirectKafkaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "_given_up", threading.Event())
    ledgers.fails = [error]
    with pytest.raises(type(error)):
        session.commit(session.entry(5, "l"), written())
    assert session.kept(session.entry(5, "l"), {"b"}) is None
    # Where one file cannot be read, the next one may not be either.
    assert row_files._given_up.is_set() is isinstance(error, RowFileError)


def test_rows_that_are_not_for_another_try_leave_what_is_kept(session: CommitSession, ledgers: FakeLedgers) -> None:
    entry, rows = session.entry(5, "l", PROGRESS), written()
    ledgers.fails = [DOWN]
    with pytest.raises(StoreUnavailableError):
        session.commit(entry, rows)
    session.commit(session.entry(6, "l"), written(), only=[0], is_kept=False)
    assert session.kept(entry, {"b"}) is rows
    assert [writes for _, writes in ledgers.commits] == [("rows",)]


def test_a_store_that_joins_begins_where_the_others_stand_and_leaves_what_is_kept(
    session: CommitSession, ledgers: FakeLedgers, caplog: pytest.LogCaptureFixture
) -> None:
    ahead, rows = session.entry(5, "l", PROGRESS), written()
    ledgers.fails = [DOWN]
    with pytest.raises(StoreUnavailableError):
        session.commit(ahead, rows)
    with caplog.at_level(logging.WARNING):
        session.join(ahead, [2])
    ((entry, nothing),) = ledgers.commits
    assert (entry.batch_id, entry.lineage, nothing, ledgers.lacked[-1]) == (5, "l", (), [2])
    assert [(partition.origin, partition.start, partition.end) for partition in entry.progress] == [(7, 7, 7)]
    assert "join at batch 5; nothing before {'t': {'0': 7}}" in caplog.text
    assert session.kept(ahead, {"b"}) is rows


def test_who_listens_cannot_fail_a_batch(session: CommitSession, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    session.report_progress(told.append, "five")

    def fail(_: str) -> None:
        raise ValueError("a mistake in the callback")

    with caplog.at_level(logging.WARNING):
        session.report_progress(fail, "six")
    assert told == ["five"]
    assert "the report callback failed on batch 9" in caplog.text
