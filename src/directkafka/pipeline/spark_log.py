"""Where the output of Spark's JVM and Python workers goes, when it is not to go to the terminal: a file for each run.

The JVM inherits the open file, and so do the Python workers that it starts: what a user's function prints on a local
executor is there too. The file is appended to, so it can be cut while they write: it is kept below a bound.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["SparkLog"]

#: A log that is longer loses its beginning.
_BYTES_MAX: Final = 32 * 1024 * 1024
#: What is left of it then.
_BYTES_KEPT: Final = 1024 * 1024
_LOOK_S: Final = 30.0

#: So many logs of earlier runs are kept.
_FILES_MAX: Final = 20

_USER_ID = os.getuid() if hasattr(os, "getuid") else 0
_FOLDER: Final = f"directkafka-logs-{_USER_ID}"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


class SparkLog:
    """An open log of one run, readable by its user alone.

    Args:
        name: what runs; part of the file's name.

    Attributes:
        path: the file.
    """

    def __init__(self, name: str) -> None:
        folder = _private_folder()
        _remove_oldest(folder)
        begun = time.strftime("%Y%m%d-%H%M%S")
        self.path = folder / f"{_NOT_IN_NAMES.sub('-', name)[:60]}-{begun}-{os.getpid()}.log"
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        self._descriptor = os.open(self.path, flags, 0o600)
        self._is_over = threading.Event()
        threading.Thread(target=self._keep_short, name="log of Spark", daemon=True).start()

    def fileno(self) -> int:
        """The open file, for a child process to write to."""
        return self._descriptor

    def last_line(self) -> str:
        """What was written last; empty where nothing was."""
        lines = [line.strip() for line in self._tail().decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    def close(self, *, is_kept: bool) -> None:
        """Nothing more is expected. Processes that still write may go on.

        Args:
            is_kept: whether anybody is to read it; an empty one never is.
        """
        self._is_over.set()
        if not is_kept or os.fstat(self._descriptor).st_size == 0:
            with suppress(OSError):
                self.path.unlink()
        os.close(self._descriptor)

    def _keep_short(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            with suppress(OSError):  # A full disk; or the log was closed at this very moment.
                self.shorten()

    def shorten(self) -> None:
        """Cut the beginning off a log that has become too long. Lines that come meanwhile may be lost."""
        if os.fstat(self._descriptor).st_size > _BYTES_MAX:
            tail = self._tail()
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, b"... cut off ...\n" + tail)

    def _tail(self) -> bytes:
        size = os.fstat(self._descriptor).st_size
        return os.pread(self._descriptor, _BYTES_KEPT, max(0, size - _BYTES_KEPT))


def _private_folder() -> Path:
    """The user's folder for these logs; one for this run alone, where somebody else has made a folder of its name."""
    folder = Path(tempfile.gettempdir()) / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == _USER_ID and not found.st_mode & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix=f"{_FOLDER}-"))


def _remove_oldest(folder: Path) -> None:
    def age(path: Path) -> float:
        with suppress(OSError):  # Another run has just removed it.
            return -path.stat().st_mtime
        return 0.0

    for path in sorted(folder.glob("*.log"), key=age)[_FILES_MAX - 1 :]:
        with suppress(OSError):
            path.unlink()
