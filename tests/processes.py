"""Other processes of a test's: found by what they run, and made to stand still."""

from __future__ import annotations

import time

import psutil

_STOP_S_MAX = 60.0


def child_that_runs(program: str) -> psutil.Process:
    """The one process below this one that has the program among its arguments."""
    (found,) = [child for child in psutil.Process().children(recursive=True) if program in _arguments(child)]
    return found


def suspend(process: psutil.Process) -> None:
    """Stop a process, and wait until it stands still: on a busy machine it may answer a few requests more before."""
    process.suspend()
    deadline = time.monotonic() + _STOP_S_MAX
    while process.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, f"process {process.pid} does not stop"
        time.sleep(0.001)


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []
