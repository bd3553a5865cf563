"""One server as a child process: its log, its end, and waiting until it is ready."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.servers.watchdog import Watchdog

_POLL_S = 0.02
_LOG_LINES = 20


class ServerProcess:
    """A running server.

    Args:
        command: program and arguments.
        log_file: where its standard output and error go; appended to.
        watchdog: ends it when this process is gone; None for a server that is to live on.
        last_signal: what the watchdog ends it with.
        popen_options: further arguments of ``subprocess.Popen``: ``cwd``, ``user``, ``env``.

    Attributes:
        pid (int): its process id.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_file: Path,
        watchdog: Watchdog | None,
        last_signal: signal.Signals = signal.SIGKILL,
        popen_options: Mapping[str, object] | None = None,
    ) -> None:
        self._log_file = log_file
        self._watchdog = watchdog
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Out of the terminal's group: Ctrl-C is for the parent, which then stops the server in order.
                start_new_session=True,
                **(popen_options or {}),
            )
        self.pid: int = self._process.pid
        if watchdog is not None:
            watchdog.watch(self.pid, last_signal)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        if self._process.poll() is None:
            return True
        # Its process id may be another process's from now on.
        self._forget()
        return False

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone; nothing when it is gone already."""
        self._process.kill()
        self._reap(None)

    def request_stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end; does not wait."""
        self._process.send_signal(how)

    def wait_or_kill(self, timeout_s: float) -> None:
        """Wait for its end; SIGKILL when that takes longer than this."""
        try:
            self._reap(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def failure(self, what: str) -> EnvironmentFaultError:
        """An error about this server, with the last lines of its log."""
        code = self._process.poll()
        state = "still runs" if code is None else f"ended with exit code {code}"
        return EnvironmentFaultError(
            what=f"{what}: process {self.pid} {state}. The end of {self._log_file}:\n{self.last_log_lines()}\n",
            remedy="Correct what the log names; with little memory or disk, free some and try again.",
        )

    def last_log_lines(self) -> str:
        """The end of its log."""
        return "\n".join(self._log_file.read_text(errors="replace").splitlines()[-_LOG_LINES:])

    def _reap(self, timeout_s: float | None) -> None:
        self._process.wait(timeout_s)
        self._forget()

    def _forget(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.forget(self.pid)


def wait_until(condition: Callable[[], bool], *, servers: Sequence[ServerProcess], timeout_s: float, what: str) -> None:
    """Ask again and again until the condition holds.

    Args:
        condition: is asked every 20 ms.
        servers: must all keep running meanwhile; the first one's log goes into the error.
        timeout_s: when to give up.
        what: what is waited for, as the beginning of the error's message.

    Raises:
        EnvironmentFaultError: a server ended, or time is over; carries the last lines of the server's log.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        for server in servers:
            if not server.is_running:
                raise server.failure(what)
        if time.monotonic() > deadline:
            raise _too_late(f"{what} within {timeout_s:.0f} s", servers)
        time.sleep(_POLL_S)


def _too_late(what: str, servers: Sequence[ServerProcess]) -> EnvironmentFaultError:
    if servers:
        return servers[0].failure(what)
    return EnvironmentFaultError(what=what, remedy="Look at the processes and the load of this machine.")
