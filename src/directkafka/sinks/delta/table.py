"""The log of one Delta table, through delta-rs: snapshots, commits, and what delta-rs does not check.

Relied on: a commit fails if another one has come in between that set an app transaction of the same name; app
transactions outlive checkpoints and log cleanup. Not relied on: that readers see a commit that delta-rs has reported as
done (log cleanup may have freed its version's file name), and that it survives a power cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

import pyarrow as pa

from directkafka.errors import (
    RowRejectedError,
    SchemaMismatchError,
    StoreAccessError,
    StoreRequestError,
    StoreUnavailableError,
)
from directkafka.fault_points import fault_point
from directkafka.sinks.files.posix import make_folder, sync_directory, sync_file, translated

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction

#: How delta-rs begins what DataFusion says of a value that does not fit: no try will get further.
_REJECTIONS = tuple(f"Generic DeltaTable error: Arrow error: {kind}" for kind in ("Cast", "Invalid argument", "Arith"))


class TableChange(Protocol):
    """What one commit does to a table's rows."""

    @property
    def leaves_files_to_sync(self) -> bool:
        """Whether files that the commit names have still to be synced."""

    def commit(self, table: DeltaTable, properties: CommitProperties) -> None:
        """Make one commit that builds on a snapshot, also if it changes no row."""


@dataclass(frozen=True, slots=True)
class FilesChange:
    """A change of a table's files, which are written and synced.

    Attributes:
        added: what comes to the table.
        replaces: whether it takes the place of all that is there.
    """

    added: Sequence[AddAction] = ()
    replaces: bool = False

    @property
    def leaves_files_to_sync(self) -> bool:
        """The tasks have synced them."""
        return False

    def commit(self, table: DeltaTable, properties: CommitProperties) -> None:
        """Make one commit; it may have no file."""
        mode = "overwrite" if self.replaces else "append"
        table.create_write_transaction(list(self.added), mode, table.schema(), commit_properties=properties)


