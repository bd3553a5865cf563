"""The ledger in a directory: rows are files, and a batch's log entry says which of them count.

How two drivers cannot both write. Every fence and every batch is an entry of the directory's one numbered log, put
into the first free slot if nobody has it (:mod:`directkafka.sinks.files.log`). A driver checks generation, batch and
offsets in the state before that slot. If a newer driver's fence got the slot, the older one's entry has no place: it
reads the fence, finds a higher generation, and stops. If another pipeline's entry got it, the checks are made again
on the state after it, and the next slot is tried. Nobody holds a lock, so nobody waits for a driver that stands still.

Tasks write data files under names of their own; a file that no entry lists belongs to nothing. The fence removes those
that older generations of its pipeline left, and only those: a zombie task can make such a file again, and it still
belongs to nothing.

Rights the driver's user needs: to read and write the directory, to make folders and hard links in it. The executors:
to write files.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from directkafka.errors import (
    CommitUnknownError,
    FencedError,
    OptionError,
    StoreError,
    StoreUnavailableError,
)
from directkafka.faults import reach
from directkafka.sinks.api import BatchName, LedgerEntry, Sink, Store, TaskReport
from directkafka.sinks.files.data_files import FileOwner, attempt_key, owner_of, pipeline_key
from directkafka.sinks.files.log import FilesLog
from directkafka.sinks.files.log_state import (
    BatchAdded,
    DataFile,
    Fence,
    LogState,
    PipelineState,
    TableColumns,
    TableState,
)
from directkafka.sinks.files.posix import remove, resolve_folder, translated
from directkafka.sinks.ledger import check_count, check_stands, check_successor, with_counts

__all__ = ["FilesStore", "FilesTransaction"]

_log = logging.getLogger("directkafka.sinks.files.store")

Write = tuple[Sink, BatchName, Sequence[TaskReport]]

_NOBODY = PipelineState(generation=0, driver="")


@dataclass(slots=True)
class FilesTransaction:
    """What a sink adds to a batch's log entry, until the entry is put.

    Attributes:
        is_durable: whether the commit is to survive a power cut.
    """

    is_durable: bool
    added: dict[str, tuple[DataFile, ...]] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)

    def add(self, table: str, files: Sequence[DataFile]) -> None:
        """Let the batch have these files of a table."""
        self.added[table] = (*self.added.get(table, ()), *files)

    def give_up(self, attempts: Collection[str]) -> None:
        """Let the files of these attempts of batches be removed once this one is committed."""
        self.given_up.update(attempts)


class FilesStore(Store):
    """A directory as the place where pipelines commit; see the module's text for the protocol.

    Args:
        path: of a local file system, or of one that driver and executors share; made when it is needed.
        durable: sync files and log before a step counts. Without it a commit survives the death of every process,
            but not a power cut.
        resolve_timeout_s: bound on finding out, in seconds, what became of an entry when the file system failed.

    Raises:
        OptionError: the path is none.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = True, resolve_timeout_s: float = 30.0) -> None:
        try:
            self.folder = resolve_folder(path)
        except ValueError as error:
            raise OptionError(option="path", reason=str(error)) from None
        self.label = f"directory {self.folder}"
        self._resolve_timeout_s = resolve_timeout_s
        self._log = FilesLog(self.folder, label=self.label, durable=durable)
        # Tells this driver's fence from another's when it is asked for again.
        self._driver = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._held: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"FilesStore({str(self.folder)!r})"

    @property
    def identity(self) -> str:
        """The directory's path without symbolic links."""
        return f"files/{self.folder}"

    @property
    def durable(self) -> bool:
        """Whether files and log are synced before a step counts."""
        return self._log.durable

    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        """Step 1; see :meth:`directkafka.sinks.api.Store.fence`.

        Raises:
            FencedError: the log already has the generation given, or a higher one.
            StoreAccessError, StoreUnavailableError: the directory cannot be made or written.
        """
        with translated(self.label):
            self._log.make()
            current = self._log.refresh().pipelines.get(pipeline, _NOBODY)
            held = current.generation + 1 if generation is None else generation
            fence = Fence(pipeline=pipeline, generation=held, driver=self._driver)
            while current.generation < held:
                current = self._log.put(fence).pipelines.get(pipeline, _NOBODY)
        # Not asked for a higher one when another driver was faster: it, or one after it, is the newer one.
        if (current.generation, current.driver) != (held, self._driver):
            raise FencedError(store=self.label, pipeline=pipeline, held=held, found=current.generation)
        self._held[pipeline] = held
        self._log.tidy()
        key = pipeline_key(pipeline)
        self._sweep(lambda owner: owner.pipeline == key and owner.generation < held)
        return held

    def read(self, pipeline: str) -> LedgerEntry | None:
        """Step 2; see :meth:`directkafka.sinks.api.Store.read`.

        Raises:
            FencedError: this store fenced the pipeline, and a newer driver has done so since.
            SchemaMismatchError: the log is of a format newer than this program.
        """
        with translated(self.label):
            current = self._log.refresh().pipelines.get(pipeline, _NOBODY)
        held = self._held.get(pipeline)
        if held is not None and current.generation > held:
            raise FencedError(store=self.label, pipeline=pipeline, held=held, found=current.generation)
        return current.entry

    def commit(
        self,
        entry: LedgerEntry,
        *,
        previous: LedgerEntry | None,
        writes: Sequence[Write] = (),
    ) -> LedgerEntry:
        """Step 4; see :meth:`directkafka.sinks.api.Store.commit`.

        An error before the entry was linked is a definite failure; after it, the log is read.
        """
        check_successor(entry, previous, store=self.label)
        with translated(self.label):
            state = self._log.refresh()
            self._check_continues(state, entry, previous)
            reach("commit.begun")
            transaction = FilesTransaction(self.durable)
            counts: dict[str, int] = {}
            for sink, batch, reports in writes:
                counts[sink.name] = counts.get(sink.name, 0) + self._apply(transaction, sink, batch, reports)
            reach("commit.rows_moved")
        committed = with_counts(entry, previous, counts)
        added = BatchAdded(commit_id=uuid.uuid4().hex, entry=committed, files=transaction.added)
        self._put_batch(added, previous)
        reach("commit.answered")
        if self._log.is_full:
            self._log.tidy()
        if transaction.given_up:
            given_up = {attempt_key(attempt) for attempt in transaction.given_up}
            self._sweep(lambda owner: owner.attempt in given_up)
        return committed

    def force_durable(self) -> None:
        """Sync from now on: several stores need it.

        A store that is ahead pins the ranges of the others; what it lost in a power cut, it could not pin.
        """
        self._log.durable = True

    def close(self) -> None:
        """Nothing is held open between calls; the fence stays."""

    # Tables, for sinks.

    def table(self, name: str) -> TableState | None:
        """The columns that a table has by now; None when it was never made."""
        with translated(self.label):
            return self._log.refresh().tables.get(name)

    def set_table(self, name: str, columns: TableState, *, before: TableState | None) -> bool:
        """Make a table, or give it more columns; False if it is no longer what it was ``before``."""
        with translated(self.label):
            self._log.make()
            state = self._log.refresh()
            while state.tables.get(name) == before:
                state = self._log.put(TableColumns(table=name, columns=columns))
            return state.tables.get(name) == columns

    def files(self, table: str) -> tuple[TableState | None, list[DataFile]]:
        """A table's columns and committed files, both as of one slot of the log."""
        with translated(self.label):
            state = self._log.refresh()
            return state.tables.get(table), self._log.files(table)

    # The committing entry.

    def _check_continues(self, state: LogState, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        current = state.pipelines.get(entry.pipeline, _NOBODY)
        check_stands(entry, previous, generation=current.generation, found=current.entry, store=self.label)

    def _apply(self, transaction: FilesTransaction, sink: Sink, batch: BatchName, reports: Sequence[TaskReport]) -> int:
        rows = sink.apply(transaction, batch, reports)
        check_count(store=self.label, sink=sink.name, reported=sum(report.rows for report in reports), found=rows)
        return rows

    def _put_batch(self, batch: BatchAdded, previous: LedgerEntry | None) -> None:
        """Put the entry into the first slot before which its checks hold."""
        try:
            while not self._has(batch, state := self._log.put(batch)):
                self._check_continues(state, batch.entry, previous)
        except OSError as error:
            self._settle(batch, previous, error)

    def _has(self, batch: BatchAdded, state: LogState) -> bool:
        return state.pipelines.get(batch.entry.pipeline, _NOBODY).commit_id == batch.commit_id

    # The third outcome.

    def _settle(self, batch: BatchAdded, previous: LedgerEntry | None, cause: OSError) -> None:
        """Decide what became of an entry after the file system failed: it is in the log, or it never will be.

        "Never" because a later try puts another entry into the same slot, and only one of the two gets it.
        """
        entry, said = batch.entry, f"{cause.strerror or cause}"
        try:
            for attempt in Retrying(
                retry=retry_if_exception_type(StoreUnavailableError),
                wait=wait_exponential(multiplier=0.1, max=2.0),
                stop=stop_after_delay(self._resolve_timeout_s),
                reraise=True,
            ):
                with attempt, translated(self.label):
                    state = self._log.refresh()
                    # Its name may have been made and not been synced: then it is there, and not yet for good.
                    self._log.sync()
        except StoreError as error:
            raise CommitUnknownError(
                store=self.label, pipeline=entry.pipeline, batch_id=entry.batch_id, cause=f"{said}; then {error}"
            ) from error
        if self._has(batch, state):
            _log.info("batch %d: the file system failed, the log has the entry: %s", entry.batch_id, said)
            return
        self._check_continues(state, entry, previous)
        raise StoreUnavailableError(store=self.label, cause=said) from cause

    # Files that belong to nothing.

    def _sweep(self, is_dead: Callable[[FileOwner], bool]) -> None:
        """Remove data files of attempts that can never be committed any more. Never raises: it can wait."""
        try:
            for table in self._log.state.tables:
                folder = self.folder / table
                names = os.listdir(folder) if folder.is_dir() else []
                dead = [name for name in names if (owner := owner_of(name)) is not None and is_dead(owner)]
                # What is listed is never touched, whatever its name says.
                for name in set(dead).difference(one.name for one in self._log.files(table)) if dead else ():
                    remove(folder / name)
        except OSError as error:
            _log.warning("%s: removing left-over files failed and is left for later: %s", self.label, error)
