"""Warnings that a program is told once, however many of its calls they are true of.

Spark makes a data source anew for each plan, in a process of its own, which cannot know what an earlier one has said.
So such a process leaves a file for each line, named after Spark's JVM, which is there as long as the program.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from directkafka.python_worker import is_python_worker

_told: set[str] = set()
_lock = threading.Lock()

_USER_ID: Final = os.getuid() if hasattr(os, "getuid") else None
_FOLDER: Final = f"directkafka-told-{_USER_ID or 0}"
#: Fields of ``/proc/PID/stat`` behind the name: the parent; and when it began, since numbers of processes come again.
_PARENT: Final = 1
_BEGUN: Final = 19
#: What older programs left goes after this time, in seconds; a program that runs for longer is told again.
_KEPT_S: Final = 7 * 24 * 3600


def warn_once(logger: logging.Logger, message: str, *arguments: object) -> None:
    """Log a warning, unless this program has been told the same line before."""
    line = f"{logger.name}: {message % arguments}"
    with _lock:
        is_new = line not in _told
        _told.add(line)
    if is_new and ((jvm := _jvm()) is None or _is_first(jvm, line)):
        logger.warning(message, *arguments)


def _jvm() -> int | None:
    """The process of Spark that stands for the program; None in a process that Spark has not started.

    Where the system does not tell a process's parent, that is the daemon that forks workers.
    """
    parent = os.getppid()
    if is_python_worker():
        return int(_stat(parent, _PARENT) or parent)
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return parent if spec is not None and spec.name.startswith("pyspark.") else None


def _is_first(jvm: int, line: str) -> bool:
    """Whether no process of this JVM has left a file for the line."""
    digest = hashlib.sha256(f"{_stat(jvm, _BEGUN)} {line}".encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / _FOLDER
    try:
        _make_private(folder)
    except OSError:  # Nowhere to leave it, or something else has that name: told once too often.
        return True
    try:
        os.close(os.open(folder / f"{jvm}-{digest}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError:
        return True
    _remove_old(folder)
    return True


def _make_private(folder: Path) -> None:
    """Make the folder if it is not there. In one of somebody else's, or behind a link, old files would be removed.

    Raises:
        OSError: it is not this user's alone.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == _USER_ID and not found.st_mode & 0o077
    if _USER_ID is not None and not is_ours:
        raise PermissionError(f"{folder} is not this user's alone")


def _stat(process: int, field: int) -> str:
    """What Linux says of a process; empty where it is not Linux."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[field]
    return ""


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(OSError):  # Another process has just removed it.
            if path.stat().st_mtime < time.time() - _KEPT_S:
                path.unlink()
