"""The driver's side of :mod:`directkafka.sinks.embedded.file.process`; and who keeps a file locked."""

from __future__ import annotations

import atexit
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from directkafka.sinks.embedded.file.channel import Channel
from directkafka.sinks.embedded.file.connection import DatabaseSaidError, Row, RowSource
from directkafka.sinks.embedded.file.process import Opening

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
        stat_result = path.stat()
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return ""
    file_id = f"{os.major(stat_result.st_dev):02x}:{os.minor(stat_result.st_dev):02x}:{stat_result.st_ino}"
    holders = {fields[4] for line in lines if (fields := line.split())[5:6] == [file_id]}
    processes = sorted(int(holder) for holder in holders if holder.isdigit() and int(holder) > 0)
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


#: How often a statement that takes long is looked after.
_LOOK_S: Final = 5.0
#: How long a process that has let its socket go may take to end.
_END_S_MAX: Final = 2.0


class _FileProcess:
    """The process that opens files for this one, from its first use to the end of this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def connect(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        """A new connection to it."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            try:
                process = self._hand_over(theirs)
            except BaseException:
                ours.close()
                raise
        return ours, process

    def _hand_over(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        if self._process is not None and self._control is not None and self._process.poll() is None:
            with suppress(OSError):  # it ended this moment
                socket.send_fds(self._control, [b"."], [theirs.fileno()])
                return self._process
        self.end()
        process, control = _start()
        self._process, self._control = process, control
        socket.send_fds(control, [b"."], [theirs.fileno()])
        return process

    def end(self) -> None:
        """Kill it. Nothing waits for it: what it had open is of drivers that are gone."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None

    def forget(self) -> None:
        """In a forked child: the process belongs to the parent. A lock may be held by a thread that is not here."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            # Its __del__ would warn that it is running.
            self._process.returncode = 0
        self.__init__()  # type: ignore[misc]


_process = _FileProcess()
atexit.register(_process.end)
os.register_at_fork(after_in_child=_process.forget)


def _start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A fresh interpreter: a fork would have this process's threads' locks, and the JVM's.

    In a group of its own, so that a terminal's Ctrl-C and Ctrl-Z do not reach it. It finds modules where this process
    finds them, and not in the folder that it happens to be started in.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-P", "-m", FILE_PROCESS, str(theirs.fileno()), str(os.getpid())]
        # A program may put a Path there, or anything; Python's own import passes over what is no text.
        folders = os.pathsep.join(entry for entry in sys.path if isinstance(entry, str) and entry)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
                env={**os.environ, "PYTHONPATH": folders},
            )
        except BaseException:
            ours.close()
            raise
    return process, ours


def connect(opening: Opening) -> RemoteConnection:
    """Open a file in the process for files.

    Raises:
        DatabaseSaidError: the database refuses, or the process cannot be started.
    """
    try:
        end, process = _process.connect()
    except OSError as error:
        message = f"the process that opens database files cannot be started: {error}"
        raise DatabaseSaidError("unavailable", message) from error
    connection = RemoteConnection(end, process, silence_s_max=opening.silence_s_max)
    connection.open(opening)
    return connection


class RemoteConnection:
    """An open file; see :class:`~directkafka.sinks.embedded.file.connection.FileConnection`."""

    def __init__(self, end: socket.socket, process: subprocess.Popen[bytes], *, silence_s_max: float) -> None:
        self._silence_s_max = silence_s_max
        self._channel = Channel(end, timeout_s=_LOOK_S, on_timeout=self._look_after)
        self._process = process

    def open(self, opening: Opening) -> None:
        """Once, before anything else."""
        try:
            self._exchange(opening)
        except BaseException:
            self._channel.close()
            raise

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """What the database returns."""
        rows: list[Row] = self._ask("rows", statement, tuple(parameters))
        return rows

    def insert(self, statement: str) -> int:
        """The number it says."""
        return int(self._ask("insert", statement))

    def fill(self, table: Sequence[str], source: RowSource, *, is_temporary: bool = False) -> int:
        """The source is read over there, so a driver that stops does not keep a statement waiting for rows."""
        return int(self._ask("fill", tuple(table), source, is_temporary=is_temporary))

    def begin(self) -> None:
        """A transaction."""
        self._ask("begin")

    def commit(self) -> None:
        """Its end."""
        self._ask("commit")

    def rollback(self) -> None:
        """Undo it."""
        self._ask("rollback")

    def close(self) -> None:
        """Returns when the file is closed, as it also is when nobody is there to answer."""
        with self._channel, suppress(DatabaseSaidError):
            self._ask("close")

    def _ask(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        return self._exchange((name, arguments, keywords))

    def _exchange(self, request: Any) -> Any:
        if self._channel.is_closed:
            raise DatabaseSaidError("unavailable", "the file is closed since an answer did not come")
        is_answered = False
        try:
            self._channel.send(request)
            is_done, answer = self._channel.receive()
            is_answered = True
        except (EOFError, OSError) as error:
            raise DatabaseSaidError("unavailable", self._why_no_answer()) from error
        finally:
            # Interrupted in between, the next request would be taken for answered by this one's answer.
            if not is_answered:
                self._channel.close()
        if not is_done:
            raise answer
        return answer

    def _why_no_answer(self) -> str:
        """Whether the process has ended, or has only hung up."""
        process = f"process {self._process.pid}, which had the file open for this one,"
        try:
            # One that is killed closes its sockets a moment before it has ended.
            self._process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            return (
                f"{process} has closed the connection, as it does when a request does not go on for "
                f"{self._silence_s_max:g} s; what was begun is undone"
            )
        return f"{process} has ended"

    def _look_after(self) -> None:
        """Nobody but us has a reason to stop that process; one that somebody stopped would never answer.

        Raises:
            EOFError: it has ended. Its socket does not tell while a child, forked by another thread in the moment in
                which the socket was handed over, has a copy of that end.
        """
        if self._process.poll() is not None:
            raise EOFError
        with suppress(ChildProcessError, OSError, AttributeError):
            options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, self._process.pid, options) is not None:
                self._process.kill()
