"""Files by which the Python processes of one JVM of Spark tell each other something.

Spark forks a process for each task that runs at the same time, ends those that were idle for a minute, and plans each
read in a process of its own. None of them knows what another one has said or asked. So each JVM has a folder, in a
folder of this user's alone. Whoever makes a JVM's folder also removes those of JVMs that ended a week ago.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from directkafka.own_folders import USER_ID, refuse_unless_private
from directkafka.python_worker import is_python_worker

_FOLDER: Final = f"directkafka-jvms-{USER_ID}"
#: Fields of ``/proc/PID/stat`` behind the name: the parent; and when it began, since process ids are used again.
_PARENT: Final = 1
_BEGUN: Final = 19
#: How long the folder of a JVM that has ended is kept, in seconds. A JVM in another container looks as if it had ended.
_KEPT_S: Final = 7 * 24 * 3600


def claim(name: str) -> bool:
    """Whether this is the first call for a name among the JVM's processes; True where that cannot be known."""
    jvm = _jvm()
    if jvm is None or not _stat(jvm, _BEGUN):
        return True
    try:
        path = _make_folder(jvm) / _digest(f"claim {name}")
    except OSError:  # Nowhere to leave a file.
        return True
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def read(name: str) -> bytes | None:
    """What a process of this JVM has written under a name; None where there is nothing.

    None also where the system does not tell when the JVM began: an earlier one may have had its number.
    """
    jvm = _jvm()
    if jvm is None or not _stat(jvm, _BEGUN):
        return None
    with suppress(OSError):
        refuse_unless_private(_root())
        return (_folder(jvm) / _digest(name)).read_bytes()
    return None


def write(name: str, content: bytes) -> None:
    """Write something for the processes of this JVM, if that can be done."""
    jvm = _jvm()
    if jvm is None or not _stat(jvm, _BEGUN):
        return
    with suppress(OSError):
        path = _make_folder(jvm) / _digest(name)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(content)
        part.replace(path)


def _jvm() -> int | None:
    """The process of Spark that stands for the program; None in a process that Spark has not started.

    Where the system does not tell a process's parent, that is the daemon that forks workers.
    """
    parent = os.getppid()
    if is_python_worker():
        return int(_stat(parent, _PARENT) or parent)
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return parent if spec is not None and spec.name.startswith("pyspark.") else None


def _root() -> Path:
    return Path(tempfile.gettempdir()) / _FOLDER


def _folder(jvm: int) -> Path:
    return _root() / f"{jvm}-{_stat(jvm, _BEGUN)}-{_boot()}"


def _make_folder(jvm: int) -> Path:
    """The JVM's folder, which is made if it is not there.

    Raises:
        OSError: there is no place for it, or what has the name of the folder above is not this user's alone.
    """
    root, folder = _root(), _folder(jvm)
    root.mkdir(mode=0o700, exist_ok=True)
    # Behind a link, or in somebody else's folder, we would remove what is not ours.
    refuse_unless_private(root)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        _remove_old(root)
    return folder


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:24]


def _stat(process: int, field: int) -> str:
    """What Linux says of a process; empty where it is not Linux."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[field]
    return ""


@cache
def _boot() -> str:
    """Which start of the machine this is: process ids and times begin anew with each."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _remove_old(root: Path) -> None:
    for folder in root.iterdir():
        jvm, begun, boot = [*folder.name.split("-", 2), "", ""][:3]
        is_running = jvm.isdecimal() and boot == _boot() and bool(begun) and _stat(int(jvm), _BEGUN) == begun
        with suppress(OSError):  # Another process has just removed it.
            if not is_running and folder.lstat().st_mtime < time.time() - _KEPT_S:
                shutil.rmtree(folder)
