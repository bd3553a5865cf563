"""The ledger in a Delta table: a batch's files and its entry are one commit of the table's own log.

What the commit holds beside the files: *app transactions*, numbers under names, of which Delta keeps the last of each
name for ever, through checkpoints and log cleanup. For a pipeline ``flights``:

- ``directkafka/flights``: the batch id.
- ``directkafka/flights/generation``: of the newest fence.
- ``directkafka/flights/driver``: a number that stands for the driver which put that fence.
- ``directkafka/flights/ledger``: a number that names the file ``_directkafka/flights/<number>.json``. It holds the
  ledger entry, is written before the commit and never changed; without the commit nobody reads it. A commit's own
  metadata is no place for an entry: it is gone when the log is cleaned up.

How two drivers cannot both write. Every fence and every batch sets the pipeline's numbers. Delta refuses a commit
if one that came in between has set the same names, so an older driver's batch fails against a newer driver's fence;
a stranger's append in between disturbs nobody. Nobody holds a lock, so nobody waits for a driver that stands still.

One thing Delta does not see: the log of a driver's version may have been cleaned up while it stood still, and a
commit that lands there is in no one's view. So after every commit the version that it built on is looked for; if it
is gone, the table is opened anew and the numbers decide.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from directkafka.errors import (
    FencedError,
    OptionError,
    RowCountError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)
from directkafka.options.texts import check_installed
from directkafka.sinks.api import BatchAttempt, LedgerEntry, Sink, TaskReport
from directkafka.sinks.commit import LedgerStore, Write, when_available
from directkafka.sinks.delta.table import DeltaLog, FilesChange, TableChange, delta_errors
from directkafka.sinks.files.posix import make_folder, prepare_file, remove, resolve_folder, sync_directory, translated
from directkafka.sinks.files.task_writer import FileOwner, attempt_key, owner_of, pipeline_key
from directkafka.sinks.ledger import (
    PipelineState,
    check_format,
    check_stands,
    entry_from_json,
    entry_to_json,
    unless_dropped,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

_log = logging.getLogger("directkafka.sinks.delta.store")

#: Where the entries lie, in the table's folder; VACUUM passes over names that begin with an underscore.
LEDGER_FOLDER: Final = "_directkafka"

#: Where tasks put rows that a merge is to bring into the table.
STAGING_FOLDER: Final = "_directkafka_staging"

#: Delta's version numbers, and so app transactions, are signed 64-bit integers.
_NUMBER_MAX: Final = 2**62


@dataclass(slots=True)
class DeltaTransaction:
    """What a sink adds to a batch's commit, until it is made.

    Attributes:
        table: the snapshot that the commit builds on.
        state: what the ledger in it says of the pipeline.
        commit_id: of the commit that it is for.
        change: what becomes of the table's rows.
        given_up: tries of the batch whose files count for nothing once it is committed.
    """

    table: DeltaTable
    state: PipelineState
    commit_id: str
    change: TableChange = field(default_factory=FilesChange)
    given_up: set[str] = field(default_factory=set)


class DeltaStore(LedgerStore[DeltaTransaction]):
    """A Delta table as the place where pipelines commit; see the module's text for the protocol.

    Args:
        path: of the table, on a local file system or one that driver and executors share.
        durable: sync files and log before a step counts.
        resolve_timeout_s: bound on finding out, in seconds, what became of a commit that failed.

    Raises:
        OptionError: the path is none, or the package deltalake is missing.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = True, resolve_timeout_s: float = 30.0) -> None:
        super().__init__()
        try:
            self.folder = resolve_folder(path)
        except ValueError as error:
            raise OptionError(option="path", reason=str(error)) from None
        check_installed("deltalake", extra="delta")
        self.label = f"Delta table {self.folder}"
        self.log = DeltaLog(self.folder, label=self.label, durable=durable)
        self.staging = self.folder / STAGING_FOLDER
        self._resolve_timeout_s = resolve_timeout_s
        self._driver = str(random.SystemRandom().randrange(1, _NUMBER_MAX))
        #: Names the entry before the last one committed here, which a slow reader may still want.
        self._previous: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"DeltaStore({str(self.folder)!r})"

    @property
    def identity(self) -> str:
        """The table's path without symbolic links."""
        return f"delta/{self.folder}"

    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        """Step 1; see :meth:`directkafka.sinks.api.Store.fence`.

        Raises:
            FencedError: the table already has the generation given, or a higher one.
            SchemaMismatchError: there is no table, and no sink has said which columns to make it with.
        """
        table = self.log.table()
        standing = self._standing(table, pipeline)
        held, app = standing.generation + 1 if generation is None else generation, _app(pipeline)
        while standing.generation < held:
            version = table.version()
            try:
                numbers = {f"{app}/generation": held, f"{app}/driver": int(self._driver)}
                self.log.write(table, FilesChange(), numbers, told={})
                standing = replace(standing, generation=held, driver=self._driver)
            except StoreUnavailableError:
                # A fence or a batch that came in between has won, and the next look decides; else it is a failure.
                table, standing = self._resolved(pipeline)
                if table.version() == version:
                    raise
        # Not asked for a higher one when another driver was faster: it, or one after it, is the newer one.
        if (standing.generation, standing.driver) != (held, self._driver):
            raise FencedError(store=self.label, pipeline=pipeline, held=held, found=standing.generation)
        self._held[pipeline] = held
        with translated(self.label):
            make_folder(self.folder / LEDGER_FOLDER / pipeline, root=self.folder, durable=self.log.durable)
        if self.log.durable and standing.entry is not None:
            # Its driver may have been killed before it did so.
            self.log.sync_last(app)
        self._sweep_older(pipeline, held, standing)
        return held

    def state(self, pipeline: str) -> PipelineState:
        """What the table says by now; of a table that is not there, nothing."""
        table = self.log.snapshot()
        return PipelineState() if table is None else self._standing(table, pipeline)

    def new_commit_id(self) -> str:
        """A number as large as the table takes, as hex."""
        return f"{random.SystemRandom().randrange(_NUMBER_MAX):x}"

    @contextmanager
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> Iterator[DeltaTransaction]:
        """Begin on the newest version: another commit of the pipeline's that comes first makes this one fail."""
        table = self.log.table()
        yield DeltaTransaction(table, self._standing(table, entry.pipeline), commit_id)

    def advance(self, transaction: DeltaTransaction, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        """Look at the ledger of that version."""
        state = transaction.state
        check_stands(entry, previous, state, store=self.label)

    def apply(
        self, transaction: DeltaTransaction, sink: Sink, batch: BatchAttempt, reports: Sequence[TaskReport]
    ) -> int:
        """Name one sink's files."""
        with translated(self.label), delta_errors(self.label):
            return sink.apply(transaction, batch, reports)

    def end(self, transaction: DeltaTransaction, committed: LedgerEntry) -> None:
        """Write the entry, and a version of the table that names it."""
        number, app = int(transaction.commit_id, 16), _app(committed.pipeline)
        self._write_entry(number, committed)
        numbers = {
            app: committed.batch_id,
            f"{app}/generation": committed.generation,
            f"{app}/driver": int(self._driver),
            f"{app}/ledger": number,
        }
        told = {"directkafka": json.dumps(entry_to_json(committed), sort_keys=True)}
        self.log.write(transaction.table, transaction.change, numbers, told=told)

    def is_undecided(self, error: BaseException, *, was_asked: bool) -> bool:
        """Whether the table was to be written, and could not be; or rows are missing.

        A newer driver has removed them if its fence came behind the snapshot that this commit builds on.
        """
        return isinstance(error, RowCountError) or (was_asked and isinstance(error, StoreUnavailableError))

    def settled_state(self, entry: LedgerEntry, cause: BaseException) -> PipelineState:
        """What the table says after a commit that was answered with an error.

        A version that is not there never will be: a later try builds on the same version or a later one, and only one
        of the two gets it.
        """
        _, state = self._resolved(entry.pipeline)
        if self.log.durable and state.entry is not None:
            self.log.sync_last(_app(entry.pipeline))
        return state

    def tidy(self, transaction: DeltaTransaction, committed: LedgerEntry) -> None:
        """Remove the entry before the previous one, and files of tries that were given up."""
        pipeline = committed.pipeline
        obsolete, self._previous[pipeline] = self._previous.get(pipeline), transaction.state.commit_id
        try:
            if obsolete:
                remove(self._entry_path(pipeline, int(obsolete, 16)))
        except OSError as error:
            _log.warning("%s: removing an old entry failed: %s", self.label, error)
        if transaction.given_up:
            keys = {attempt_key(attempt) for attempt in transaction.given_up}
            self._sweep(lambda owner: owner.attempt in keys)
        last = committed.generation, committed.batch_id
        self._sweep_staged(pipeline, lambda owner: (owner.generation, owner.batch_id) <= last)

    def pipelines(self) -> tuple[str, ...]:
        """Those of which the table names an entry."""
        table = self.log.snapshot()
        if table is None:
            return ()
        with translated(self.label), delta_errors(self.label):
            folder = self.folder / LEDGER_FOLDER
            names = sorted(os.listdir(folder)) if folder.exists() else []
            return tuple(name for name in names if self._standing(table, name).entry is not None)

    @property
    def durable(self) -> bool:
        """Whether files and log are synced before a step counts."""
        return self.log.durable

    def force_durable(self) -> None:
        """Sync from now on: several stores need it.

        A store that is ahead pins the ranges of the others; what it lost in a power cut, it could not pin.
        """
        self.log.durable = True

    def close(self) -> None:
        """Forget the table's state; nothing is held open between calls, and the fence stays."""
        self.log.forget()

    def _resolved(self, pipeline: str) -> tuple[DeltaTable, PipelineState]:
        """The table as of now, after something went wrong."""

        def read_state() -> tuple[DeltaTable, PipelineState]:
            self.log.forget()
            table = self.log.snapshot()
            if table is None:
                raise StoreUnavailableError(store=self.label, cause="the table is gone")
            return table, self._standing(table, pipeline)

        return when_available(read_state, timeout_s=self._resolve_timeout_s)

    # The ledger.

    def _standing(self, table: DeltaTable, pipeline: str) -> PipelineState:
        with translated(self.label), delta_errors(self.label):
            while True:
                app = _app(pipeline)
                number = table.transaction_version(f"{app}/ledger")
                try:
                    entry = None if number is None else self._read_entry(pipeline, number)
                except FileNotFoundError as error:
                    # Only the last two entries are kept: two batches may have been committed since the snapshot.
                    table.update_incremental()
                    if table.transaction_version(f"{app}/ledger") != number:
                        continue
                    raise SchemaMismatchError(
                        store=self.label,
                        sink=f"the ledger entry of pipeline {pipeline!r}",
                        detail=f"the table names {error.filename}, which is not there; restore it from a backup",
                    ) from error
                return PipelineState(
                    generation=table.transaction_version(f"{app}/generation") or 0,
                    driver=str(table.transaction_version(f"{app}/driver") or ""),
                    commit_id="" if number is None else f"{number:x}",
                    entry=None if entry is None else unless_dropped(entry),
                )

    def _read_entry(self, pipeline: str, number: int) -> LedgerEntry:
        content = self._entry_path(pipeline, number).read_bytes()
        try:
            entry = entry_from_json(json.loads(content))
        except (ValueError, RecursionError) as error:
            raise SchemaMismatchError(
                store=self.label,
                sink=f"the ledger entry of pipeline {pipeline!r}",
                detail=f"{number:019d}.json cannot be read ({error}); restore it from a backup",
            ) from error
        return check_format(entry, store=self.label)

    def _write_entry(self, number: int, entry: LedgerEntry) -> None:
        target = self._entry_path(entry.pipeline, number)
        content = json.dumps(entry_to_json(entry), sort_keys=True).encode()
        with translated(self.label):
            prepare_file(target, content, durable=self.log.durable).rename(target)
            if self.log.durable:
                sync_directory(target.parent)

    # What nobody needs.

    def _sweep_older(self, pipeline: str, held: int, standing: PipelineState) -> None:
        """Remove what older drivers wrote after the last batch that was committed.

        A file that is not in the table may have been, and be needed to read an older version of it: only VACUUM may
        judge those. What is later than the last batch never was.
        """
        key, last = pipeline_key(pipeline), standing.entry
        if last is None and standing.commit_id:
            # The pipeline was dropped. Its generation stays, and so do the files of its batches.
            last = self._read_entry(pipeline, int(standing.commit_id, 16))
        after = (0, -1) if last is None else (last.generation, last.batch_id)
        self._sweep_entries(pipeline, after)
        self._sweep(lambda owner: owner.pipeline == key and after < (owner.generation, owner.batch_id) < (held, -1))
        self._sweep_staged(pipeline, lambda owner: owner.generation < held)

    def _sweep_entries(self, pipeline: str, last: tuple[int, int]) -> None:
        """Remove entries that are older than the last batch's: of a newer driver's, nothing can be that.

        A temporary file that a newer driver is about to rename costs it one more try.
        """
        try:
            for path in (self.folder / LEDGER_FOLDER / pipeline).glob("*"):
                if path.suffix == ".tmp":
                    remove(path)
                    continue
                entry = entry_from_json(json.loads(path.read_bytes()))
                if (entry.generation, entry.batch_id) < last:
                    remove(path)
        except (OSError, ValueError) as error:
            _log.warning("%s: removing old entries failed and is left for later: %s", self.label, error)

    def _sweep(self, is_dead: Callable[[FileOwner], bool]) -> None:
        """Remove data files of tries that can never be committed any more. Never raises: it can wait."""
        try:
            names = os.listdir(self.folder)
            dead = [name for name in names if (owner := owner_of(name)) is not None and is_dead(owner)]
            # What is in the table is never touched, whatever its name says.
            for name in set(dead) - self._listed() if dead else ():
                remove(self.folder / name)
        except (OSError, StoreError) as error:
            _log.warning("%s: removing left-over files failed and is left for later: %s", self.label, error)

    def _sweep_staged(self, pipeline: str, is_dead: Callable[[FileOwner], bool]) -> None:
        """Remove a pipeline's staged files; nothing but a batch to come needs one. Never raises: it can wait."""
        key = pipeline_key(pipeline)
        try:
            for path in self.staging.glob("*"):
                owner = owner_of(path.name)
                if owner is not None and owner.pipeline == key and is_dead(owner):
                    remove(path)
        except OSError as error:
            _log.warning("%s: removing staged files failed and is left for later: %s", self.label, error)

    def _listed(self) -> set[str]:
        table = self.log.table()
        with delta_errors(self.label):
            return {uri.rpartition("/")[2] for uri in table.file_uris()}

    def _entry_path(self, pipeline: str, number: int) -> Path:
        return self.folder / LEDGER_FOLDER / pipeline / f"{number:019d}.json"


def _app(pipeline: str) -> str:
    return f"directkafka/{pipeline}"
