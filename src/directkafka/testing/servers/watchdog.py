"""A process that outlives this one by a moment, and ends the servers this one started.

A broker or a database that a test starts must not run on when the test's process is killed with SIGKILL, and its
temporary folder must not stay. No exit handler runs then. So a small companion process holds the reading end of
a pipe: when its writing end closes, for whatever reason this process died, it ends the servers and removes the
folders it was told of.

Why not ``prctl(PR_SET_PDEATHSIG)``: it is tied to the thread that started the child (a server started from a
thread of a pool would die with that thread), exists on Linux only, and leaves folders behind. A child made with
a bare ``os.fork()`` holds a copy of the pipe, so the servers then live as long as that child.

This file is imported by the parent and run as the companion's program; it needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_GONE_TIMEOUT_S = 10.0
_POLL_S = 0.02


class Watchdog:
    """The parent's handle on its companion process. Not thread-safe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            text=True,
            # Ctrl-C reaches the whole foreground group; the companion must be there after it.
            start_new_session=True,
        )

    def watch(self, pid: int, how: signal.Signals = signal.SIGKILL) -> None:
        """End this process with this signal when the parent is gone."""
        self._send(f"watch {pid} {int(how)}")

    def forget(self, pid: int) -> None:
        """Leave this process alone from now on: to be called before it is reaped and its id is used again."""
        self._send(f"forget {pid}")

    def remove(self, folder: Path) -> None:
        """Remove this folder when the parent is gone."""
        self._send(f"remove {folder}")

    def close(self) -> None:
        """End the companion; what is still watched is ended and removed by it. May be called twice."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        # A companion that somebody killed is a lost safety net, not a reason to fail.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def _run(lines: Iterable[str]) -> None:
    """The companion's program: keep book until the pipe closes, then end and remove."""
    signals_by_pid: dict[int, int] = {}
    folders: list[str] = []
    for line in lines:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "watch":
            pid_text, signal_text = rest.split()
            signals_by_pid[int(pid_text)] = int(signal_text)
        elif verb == "forget":
            signals_by_pid.pop(int(rest), None)
        else:
            folders.append(rest)
    for pid, how in signals_by_pid.items():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
    _wait_until_gone(set(signals_by_pid))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_gone(pids: set[int]) -> None:
    # Bounded, because a dead process that nobody reaps keeps its id for ever.
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while time.monotonic() < deadline and any(_runs(pid) for pid in pids):
        time.sleep(_POLL_S)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    _run(sys.stdin)
