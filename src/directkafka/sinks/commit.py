"""Step 4 of the commit protocol, once for all stores: begin, advance, apply and count, end, settle.

What a store gives of its own is said beside each part:

- **begin** (``transaction``): a transaction is open. Whatever ends it early undoes it.
- **advance**: the ledger stands where the driver left it, under the driver's generation; from here to the end nobody
  else can move it, or the end fails.
- **apply**: each sink's rows are moved into place, and counted against what its tasks reported.
- **end**: all of it is there at once. Its answer can be lost.
- **settle**: then the ledger is read as it will stay. It has this commit's id, and the commit is done; or it has not,
  and never will. Only when it cannot be read the commit's outcome is unknown.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from threading import Event
from typing import Final, Generic, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from directkafka.errors import CommitUnknownError, DirectKafkaError, FencedError, StoreError, StoreUnavailableError
from directkafka.fault_points import fault_point
from directkafka.sinks.api import BatchAttempt, LedgerEntry, Sink, Store, TaskReport
from directkafka.sinks.ledger import PipelineState, check_count, check_stands, check_successor, with_counts

#: Pauses between two tries of what a store may refuse for a while, in seconds: the first one, and the longest one.
_PAUSE_S_MIN: Final = 0.1
_PAUSE_S_MAX: Final = 2.0
#: Once a stop was asked for: the longest time of further tries, and the longest pause, in seconds.
_STOPPED_S_MAX: Final = 3.0
_STOPPED_PAUSE_S_MAX: Final = 0.5

Write = tuple[Sink, BatchAttempt, Sequence[TaskReport]]

Transaction = TypeVar("Transaction")
Result = TypeVar("Result")

_log = logging.getLogger("directkafka.sinks.commit")


class _RehearsedError(Exception):
    """All was well, and is to be taken back."""


class LedgerStore(Store, Generic[Transaction]):
    """A store that commits by this template.

    Attributes:
        label: what messages call it.
    """

    label: str

    def __init__(self) -> None:
        #: The generation that this driver holds, by pipeline.
        self._held: dict[str, int] = {}
        #: Tells this driver's fence from another's when the answer to a fence was lost and it is sent again.
        self._driver = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    @abstractmethod
    def state(self, pipeline: str) -> PipelineState:
        """What the ledger says of a pipeline now."""

    def read(self, pipeline: str) -> LedgerEntry | None:
        """Step 2; see :meth:`directkafka.sinks.api.Store.read`.

        Raises:
            FencedError: this store fenced the pipeline, and a newer driver has done so since.
            SchemaMismatchError: the entry cannot be read: it is of a format newer than this program, for example.
            StoreUnavailableError, StoreAccessError: the ledger cannot be read now.
        """
        state = self.state(pipeline)
        held = self._held.get(pipeline, state.generation)
        if state.generation > held:
            raise FencedError(store=self.label, pipeline=pipeline, held=held, found=state.generation)
        return state.entry

    def commit(self, entry: LedgerEntry, *, previous: LedgerEntry | None, writes: Sequence[Write] = ()) -> LedgerEntry:
        """Step 4; see :meth:`directkafka.sinks.api.Store.commit`."""
        check_successor(entry, previous, store=self.label)
        commit_id = self.new_commit_id()
        # Set just before the end is asked for, and so says whether it was.
        committed: LedgerEntry | None = None
        try:
            with self.transaction(entry, previous, commit_id, writes) as transaction:
                fault_point("commit.begun")
                counted = self._move_rows(transaction, entry, previous, writes)
                fault_point("commit.rows_moved")
                committed = counted
                self.end(transaction, counted)
        except BaseException as error:
            if not self.is_undecided(error, was_asked=committed is not None):
                raise
            self._settle(entry, previous, commit_id, error, was_asked=committed is not None)
        assert committed is not None, "what is settled without an error was asked for"
        fault_point("commit.answered")
        self.tidy(transaction, committed)
        return committed

    def rehearse(self, entry: LedgerEntry, *, previous: LedgerEntry | None, writes: Sequence[Write] = ()) -> None:
        """A commit without its end; see :meth:`directkafka.sinks.api.Store.rehearse`."""
        try:
            commit_id = self.new_commit_id()
            with suppress(_RehearsedError), self.transaction(entry, previous, commit_id, writes) as transaction:
                self._move_rows(transaction, entry, previous, writes)
                raise _RehearsedError
        except Exception as error:
            if isinstance(error, DirectKafkaError) or not self.is_undecided(error, was_asked=False):
                raise
            raise StoreUnavailableError(store=self.label, cause=_error_text(error)) from error

    def _move_rows(
        self, transaction: Transaction, entry: LedgerEntry, previous: LedgerEntry | None, writes: Sequence[Write]
    ) -> LedgerEntry:
        """Advance, apply and count; the entry with its counts."""
        self.advance(transaction, entry, previous)
        counts = Counter[str]()
        for sink, batch, reports in writes:
            rows = self.apply(transaction, sink, batch, reports)
            reported = sum(report.rows for report in reports)
            check_count(store=self.label, sink=sink.name, reported=reported, stored=rows)
            counts[sink.name] += rows
        counted = with_counts(entry, previous, counts)
        self.write_entry(transaction, counted)
        return counted

    def new_commit_id(self) -> str:
        """What tells a commit from every other one."""
        return uuid.uuid4().hex

    @abstractmethod
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> AbstractContextManager[Transaction]:
        """Begin: a transaction, which is undone when an error leaves it.

        Args:
            entry: what is to be committed; its counts are not known yet.
            previous: the entry that it continues.
            commit_id: tells this commit from every other one; the ledger keeps that of the last one.
            writes: what the transaction will be given.
        """

    @abstractmethod
    def advance(self, transaction: Transaction, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        """See that the ledger stands at the previous entry under this generation, and keep others from moving it.

        Raises:
            FencedError, OffsetMismatchError: it does not.
        """

    def apply(self, transaction: Transaction, sink: Sink, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Move one sink's rows into place; the number of rows that the store has seen."""
        return sink.apply(transaction, batch, reports)

    def write_entry(self, transaction: Transaction, committed: LedgerEntry) -> None:
        """Put the entry with its counts into the transaction, where :meth:`end` does not do that."""

    @abstractmethod
    def end(self, transaction: Transaction, committed: LedgerEntry) -> None:
        """Make all of it count, at once."""

    def tidy(self, transaction: Transaction, committed: LedgerEntry) -> None:
        """Remove what the commit has left over. It is done: nothing is raised."""

    def is_undecided(self, error: BaseException, *, was_asked: bool) -> bool:
        """Whether only the ledger knows what became of a commit that has ended so.

        Args:
            error: what ended it.
            was_asked: whether the transaction was to be ended by then; if not, it will never be.
        """
        return was_asked and isinstance(error, OSError)

    def settled_state(self, entry: LedgerEntry, cause: BaseException) -> PipelineState:
        """What the ledger says once nothing of this commit can change it any more.

        Args:
            entry: what was to be committed.
            cause: what ended the commit.
        """
        return self.state(entry.pipeline)

    def _settle(
        self,
        entry: LedgerEntry,
        previous: LedgerEntry | None,
        commit_id: str,
        cause: BaseException,
        *,
        was_asked: bool,
    ) -> None:
        """Decide what became of a commit; returns when it was applied."""
        message = _error_text(cause)
        try:
            state = self.settled_state(entry, cause)
        except StoreError as error:
            if not was_asked:
                raise StoreUnavailableError(store=self.label, cause=message) from error
            raise CommitUnknownError(
                store=self.label, pipeline=entry.pipeline, batch_id=entry.batch_id, cause=f"{message}; then {error}"
            ) from error
        if was_asked and state.commit_id == commit_id:
            _log.info(
                "%s: batch %d: the answer to COMMIT was lost, the ledger has it (%s)",
                self.label,
                entry.batch_id,
                message,
            )
            return
        check_stands(entry, previous, state, store=self.label)
        if isinstance(cause, StoreError):
            raise cause
        raise StoreUnavailableError(store=self.label, cause=message) from cause


