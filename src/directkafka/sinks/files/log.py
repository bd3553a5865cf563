"""One numbered log per directory: put-if-absent entries, checkpoints, and reading that never sees half of anything.

::

    _directkafka_log/
        00000000000000001499.checkpoint.parquet    state after slot 1499; the files that slots 1000 to 1499 added
        00000000000000001500.json                  entry
        00000000000000001501.json                  entry

**Putting.** An entry is written to a temporary file, synced, and linked to the name of the first free slot: it is
whole or absent, and of two drivers one has it. The other meets an entry that it did not write, reads it, and
decides anew. Whether an entry is *in* is answered by reading the log, never by what ``link()`` said: a lost answer
and a lost race are told apart the same way.

**Checkpoints.** When the slots of a group (:data:`GROUP`) are full, a checkpoint is put the same way, and then the
entries of the groups before it are removed. So a start reads one checkpoint and at most two groups of entries. The
checkpoint of a group follows from its entries alone, so it does not matter who makes it, or how often. It stays for
ever: it is the seal without which a removed slot would look like a free one:

1. An older driver is stopped before it links slot 42.
2. Newer drivers fill the group, put its checkpoint, and later remove its entries.
3. The older driver goes on: slot 42 is free, the link succeeds.
4. It then finds the checkpoint, which came before the removal, and therefore before its link. The state in it
   knows nothing of its entry and has a higher generation: it is fenced.

Hence the rule for everyone who reads: entries count only if, *after* they were read, their group has no checkpoint;
where it has one, that is read instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from directkafka.fault_points import fault_point
from directkafka.sinks.files.log_state import (
    BatchAdded,
    DataFile,
    Entry,
    LogState,
    applied,
    entry_from_bytes,
    entry_to_bytes,
    state_from_bytes,
    state_to_bytes,
)
from directkafka.sinks.files.posix import link_new, make_folder, prepare_file, remove, sync_directory

_log = logging.getLogger("directkafka.sinks.files.store")

#: Name of the log's folder; Spark, Hive and Arrow pass over names that begin with an underscore.
LOG_FOLDER: Final = "_directkafka_log"

#: Slots between two checkpoints. Part of the format: every program must group alike.
GROUP: Final = 500

_FILES_SCHEMA: Final = pa.schema(
    [("table", pa.string()), ("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())]
)
_STATE_KEY: Final = b"directkafka.state"

_ENTRY_NAME: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT_NAME: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_TEMPORARY_NAME: Final = re.compile(r"\.((\d{20})\.[a-z.]+)\.[0-9a-f]{32}\.tmp")


class FilesLog:
    """The log of one directory, as one process knows it. Raises :class:`OSError` untranslated.

    Args:
        folder: the directory.
        label: for messages.
        durable: sync what is written before it counts.
    """

    def __init__(self, folder: Path, *, label: str, durable: bool) -> None:
        self.folder = folder
        self.label = label
        self.durable = durable
        self._log = folder / LOG_FOLDER
        self._forget()

    def _forget(self) -> None:
        self.state = LogState()
        #: The state of the newest checkpoint that was read or made, and the entries since.
        self._sealed = LogState()
        self._tail: list[Entry] = []

    def refresh(self) -> LogState:
        """Read on to the end of the log, and return the state there."""
        if not self._continues():
            self._forget()
            self._load(self._newest_checkpoint())
        while True:
            first = self.state.next_slot
            entries = list(self._read_group(first))
            # Only now: see the module's text. A slot below may have been taken after its group was sealed.
            if (checkpoint := self._checkpoint_of(first)).exists():
                self._load(checkpoint)
                continue
            for entry in entries:
                self.state = applied(self.state, entry)
            self._tail += entries
            if len(entries) < GROUP - first % GROUP:
                return self.state

    def make(self) -> None:
        """Make the directory and its log, where they are not there."""
        make_folder(self._log, root=self.folder, durable=self.durable)

    def put(self, entry: Entry) -> LogState:
        """Try to put an entry into the slot that follows the state last read; returns the state afterwards.

        That state says whether the entry is in: look for what it would have changed. If it is not, another's
        entry took the slot; decide anew. The same holds after an :class:`OSError`, once the log can be read.
        """
        target = self._entry_path(self.state.next_slot)
        temporary = prepare_file(target, entry_to_bytes(entry), durable=self.durable)
        try:
            fault_point("log.entry_written")
            link_new(temporary, target)
            fault_point("log.slot_taken")
        finally:
            remove(temporary)
        self.sync()
        return self.refresh()

    def sync(self) -> None:
        """Make the names that are in the log survive a power cut."""
        if self.durable:
            sync_directory(self._log)

    def files(self, table: str) -> list[DataFile]:
        """The files that belong to a table as of the state last read, in the order in which they were added."""
        sealed = (self._sealed_files(last, table) for last in range(GROUP - 1, self._sealed.next_slot, GROUP))
        tail = (entry.files.get(table, ()) for entry in self._tail if isinstance(entry, BatchAdded))
        return list(chain.from_iterable(chain(sealed, tail)))

    @property
    def is_full(self) -> bool:
        """Whether a checkpoint is due."""
        return len(self._tail) >= GROUP

    def tidy(self) -> None:
        """Put the checkpoints that are due, and remove what nobody needs. Never raises: it can wait."""
        try:
            while self.is_full:
                self._seal()
            for path in self._superfluous():
                remove(path)
        except OSError as error:
            _log.warning("%s: tidying the log failed and is left for later: %s", self.label, error)

    # Reading.

    def _continues(self) -> bool:
        """Whether the log on disk is still the one that the state was read from."""
        last = self.state.next_slot - 1
        return last >= 0 and (self._entry_path(last).exists() or self._checkpoint_of(last).exists())

    def _read_group(self, first: int) -> Iterator[Entry]:
        """The entries from a slot on, up to the end of its group or of the log."""
        for slot in range(first, first - first % GROUP + GROUP):
            try:
                content = self._entry_path(slot).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return
            yield entry_from_bytes(content, store=self.label)

    def _load(self, checkpoint: Path | None) -> None:
        if checkpoint is not None:
            content = pq.read_schema(checkpoint).metadata[_STATE_KEY]
            self.state = self._sealed = state_from_bytes(content, store=self.label)
            self._tail = []

    def _newest_checkpoint(self) -> Path | None:
        names = [name for name in self._names() if _CHECKPOINT_NAME.fullmatch(name)]
        return self._log / max(names) if names else None

    def _sealed_files(self, last_slot: int, table: str) -> Iterator[DataFile]:
        file_rows = pq.read_table(self._checkpoint_of(last_slot))
        file_rows = file_rows.filter(pc.equal(file_rows.column("table"), table)).drop_columns("table")
        return (DataFile(**row) for row in file_rows.to_pylist())

    # Tidying.

    def _seal(self) -> None:
        """Put the checkpoint of the first group in the tail."""
        group = self._tail[:GROUP]
        state = reduce(applied, group, self._sealed)
        rows = [
            {"table": table, "name": file.name, "rows": file.rows, "bytes": file.bytes}
            for entry in group
            if isinstance(entry, BatchAdded)
            for table, files in entry.files.items()
            for file in files
        ]
        schema = _FILES_SCHEMA.with_metadata({_STATE_KEY: state_to_bytes(state)})
        content = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), content, compression="zstd")
        target = self._checkpoint_of(state.next_slot - 1)
        temporary = prepare_file(target, content.getvalue().to_pybytes(), durable=self.durable)
        try:
            fault_point("log.checkpoint_written")
            link_new(temporary, target)
        finally:
            remove(temporary)
        self.sync()
        fault_point("log.checkpoint_put")
        self._sealed, self._tail = state, self._tail[GROUP:]

    def _superfluous(self) -> Iterator[Path]:
        """Entries of groups before the last one sealed, and temporary files whose target has been made by now.

        A temporary file's owner, if it still lives, finds its slot taken either way.
        """
        kept_from = self._sealed.next_slot - GROUP
        for name in self._names():
            if match := _ENTRY_NAME.fullmatch(name):
                if int(match[1]) < kept_from:
                    yield self._log / name
            elif match := _TEMPORARY_NAME.fullmatch(name):
                is_entry = _ENTRY_NAME.fullmatch(match[1]) is not None
                if int(match[2]) < self.state.next_slot if is_entry else (self._log / match[1]).exists():
                    yield self._log / name

    # Names.

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self._log.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _entry_path(self, slot: int) -> Path:
        return self._log / f"{slot:020d}.json"

    def _checkpoint_of(self, slot: int) -> Path:
        """The checkpoint of the group that a slot is in."""
        return self._log / f"{slot - slot % GROUP + GROUP - 1:020d}.checkpoint.parquet"
