"""Files of rows, by which tasks give rows to a driver on the same machine without the JVM.

Rows that a task holds go to the driver with its report. From another machine the JVM carries them, as chunks
(:mod:`directkafka.row_chunks`): they are compressed, and copied by Spark several times. On one machine a task writes
them to a file as they are, and the report names the file.

Each job has a folder for its files, inside the driver's private folder. It is removed when no report refers to it any
more, together with files whose reports did not arrive. If a driver is killed, the next driver of the same user with the
same temporary folder removes its files (:mod:`directkafka.spark.private_folder`).
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import uuid
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from directkafka.errors import RowFileError

log = logging.getLogger("directkafka.pipeline")

#: With less room than this, rows are not put into files: what else needs the disk should have it.
_FREE_BYTES_MIN: Final = 1024 * 1024 * 1024

#: Set when a file could not be read; from then on this process makes no folder for files of rows.
_given_up = threading.Event()

Rows = TypeVar("Rows")


def give_up_files(error: RowFileError) -> None:
    """Write no more files of rows in this process; the JVM carries the rows. The next file might be unreadable too."""
    if not _given_up.is_set():
        log.warning("from now on Spark's JVM carries the rows of tasks to the driver: %s", error)
    _given_up.set()


class RowFolder:
    """A folder for the files of a job; removed when nothing refers to this object any more, or by :meth:`remove`.

    Args:
        parent: the driver's private folder.

    Attributes:
        path: of the folder.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, parent: Path) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rows-", dir=parent))
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())
        # At the end of the process the parent folder is removed as a whole.
        self._finalizer.atexit = False

    def remove(self) -> None:
        """Remove it now: nobody will read what is in it."""
        self._finalizer()


def new_row_folder(parent: Path) -> RowFolder | None:
    """A folder for the files of a job.

    Args:
        parent: the driver's private folder.

    Returns:
        None where the JVM has to carry the rows: the disk has little room, the folder cannot be made, or files were
        given up.
    """
    if _given_up.is_set():
        return None
    with suppress(OSError):
        if shutil.disk_usage(parent).free >= _FREE_BYTES_MIN:
            return RowFolder(parent)
    return None


def _remove(folder: Path, owner: int) -> None:
    # A forked child drops its copy of the object too. That must not remove the driver's folder.
    if os.getpid() != owner:
        return
    gone = folder.with_name(f"gone-{folder.name}")
    # Renamed first. Otherwise: rmtree() lists the folder; a late task adds a file; the folder is not empty, and stays.
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of rows, as a report names it.

    Attributes:
        path: of the file.
        sizes: of a file with a store's own bytes: the length of each piece of them.
        batch_count: of a file in Arrow's stream format: how many batches it has.
    """

    path: str
    sizes: tuple[int, ...] = ()
    batch_count: int = 0


def write_encoded(folder: Path, encoded: Sequence[bytes]) -> RowFile:
    """Write rows in a store's own bytes, in pieces.

    Raises:
        OSError: there is no room, or the folder is gone. Nothing is left then.
    """
    with _new_path(folder) as path, path.open("xb") as file:
        file.writelines(encoded)
    return RowFile(str(path), sizes=tuple(map(len, encoded)))


def write_batches(folder: Path, batches: Sequence[pa.RecordBatch]) -> RowFile:
    """Write rows in Arrow's stream format.

    Args:
        folder: where.
        batches: of one schema; at least one.

    Raises:
        OSError: there is no room, or the folder is gone. Nothing is left then.
    """
    with (
        _new_path(folder) as path,
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, batches[0].schema) as stream,
    ):
        for batch in batches:
            stream.write_batch(batch)
    return RowFile(str(path), batch_count=len(batches))


@contextmanager
def _new_path(folder: Path) -> Iterator[Path]:
    """A path for a new file. If the block raises, the file is removed."""
    path = folder / uuid.uuid4().hex
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class _OfFile(Collection[Rows]):
    """Rows in a file, read when they are asked for.

    Pickled, this is only the file's path: the other process reads the file.

    Attributes:
        file: with the rows.
        folder: held so that it is not removed while these rows may be read; not pickled.
    """

    file: RowFile
    folder: RowFolder | None = field(default=None, compare=False, repr=False)

    def __contains__(self, rows: object) -> bool:
        return any(rows == each for each in self)

    def __reduce__(self) -> tuple[type[Any], tuple[RowFile]]:
        return type(self), (self.file,)


class EncodedOfFile(_OfFile[bytes]):
    """The pieces that :func:`write_encoded` was given."""

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        with _unreadable_told(self.file), Path(self.file.path).open("rb") as file:
            for size in self.file.sizes:
                piece = file.read(size)
                if len(piece) != size:
                    raise OSError(f"a piece has {len(piece):,} bytes of {size:,}")
                yield piece

    def __len__(self) -> int:
        return len(self.file.sizes)


class BatchesOfFile(_OfFile[pa.RecordBatch]):
    """The batches that :func:`write_batches` was given."""

    __slots__ = ()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        read_count = 0
        with _unreadable_told(self.file), pa.memory_map(self.file.path) as source:
            for batch in pa.ipc.open_stream(source):
                read_count += 1
                yield batch
            # A stream that is cut between two batches seems to be whole.
            if read_count != self.file.batch_count:
                raise OSError(f"it has {read_count} batches of {self.file.batch_count}")

    def __len__(self) -> int:
        return self.file.batch_count


@contextmanager
def _unreadable_told(file: RowFile) -> Iterator[None]:
    """Raise the error of an unreadable file as one that has the batch done again.

    Raises:
        RowFileError: it cannot be read.
    """
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise RowFileError(path=file.path, cause=str(error)) from error
