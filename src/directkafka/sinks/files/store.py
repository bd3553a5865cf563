"""The ledger in a directory: rows are files, and a batch's log entry says which of them count.

How two drivers are kept from both writing. Every fence and every batch is an entry of the directory's one numbered log,
put into the first free slot if nobody has it (:mod:`directkafka.sinks.files.log`). A driver checks generation, batch
and offsets in the state before that slot. If a newer driver's fence got the slot, the older one's entry has no place:
it reads the fence, finds a higher generation, and stops. If another pipeline's entry got it, the checks are made again
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
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from directkafka.errors import (
    FencedError,
    OptionError,
)
from directkafka.sinks.api import BatchAttempt, LedgerEntry, Sink, TaskReport
from directkafka.sinks.commit import LedgerStore, Write, when_available
from directkafka.sinks.files.log import FilesLog
from directkafka.sinks.files.log_state import (
    BatchAdded,
    DataFile,
    Fence,
    LogState,
    TableColumns,
    TableState,
)
from directkafka.sinks.files.posix import remove, resolve_folder, translated
from directkafka.sinks.files.task_writer import FileOwner, attempt_key, owner_of, pipeline_key
from directkafka.sinks.ledger import PipelineState, check_stands

_log = logging.getLogger("directkafka.sinks.files.store")


@dataclass(slots=True)
class FilesTransaction:
    """What a sink adds to a batch's log entry, until the entry is put.

    Attributes:
        is_durable: whether the commit is to survive a power cut.
        commit_id: of the commit that it is for.
        previous: the entry that it continues.
        added: the files of each table.
        discarded: attempts of batches whose files are removed once this batch is committed.
    """

    is_durable: bool
    commit_id: str = ""
    previous: LedgerEntry | None = None
    added: dict[str, tuple[DataFile, ...]] = field(default_factory=dict)
    discarded: set[str] = field(default_factory=set)

    def add(self, table: str, files: Sequence[DataFile]) -> None:
        """Let the batch have these files of a table."""
        self.added[table] = (*self.added.get(table, ()), *files)

    def discard_attempts(self, attempts: Collection[str]) -> None:
        """Let the files of these attempts of batches be removed once this one is committed."""
        self.discarded.update(attempts)


class FilesStore(LedgerStore[FilesTransaction]):
    """A directory as the place where pipelines commit; see the module's text for the protocol.

    Args:
        path: of a local file system, or of one that driver and executors share; made when it is needed.
        durable: sync files and log before a step counts. Without it a commit survives the death of every process,
            but not a power cut.
        resolve_timeout_s: bound on finding out, in seconds, what became of an entry when the file system failed.

    Raises:
        OptionError: the path is no usable one.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = True, resolve_timeout_s: float = 30.0) -> None:
        super().__init__()
        try:
            self.folder = resolve_folder(path)
        except ValueError as error:
            raise OptionError(option="path", reason=str(error)) from None
        self.label = f"directory {self.folder}"
        self._resolve_timeout_s = resolve_timeout_s
        self._log = FilesLog(self.folder, label=self.label, durable=durable)

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
            current = self._log.refresh().pipelines.get(pipeline, PipelineState())
            held = current.generation + 1 if generation is None else generation
            fence = Fence(pipeline=pipeline, generation=held, driver=self._driver)
            while current.generation < held:
                current = self._log.put(fence).pipelines.get(pipeline, PipelineState())
        # If another driver was faster, no higher one is tried: that driver, or a later one, is newer.
        if (current.generation, current.driver) != (held, self._driver):
            raise FencedError(store=self.label, pipeline=pipeline, held=held, found=current.generation)
        self._held[pipeline] = held
        self._log.tidy()
        key = pipeline_key(pipeline)
        self._sweep(lambda owner: owner.pipeline == key and owner.generation < held)
        return held

    def state(self, pipeline: str) -> PipelineState:
        """What the log says by now."""
        with translated(self.label):
            return self._log.refresh().pipelines.get(pipeline, PipelineState())

    def pipelines(self) -> tuple[str, ...]:
        """Those of which the log has a batch."""
        with translated(self.label):
            states = self._log.refresh().pipelines
            return tuple(sorted(name for name, state in states.items() if state.entry is not None))

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
        """Make a table, or add columns if it is still as ``before``; whether it has them now."""
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

    @contextmanager
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> Iterator[FilesTransaction]:
        """Begin: nothing is there until the entry has its slot."""
        yield FilesTransaction(self.durable, commit_id)

    def advance(self, transaction: FilesTransaction, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        """Look where the log stands; :meth:`end` looks again, at the slot before its own."""
        state = self.state(entry.pipeline)
        check_stands(entry, previous, state, store=self.label)
        transaction.previous = previous

    def apply(
        self, transaction: FilesTransaction, sink: Sink, batch: BatchAttempt, reports: Sequence[TaskReport]
    ) -> int:
        """Name one sink's files."""
        with translated(self.label):
            return sink.apply(transaction, batch, reports)

    def end(self, transaction: FilesTransaction, committed: LedgerEntry) -> None:
        """Put the entry into the first slot before which its checks hold."""
        batch = BatchAdded(commit_id=transaction.commit_id, entry=committed, files=transaction.added)
        while (state := self._state_of(self._log.put(batch), committed)).commit_id != batch.commit_id:
            check_stands(committed, transaction.previous, state, store=self.label)

    def settled_state(self, entry: LedgerEntry, cause: BaseException) -> PipelineState:
        """What the log says after the file system failed.

        An entry that is not there never will be: a later try puts another one into the same slot, and only one of the
        two gets it.
        """

        def read_state() -> PipelineState:
            with translated(self.label):
                state = self._log.refresh()
                # Its name may have been made and not been synced: then it is there, and not yet for good.
                self._log.sync()
                return self._state_of(state, entry)

        return when_available(read_state, timeout_s=self._resolve_timeout_s)

    def tidy(self, transaction: FilesTransaction, committed: LedgerEntry) -> None:
        """Fold the log, and remove files of tries that were given up."""
        if self._log.is_full:
            self._log.tidy()
        if transaction.discarded:
            discarded = {attempt_key(attempt) for attempt in transaction.discarded}
            self._sweep(lambda owner: owner.attempt in discarded)

    def _state_of(self, state: LogState, entry: LedgerEntry) -> PipelineState:
        return state.pipelines.get(entry.pipeline, PipelineState())

    # Files that belong to nothing.

    def _sweep(self, is_dead: Callable[[FileOwner], bool]) -> None:
        """Remove data files of attempts that can never be committed any more. Never raises: it can wait."""
        try:
            for table in self._log.state.tables:
                folder = self.folder / table
                names = os.listdir(folder) if folder.is_dir() else []
                dead = [name for name in names if (owner := owner_of(name)) is not None and is_dead(owner)]
                # What is listed is never touched, whatever its name says.
                for name in set(dead).difference(file.name for file in self._log.files(table)) if dead else ():
                    remove(folder / name)
        except OSError as error:
            _log.warning("%s: removing left-over files failed and is left for later: %s", self.label, error)
