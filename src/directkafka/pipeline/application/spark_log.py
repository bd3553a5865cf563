"""The file that takes the output of Spark's JVM and workers.

The JVM inherits the open file, and so do the Python workers that it starts: what a user's function prints on a local
executor is there too. The file is appended to, so it can be cut while they write: it is kept below a bound.

Log lines of this library in those processes, of records that were lost for example, are there as well. They concern
the user, and are handed on.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from directkafka.own_folders import USER_ID, refuse_unless_private

#: A log that is longer loses its beginning.
_BYTES_MAX: Final = 32 * 1024 * 1024
#: What is left of it then.
_BYTES_KEPT: Final = 1024 * 1024
_LOOK_S: Final = 1.0

#: So many logs of earlier runs are kept.
_FILES_MAX: Final = 20

_FOLDER: Final = f"directkafka-logs-{USER_ID}"
#: A line as :class:`~directkafka.plain_text.PlainFormatter` writes it.
_OURS = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ directkafka[.\w]*: ")
#: How lines begin that a JVM of Spark prints each time.
_USUAL = ("WARNING: Using incubator modules", "Using Spark's default log4j profile")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


class SparkLog:
    """An open log of one run, readable by its user alone.

    Args:
        name: what runs; part of the file's name.
        on_line: is given each log line of this library that is found in it.

    Attributes:
        path: the file.
    """

    def __init__(self, name: str, on_line: Callable[[str], None] = lambda _: None) -> None:
        folder = _folder_of_logs()
        _remove_oldest(folder)
        begun = time.strftime("%Y%m%d-%H%M%S")
        self.path = folder / f"{_NOT_IN_NAMES.sub('-', name)[:60]}-{begun}-{os.getpid()}.log"
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        self._descriptor = os.open(self.path, flags, 0o600)
        self._on_line = on_line
        #: Up to where it was looked through.
        self._seen = 0
        self._is_over = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="log of Spark", daemon=True)
        self._follower.start()

    def fileno(self) -> int:
        """The open file, for a child process to write to."""
        return self._descriptor

    def write(self, text: str) -> int:
        """Append a text; with :meth:`flush`, what a handler of log lines needs of a stream."""
        os.write(self._descriptor, text.encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def first_words(self) -> str:
        """The first line that says anything: why a JVM does not start. Empty where there is none."""
        start = os.pread(self._descriptor, _BYTES_KEPT, 0).decode(errors="replace")
        lines = (line.strip() for line in start.splitlines())
        return next((line for line in lines if line and not line.startswith(_USUAL)), "")

    def close(self, *, is_kept: bool) -> None:
        """Nothing more is expected. Processes that still write may go on.

        Args:
            is_kept: whether anybody is to read it; an empty one never is.
        """
        self._is_over.set()
        self._follower.join()
        with suppress(OSError):  # A full disk, for example: it must not take the place of what ended the run.
            self.tell_news()
        if not is_kept or os.fstat(self._descriptor).st_size == 0:
            with suppress(OSError):
                self.path.unlink()
        os.close(self._descriptor)

    def _follow(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            with suppress(OSError):  # A full disk, for example.
                self.tell_news()
                self.shorten()

    def tell_news(self) -> None:
        """Hand on this library's log lines that have come since the last time."""
        news = os.pread(self._descriptor, _BYTES_KEPT, self._seen)
        whole = news[: news.rfind(b"\n") + 1]
        # A line that never ends is passed over.
        self._seen += len(whole) if whole or len(news) < _BYTES_KEPT else len(news)
        for line in whole.splitlines():
            if _OURS.match(line):
                self._on_line(line.decode(errors="replace"))

    def shorten(self) -> None:
        """Cut the beginning off a log that has become too long. Lines that come meanwhile may be lost."""
        if os.fstat(self._descriptor).st_size > _BYTES_MAX:
            tail = self._tail()
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, b"... cut off ...\n" + tail)
            self._seen = os.fstat(self._descriptor).st_size

    def _tail(self) -> bytes:
        size = os.fstat(self._descriptor).st_size
        return os.pread(self._descriptor, _BYTES_KEPT, max(0, size - _BYTES_KEPT))


def _folder_of_logs() -> Path:
    """The user's folder for these logs; one for this run alone, where somebody else has made a folder of its name."""
    folder = Path(tempfile.gettempdir()) / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(PermissionError):
        refuse_unless_private(folder)
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
