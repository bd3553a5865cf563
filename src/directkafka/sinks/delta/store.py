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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from directkafka.errors import (
    CommitUnknownError,
    FencedError,
    OptionError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)
from directkafka.faults import reach
from directkafka.options.arguments import check_installed
from directkafka.sinks.api import BatchName, LedgerEntry, Sink, Store, TaskReport
from directkafka.sinks.delta.table import DeltaLog, delta_errors
from directkafka.sinks.files.data_files import FileOwner, attempt_key, owner_of, pipeline_key
from directkafka.sinks.files.posix import prepare_file, remove, resolve_folder, sync_directory, translated
from directkafka.sinks.ledger import (
    check_count,
    check_format,
    check_stands,
    check_successor,
    entry_from_json,
    entry_to_json,
    with_counts,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

__all__ = ["LEDGER_FOLDER", "DeltaStore", "DeltaTransaction"]

_log = logging.getLogger("directkafka.sinks.delta.store")

Write = tuple[Sink, BatchName, Sequence[TaskReport]]

#: Where the entries lie, in the table's folder; VACUUM passes over names that begin with an underscore.
LEDGER_FOLDER: Final = "_directkafka"

#: Delta's version numbers, and so app transactions, are signed 64-bit integers.
_NUMBER_MAX: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What the table says about one pipeline."""

    generation: int = 0
    driver: int = 0
    number: int | None = None
    entry: LedgerEntry | None = None


@dataclass(slots=True)
class DeltaTransaction:
    """What a sink adds to a batch's commit, until it is made.

    Attributes:
        table: the snapshot that the commit builds on.
    """

    table: DeltaTable
    added: list[AddAction | RemoveAction] = field(default_factory=list)
    given_up: set[str] = field(default_factory=set)


class DeltaStore(Store):
    """A Delta table as the place where pipelines commit; see the module's text for the protocol.

    Args:
        path: of the table, on a local file system or one that driver and executors share.
        durable: sync files and log before a step counts.
        resolve_timeout_s: bound on finding out, in seconds, what became of a commit that failed.

    Raises:
        OptionError: the path is none, or the package deltalake is missing.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = True, resolve_timeout_s: float = 30.0) -> None:
        try:
            self.folder = resolve_folder(path)
        except ValueError as error:
            raise OptionError(option="path", reason=str(error)) from None
        check_installed("deltalake", extra="delta")
        self.label = f"Delta table {self.folder}"
        self.log = DeltaLog(self.folder, label=self.label, durable=durable)
        self._resolve_timeout_s = resolve_timeout_s
        self._driver = random.SystemRandom().randrange(1, _NUMBER_MAX)
        self._held: dict[str, int] = {}
        #: Names the entry before the last one committed here, which a slow reader may still want.
        self._previous: dict[str, int | None] = {}

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
        last = standing.entry
        held, app = standing.generation + 1 if generation is None else generation, _app(pipeline)
        while standing.generation < held:
            version = table.version()
            try:
                numbers = {f"{app}/generation": held, f"{app}/driver": self._driver}
                self.log.write(table, [], numbers, told={})
                standing = replace(standing, generation=held, driver=self._driver)
            except StoreUnavailableError:
                # A fence or a batch that came in between has won, and the next look decides; else it is a failure.
                table, standing = self._resolved(pipeline)
                last = standing.entry
                if table.version() == version:
                    raise
        # Not asked for a higher one when another driver was faster: it, or one after it, is the newer one.
        if (standing.generation, standing.driver) != (held, self._driver):
            raise FencedError(store=self.label, pipeline=pipeline, held=held, found=standing.generation)
        self._held[pipeline] = held
        self._sweep_older(pipeline, held, last)
        return held

    def read(self, pipeline: str) -> LedgerEntry | None:
        """Step 2; see :meth:`directkafka.sinks.api.Store.read`.

        Raises:
            FencedError: this store fenced the pipeline, and a newer driver has done so since.
            SchemaMismatchError: the entry is of a newer format, or its file is gone.
        """
        table = self.log.snapshot()
        standing = _Standing() if table is None else self._standing(table, pipeline)
        held = self._held.get(pipeline)
        if held is not None and standing.generation > held:
            raise FencedError(store=self.label, pipeline=pipeline, held=held, found=standing.generation)
        return standing.entry

    def commit(
        self,
        entry: LedgerEntry,
        *,
        previous: LedgerEntry | None,
        writes: Sequence[Write] = (),
    ) -> LedgerEntry:
        """Step 4; see :meth:`directkafka.sinks.api.Store.commit`."""
        check_successor(entry, previous, store=self.label)
        table = self.log.table()
        standing = self._standing(table, entry.pipeline)
        check_stands(entry, previous, generation=standing.generation, found=standing.entry, store=self.label)
        reach("commit.begun")
        transaction = DeltaTransaction(table)
        counts: dict[str, int] = {}
        with translated(self.label), delta_errors(self.label):
            for sink, batch, reports in writes:
                counts[sink.name] = counts.get(sink.name, 0) + self._apply(transaction, sink, batch, reports)
        reach("commit.rows_moved")
        committed = with_counts(entry, previous, counts)
        number = random.SystemRandom().randrange(_NUMBER_MAX)
        self._write_entry(number, committed)
        app = _app(entry.pipeline)
        numbers = {
            app: entry.batch_id,
            f"{app}/generation": entry.generation,
            f"{app}/driver": self._driver,
            f"{app}/ledger": number,
        }
        told = {"directkafka": json.dumps(entry_to_json(committed), sort_keys=True)}
        try:
            self.log.write(table, transaction.added, numbers, told=told)
        except StoreUnavailableError as error:
            self._settle(number, committed, previous, error)
        reach("commit.answered")
        self._tidy(entry.pipeline, standing.number, transaction.given_up)
        return committed

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

    def _settle(
        self, number: int, entry: LedgerEntry, previous: LedgerEntry | None, cause: StoreUnavailableError
    ) -> None:
        """Decide what became of a commit that was answered with an error: the table has its number, or never will.

        "Never" because a later try builds on the same version or a later one, and only one of the two gets it.
        """
        try:
            table, standing = self._resolved(entry.pipeline)
            if self.log.durable:
                self.log.sync(table.version() - 1)
        except StoreError as error:
            raise CommitUnknownError(
                store=self.label, pipeline=entry.pipeline, batch_id=entry.batch_id, cause=f"{cause.cause}; then {error}"
            ) from error
        if standing.number == number:
            _log.info("batch %d: the commit failed, the table has it: %s", entry.batch_id, cause.cause)
            return
        check_stands(entry, previous, generation=standing.generation, found=standing.entry, store=self.label)
        raise cause

    def _resolved(self, pipeline: str) -> tuple[DeltaTable, _Standing]:
        """The table as of now, after something went wrong."""
        for attempt in Retrying(
            retry=retry_if_exception_type(StoreUnavailableError),
            wait=wait_exponential(multiplier=0.1, max=2.0),
            stop=stop_after_delay(self._resolve_timeout_s),
            reraise=True,
        ):
            with attempt:
                self.log.forget()
                table = self.log.snapshot()
                if table is None:
                    raise StoreUnavailableError(store=self.label, cause="the table is gone")
                return table, self._standing(table, pipeline)
        raise AssertionError("tenacity returns or raises")

    # The ledger.

    def _standing(self, table: DeltaTable, pipeline: str) -> _Standing:
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
                return _Standing(
                    generation=table.transaction_version(f"{app}/generation") or 0,
                    driver=table.transaction_version(f"{app}/driver") or 0,
                    number=number,
                    entry=entry,
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
            target.parent.mkdir(parents=True, exist_ok=True)
            prepare_file(target, content, durable=self.log.durable).rename(target)
            if self.log.durable:
                sync_directory(target.parent)

    def _apply(self, transaction: DeltaTransaction, sink: Sink, batch: BatchName, reports: Sequence[TaskReport]) -> int:
        rows = sink.apply(transaction, batch, reports)
        check_count(store=self.label, sink=sink.name, reported=sum(report.rows for report in reports), found=rows)
        return rows

    # What nobody needs.

    def _tidy(self, pipeline: str, previous: int | None, given_up: set[str]) -> None:
        """Remove the entry before the previous one, and files of tries given up."""
        obsolete, self._previous[pipeline] = self._previous.get(pipeline), previous
        try:
            if obsolete is not None:
                remove(self._entry_path(pipeline, obsolete))
        except OSError as error:
            _log.warning("%s: removing an old entry failed: %s", self.label, error)
        if given_up:
            keys = {attempt_key(attempt) for attempt in given_up}
            self._sweep(lambda owner: owner.attempt in keys)

    def _sweep_older(self, pipeline: str, held: int, last: LedgerEntry | None) -> None:
        """Remove what older drivers wrote after the last batch that was committed.

        A file that is not in the table may have been, and be needed to read an older version of it: only VACUUM may
        judge those. What is later than the last batch never was.
        """
        key = pipeline_key(pipeline)
        after = (0, -1) if last is None else (last.generation, last.batch_id)
        self._sweep_entries(pipeline, after)
        self._sweep(lambda owner: owner.pipeline == key and after < (owner.generation, owner.batch_id) < (held, -1))

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

    def _listed(self) -> set[str]:
        table = self.log.table()
        with delta_errors(self.label):
            return {uri.rpartition("/")[2] for uri in table.file_uris()}

    def _entry_path(self, pipeline: str, number: int) -> Path:
        return self.folder / LEDGER_FOLDER / pipeline / f"{number:019d}.json"


def _app(pipeline: str) -> str:
    return f"directkafka/{pipeline}"
