"""Who keeps a file locked, for messages."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

__all__ = ["FILE_PROCESS", "describe_holders"]

#: The module of the process that opens a driver's files: named as the driver's, for that is whom one can stop.
FILE_PROCESS = "directkafka.sinks.embedded.file.process"

_LOCKS = Path("/proc/locks")


def describe_holders(path: Path) -> str:
    """Processes that hold a POSIX lock on a file, for example ``process 4711 (python -m flights)``.

    Returns:
        Empty where the system does not tell: without ``/proc``, for a process of another container, or when the
        lock is gone by now.

    Source: proc_locks(5).
    """
    try:
        found = path.stat()
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return ""
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    holders = {fields[4] for line in lines if (fields := line.split())[5:6] == [place]}
    processes = sorted(int(one) for one in holders if one.isdigit() and int(one) > 0)
    return ", ".join(_describe(process) for process in processes)


def _describe(process: int) -> str:
    command = ""
    with suppress(OSError):
        # Its arguments may hold secrets; the program's name does not.
        command = Path(f"/proc/{process}/comm").read_text().strip()
    described = f"process {process}" + f" ({command})" * bool(command) + ", this one" * (process == os.getpid())
    with suppress(OSError, ValueError):
        if FILE_PROCESS.encode() in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0"):
            parent = int(re.findall(r"^PPid:\s*(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)[0])
            return f"{_describe(parent)}, whose files {described} opens" if parent > 1 else described
    return described