def when_available(work: Callable[[], Result], *, timeout_s: float, stop: Event | None = None) -> Result:
    """Do what a store may refuse for a while, until it does not.

    Args:
        work: is tried again and again.
        timeout_s: after this time no further try is begun, in seconds.
        stop: once it is set, no try is begun after 3 s more.

    Raises:
        StoreUnavailableError: of the last try.
    """
    until = time.monotonic() + timeout_s

    def is_over(_: RetryCallState) -> bool:
        nonlocal until
        if stop is not None and stop.is_set():
            until = min(until, time.monotonic() + _STOPPED_S_MAX)
        return time.monotonic() >= until

    def pause(seconds: float) -> None:
        if stop is None:
            time.sleep(seconds)
        elif stop.is_set():
            time.sleep(min(seconds, _STOPPED_PAUSE_S_MAX))
        else:
            stop.wait(seconds)

    for attempt in Retrying(
        retry=retry_if_exception_type(StoreUnavailableError),
        wait=wait_exponential(multiplier=_PAUSE_S_MIN, max=_PAUSE_S_MAX),
        stop=is_over,
        sleep=pause,
        reraise=True,
    ):
        with attempt:
            return work()
    raise AssertionError("tenacity returns or raises")


def _error_text(cause: BaseException) -> str:
    """What an error says of itself, in one line."""
    told = getattr(cause, "cause", "") or (cause.strerror if isinstance(cause, OSError) else "") or cause
    return " ".join(str(told).split())