class DeltaLog:
    """The log of one table, as one process knows it.

    Args:
        folder: the table's.
        label: the store's name in messages.
        durable: whether :meth:`write` syncs a commit before it returns.
    """

    def __init__(self, folder: Path, *, label: str, durable: bool) -> None:
        self.folder = folder
        self.label = label
        self.durable = durable
        #: Columns of a table that is not there yet.
        self.schema_to_make: pa.Schema | None = None
        self._table: DeltaTable | None = None
        #: Up to this version this process has synced the log.
        self._synced_version = -1

    def forget(self) -> None:
        """Open the table anew when it is wanted again."""
        self._table = None

    def snapshot(self) -> DeltaTable | None:
        """The table as of now; None when there is none.

        Raises:
            StoreUnavailableError, StoreAccessError: it cannot be read.
        """
        from deltalake import DeltaTable

        with translated(self.label), delta_errors(self.label):
            # From a version whose log file was cleaned up, an update would find nothing new, however much there is.
            if self._table is not None and self._path(self._table.version()).exists():
                self._table.update_incremental()
            elif DeltaTable.is_deltatable(str(self.folder)):
                self._table = DeltaTable(self.folder)
            else:
                self._table = None
        return self._table

    def table(self) -> DeltaTable:
        """The table as of now, made if there is none.

        Raises:
            SchemaMismatchError: there is none, and no sink has said which columns to make it with.
        """
        return self.snapshot() or self._make()

    def write(
        self, table: DeltaTable, change: TableChange, numbers: Mapping[str, int], *, told: Mapping[str, str]
    ) -> None:
        """Make one commit of the table's log.

        Args:
            table: the snapshot that it builds on.
            change: what becomes of its rows.
            numbers: the new numbers of app transactions, by name.
            told: metadata for the table's history.

        Raises:
            StoreUnavailableError: the commit failed, or may have succeeded all the same: the table's numbers tell.
            StoreAccessError, StoreRequestError, RowRejectedError: see :func:`delta_errors`.
        """
        from deltalake import CommitProperties, Transaction

        properties = CommitProperties(
            custom_metadata=dict(told),
            app_transactions=[Transaction(name, number) for name, number in numbers.items()],
        )
        version = table.version()
        fault_point("log.entry_written")
        with translated(self.label), delta_errors(self.label):
            change.commit(table, properties)
        fault_point("log.slot_taken")
        if not self._path(version).exists():
            self._table = None
            raise StoreUnavailableError(store=self.label, cause=f"version {version} of its log was cleaned up")
        if self.durable:
            self.sync(version, with_files=change.leaves_files_to_sync)

    def sync(self, before: int, *, with_files: bool = False) -> None:
        """Make the commits after a version survive a power cut; delta-rs does not.

        What readers need of the log up to that version is synced too, once: others may have written it, and without it
        ours cannot be read. That is the newest checkpoint, and the versions behind it.

        Args:
            before: the version.
            with_files: sync the files that the commits behind it add, too.
        """
        with translated(self.label):
            checkpoint = self._checkpoint_version()
            if checkpoint > self._synced_version:
                for path in (self.folder / "_delta_log").glob(f"{checkpoint:020d}.checkpoint*"):
                    sync_file(path)
            for earlier in range(before, max(self._synced_version, checkpoint), -1):
                # Others may clean the log up meanwhile.
                with suppress(FileNotFoundError):
                    sync_file(self._path(earlier))
            version = before + 1
            while (path := self._path(version)).exists():
                for name in _added_files(path) if with_files else ():
                    self._sync_added(name)
                sync_file(path)
                version += 1
            if with_files:
                sync_directory(self.folder)
            sync_directory(path.parent)
            self._synced_version = version - 1

    def _checkpoint_version(self) -> int:
        """The version of the newest checkpoint; -1 without one."""
        try:
            checkpoint = json.loads((self.folder / "_delta_log" / "_last_checkpoint").read_bytes())
            return int(checkpoint["version"])
        except (OSError, ValueError, TypeError, LookupError):
            return -1

    def _sync_added(self, name: str) -> None:
        try:
            sync_file(self.folder / name)
        except FileNotFoundError:
            # OPTIMIZE may have put its rows into another file, and VACUUM have removed it.
            if any(uri.endswith(f"/{name}") for uri in self.table().file_uris()):
                raise

    def sync_last(self, app: str) -> None:
        """Make a pipeline's newest commit, its files, and all commits behind it survive a power cut.

        Args:
            app: the name of the pipeline's app transactions.
        """
        with translated(self.label):
            version = self.table().version()
            while (path := self._path(version)).exists() and not _sets(path, app):
                version -= 1
        self.sync(max(version, 0) - 1, with_files=True)

    def _make(self) -> DeltaTable:
        from deltalake import DeltaTable, Schema

        if self.schema_to_make is None:
            raise SchemaMismatchError(store=self.label, sink=self.folder.name, detail="there is no such table")
        with translated(self.label), delta_errors(self.label):
            make_folder(self.folder, root=self.folder, durable=self.durable)
            DeltaTable.create(self.folder, Schema.from_arrow(self.schema_to_make), mode="ignore")
            if self.durable:
                sync_directory(self.folder)
        table = self.snapshot()
        assert table is not None, "it was made, or another driver has made it"
        return table

    def _path(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"


def _added_files(path: Path) -> list[str]:
    """The files that a commit adds and that lie in the table's folder."""
    actions = [json.loads(line) for line in path.read_bytes().splitlines()]
    added = [unquote(action[kind]["path"]) for action in actions for kind in ("add", "cdc") if kind in action]
    return [name for name in added if "://" not in name]


def _sets(path: Path, app: str) -> bool:
    """Whether a commit sets an app transaction."""
    actions = [json.loads(line) for line in path.read_bytes().splitlines()]
    return any(action["txn"]["appId"] == app for action in actions if "txn" in action)


@contextmanager
def delta_errors(store: str) -> Iterator[None]:
    """Raise the project's errors for delta-rs's.

    Args:
        store: the store's label.

    Raises:
        StoreAccessError: this user has no right to read or write there.
        StoreRequestError: the table needs something that delta-rs does not do.
        RowRejectedError: a value of a merge does not fit.
        StoreUnavailableError: anything else, also when another commit took the version first.
    """
    from deltalake.exceptions import DeltaError, DeltaProtocolError

    try:
        yield
    except DeltaProtocolError as error:
        raise StoreRequestError(store=store, code="protocol", cause=_words(error)) from error
    except DeltaError as error:
        cause = _words(error)
        if "ermission denied" in cause:
            remedy = f"Give user id {os.geteuid()} the right to read and write there."
            raise StoreAccessError(store=store, cause=cause, remedy=remedy) from error
        if cause.startswith(_REJECTIONS):
            raise RowRejectedError(store=store, sink="a merge", detail=cause) from error
        raise StoreUnavailableError(store=store, cause=cause) from error
    except Exception as error:
        # What DataFusion makes of a query that it does not understand has no class of its own.
        if type(error) is not Exception:
            raise
        raise StoreRequestError(store=store, code="query", cause=_words(error)) from error


def _words(error: Exception) -> str:
    return " ".join(str(error).split())
