"""Warnings that a program is told once, however many of its calls they are true of.

Spark makes a data source anew for each plan, in a process that its daemon forks: such a process cannot know what an
earlier one has said. So in Spark's Python workers a file is left for each line, named after the daemon, which is there
as long as the program.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from directkafka.python_worker import is_python_worker

__all__ = ["warn_once"]

_told: set[str] = set()
_lock = threading.Lock()

_FOLDER: Final = f"directkafka-told-{os.getuid() if hasattr(os, 'getuid') else 0}"
#: What older programs left goes after this time, in seconds; a program that runs for longer is told again.
_KEPT_S: Final = 7 * 24 * 3600


def warn_once(logger: logging.Logger, message: str, *arguments: object) -> None:
    """Log a warning, unless this program has been told the same line before."""
    line = f"{logger.name}: {message % arguments}"
    with _lock:
        is_new = line not in _told
        _told.add(line)
    if is_new and (not is_python_worker() or _is_first_of_daemon(line)):
        logger.warning(message, *arguments)


def _is_first_of_daemon(line: str) -> bool:
    daemon = os.getppid()
    digest = hashlib.sha256(f"{_start_of(daemon)} {line}".encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / _FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(folder / f"{daemon}-{digest}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError:  # Nowhere to leave it: told once too often.
        return True
    _remove_old(folder)
    return True


def _start_of(process: int) -> str:
    """When a process began, as the system counts, since numbers of processes come again; empty where unknown."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(OSError):  # Another process has just removed it.
            if path.stat().st_mtime < time.time() - _KEPT_S:
                path.unlink()
