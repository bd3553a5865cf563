"""Files of rows: the way of rows from tasks to a driver on the same machine, past the JVM.

Rows that a task holds go to the driver with its report. From another machine the JVM carries them, as chunks
(:mod:`directkafka.row_chunks`): they are compressed, and copied by Spark several times. On one machine a task writes
them to a file as they are, and the report names the file.

The files of one try of a batch lie in a folder of the driver's, which is its user's alone. It is removed when nothing
refers to the reports any more, with what tasks have left there whose reports did not arrive. What a driver that was
killed leaves is removed when the next one starts (:mod:`directkafka.spark.private_folder`).
"""

from __future__ import annotations

import errno
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
from typing import Any, Final

import pyarrow as pa

from directkafka.errors import WorkerLostError

log = logging.getLogger("directkafka.pipeline")

#: With less room than this, rows are not put into files: what else needs the disk should have it.
_FREE_BYTES_MIN: Final = 1024 * 1024 * 1024

#: Set for the rest of the process once files cannot be read.
_given_up = threading.Event()


def give_up_files(reason: str) -> None:
    """Have rows of this process's tasks carried by the JVM from now on: where one file cannot be read, more may not."""
    if not _given_up.is_set():
        log.warning("from now on Spark's JVM carries rows from tasks to the driver, since %s", reason)
    _given_up.set()


class RowFolder:
    """A folder for files of rows; removed when nothing refers to this object any more, or by :meth:`remove`.

    Args:
        parent: the driver's own folder.

    Attributes:
        path: of the folder.

    Raises:
        OSError: it cannot be made, or there is little room.
    """

    def __init__(self, parent: Path) -> None:
        if _given_up.is_set() or shutil.disk_usage(parent).free < _FREE_BYTES_MIN:
            raise OSError(errno.ENOSPC, "rows are not put into files")
        self.path = Path(tempfile.mkdtemp(prefix="rows-", dir=parent))
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())
        # At the end of the process its parent goes.
        self._finalizer.atexit = False

    def remove(self) -> None:
        """Remove it now: nobody will read what is in it."""
        self._finalizer()


def _remove(folder: Path, owner: int) -> None:
    # A child that the driver has forked lets go of its copy as well.
    if os.getpid() != owner:
        return
    gone = folder.with_name(f"gone-{folder.name}")
    # First of all a task that comes late must not find it: a file that it puts there meanwhile would keep the folder.
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of rows, as a report names it.

    Attributes:
        path: of the file.
        sizes: lengths of its pieces, where it has rows in a store's own bytes.
        batch_count: of its batches, where it is a stream of Arrow's.
    """

    path: str
    sizes: tuple[int, ...] = ()
    batch_count: int = 0


def write_pieces(folder: Path, pieces: Sequence[bytes]) -> RowFile:
    """Write rows in a store's own bytes.

    Raises:
        OSError: there is no room, or the folder is gone. Nothing is left then.
    """
    with _made(folder) as path, path.open("xb", buffering=0) as file:
        for piece in pieces:
            _write_all(file, piece)
    return RowFile(str(path), tuple(map(len, pieces)))


def write_batches(folder: Path, batches: Sequence[pa.RecordBatch]) -> RowFile:
    """Write rows as a stream of Arrow's.

    Args:
        folder: where.
        batches: of one schema; at least one.

    Raises:
        OSError: there is no room, or the folder is gone. Nothing is left then.
    """
    with (
        _made(folder) as path,
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, batches[0].schema) as stream,
    ):
        for batch in batches:
            stream.write_batch(batch)
    return RowFile(str(path), batch_count=len(batches))


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """The path of a new file, which is removed where it is not written to its end."""
    path = folder / uuid.uuid4().hex
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _write_all(file: Any, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


@dataclass(frozen=True, slots=True)
class PiecesOfFile(Collection[bytes]):
    """The pieces of a file, read when they are asked for.

    Attributes:
        file: as :func:`write_pieces` made it.
        folder: keeps the file where it is; not pickled.
    """

    file: RowFile
    folder: RowFolder | None = field(default=None, compare=False, repr=False)

    def __iter__(self) -> Iterator[bytes]:
        with _told_if_gone(self.file), Path(self.file.path).open("rb") as file:
            for size in self.file.sizes:
                piece = file.read(size)
                if len(piece) != size:
                    raise OSError(f"a piece has {len(piece):,} bytes of {size:,}")
                yield piece

    def __len__(self) -> int:
        return len(self.file.sizes)

    def __contains__(self, piece: object) -> bool:
        return any(piece == each for each in self)

    def __reduce__(self) -> tuple[type[PiecesOfFile], tuple[RowFile]]:
        return PiecesOfFile, (self.file,)


@dataclass(frozen=True, slots=True)
class BatchesOfFile(Collection[pa.RecordBatch]):
    """The batches of a file, read when they are asked for. Pickled, it names the file: another process reads it there.

    Attributes:
        file: as :func:`write_batches` made it.
        folder: keeps the file where it is; not pickled.
    """

    file: RowFile
    folder: RowFolder | None = field(default=None, compare=False, repr=False)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        read_count = 0
        with _told_if_gone(self.file), pa.memory_map(self.file.path) as source:
            for batch in pa.ipc.open_stream(source):
                read_count += 1
                yield batch
            # A stream that is cut between two batches seems to be whole.
            if read_count != self.file.batch_count:
                raise OSError(f"it has {read_count} batches of {self.file.batch_count}")

    def __len__(self) -> int:
        return self.file.batch_count

    def __contains__(self, batch: object) -> bool:
        return any(batch == each for each in self)

    def __reduce__(self) -> tuple[type[BatchesOfFile], tuple[RowFile]]:
        return BatchesOfFile, (self.file,)


@contextmanager
def _told_if_gone(file: RowFile) -> Iterator[None]:
    """Tell of a file that somebody has removed or cut as of a lost worker's rows: the batch is done again.

    Raises:
        WorkerLostError: it cannot be read.
    """
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise WorkerLostError(cause=f"the rows that it had left in {file.path} cannot be read ({error})") from error
