"""Files by which the Python processes of one JVM of Spark tell each other something.

Spark forks a process for each task that runs at the same time, ends those that were idle for a minute, and plans each
read in a process of its own. None of them knows what another one has said or asked. The files are this user's alone,
and named after the JVM: what an earlier one has left is nobody's, and goes after some days.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from directkafka.python_worker import is_python_worker

_USER_ID: Final = os.getuid() if hasattr(os, "getuid") else None
_FOLDER: Final = f"directkafka-jvms-{_USER_ID or 0}"
#: Fields of ``/proc/PID/stat`` behind the name: the parent; and when it began, since process ids are used again.
_PARENT: Final = 1
_BEGUN: Final = 19
#: After this time a file goes, in seconds; a JVM that runs for longer has none then.
_KEPT_S: Final = 7 * 24 * 3600


def is_first(name: str) -> bool:
    """Whether no process of this JVM has asked that of this name before; also where no process can know."""
    jvm = _jvm()
    if jvm is None:
        return True
    try:
        path = _path(jvm, f"first {name}")
    except OSError:  # Nowhere to leave a file.
        return True
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError:
        return True
    _remove_old(path.parent)
    return True


def kept(name: str) -> bytes | None:
    """What a process of this JVM has kept under a name; None where there is nothing.

    Also where the system does not tell when the JVM began: another one may have had its number.
    """
    jvm = _jvm()
    if jvm is None or not _stat(jvm, _BEGUN):
        return None
    with suppress(OSError):
        return _path(jvm, name).read_bytes()
    return None


def keep(name: str, content: bytes) -> None:
    """Keep something for the processes of this JVM, if that can be done."""
    jvm = _jvm()
    if jvm is None or not _stat(jvm, _BEGUN):
        return
    with suppress(OSError):
        path = _path(jvm, name)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(content)
        part.replace(path)
        _remove_old(path.parent)


def _jvm() -> int | None:
    """The process of Spark that stands for the program; None in a process that Spark has not started.

    Where the system does not tell a process's parent, that is the daemon that forks workers.
    """
    parent = os.getppid()
    if is_python_worker():
        return int(_stat(parent, _PARENT) or parent)
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return parent if spec is not None and spec.name.startswith("pyspark.") else None


def _path(jvm: int, name: str) -> Path:
    """The file of a name, in a folder that is made if it is not there.

    Raises:
        OSError: the folder is not this user's alone, or cannot be made.
    """
    folder = Path(tempfile.gettempdir()) / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == _USER_ID and not found.st_mode & 0o077
    # In one of somebody else's, or behind a link, old files would be removed.
    if _USER_ID is not None and not is_ours:
        raise PermissionError(f"{folder} is not this user's alone")
    digest = hashlib.sha256(f"{_stat(jvm, _BEGUN)} {name}".encode()).hexdigest()[:24]
    return folder / f"{jvm}-{digest}"


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
