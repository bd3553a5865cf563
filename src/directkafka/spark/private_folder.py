"""The folder of a driver's process that is its user's alone: for settings while the JVM starts, workers' sockets, rows.

It goes when the process ends. A process that is killed leaves it behind, perhaps with the settings' secrets in it; then
it goes when the next driver of the same user starts. Which folders have no process any more is told by a lock on a file
in each: the system drops it when the process ends, however that happens. (A process's id would mean nothing to a
driver in another container that has the same temporary folder.)
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

#: Short: a Unix socket's path may not be long.
_PREFIX: Final = "dk-"
_LOCK: Final = "directkafka.lock"


@cache
def private_folder() -> Path:
    """The folder; made at the first call, when those that killed processes have left are removed."""
    root = Path(tempfile.gettempdir())
    _remove_left(root)
    # Under another name until it is locked: nobody may take it for one that was left.
    made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=root))
    _keep_locked(made)
    folder = made.rename(root / made.name.removeprefix("."))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    """At the end of the process; a child that it has forked runs this as well, and leaves the folder alone."""
    if os.getpid() == owner:
        _remove_whole(folder)


def _remove_whole(folder: Path) -> None:
    """Remove a folder into which tasks may still write.

    A task makes a file while the folder is being removed; the folder is not empty then, and stays, without its lock, so
    that no driver would ever remove it. Hence it gets a name under which nobody makes anything.
    """
    with suppress(OSError):
        folder = folder.rename(folder.with_name(f"{folder.name}-"))
    shutil.rmtree(folder, ignore_errors=True)


def _keep_locked(folder: Path) -> None:
    """Lock the folder's file until this process ends, where the system can."""
    if sys.platform == "win32":
        return
    import fcntl

    path = folder / _LOCK
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a file system without locks: nobody will take it for one that was left
        os.close(descriptor)
        path.unlink()
        return
    owner = os.getpid()

    def close_in_child() -> None:
        # Not in a child's child, in which something else may have the number by now.
        if os.getppid() == owner:
            os.close(descriptor)

    # The lock goes when the last copy is closed, and a forked child may live for longer.
    os.register_at_fork(after_in_child=close_in_child)


def _remove_left(root: Path) -> None:
    if sys.platform == "win32":
        return
    for folder in root.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # no folder of ours, or somebody else has just removed it
            stat_result = folder.lstat()
            if stat.S_ISDIR(stat_result.st_mode) and stat_result.st_uid == os.getuid():
                _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder whose process has ended.

    Raises:
        OSError: that process lives, or the folder is none of these.
    """
    import fcntl

    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_whole(folder)
    finally:
        os.close(descriptor)
