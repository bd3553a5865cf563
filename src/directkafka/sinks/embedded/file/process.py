"""The process that opens database files for a driver; nothing else runs in it.

Why the driver does not open them itself. The locks by which SQLite and DuckDB keep other processes out of a file are
POSIX locks. They belong to the process, not to who took them: when any code of the process opens the file and closes
it again, a copy by ``shutil``, a look with another library's SQLite, the system drops every lock that the process has
on the file. The transaction that is open goes on and knows nothing of it; another process writes in the middle of it.
Only a process that runs nobody else's code can be sure that its lock holds. fcntl(2), "Record locking".

One such process serves all files of a driver's process, each connection by a thread of its own over a socket that the
driver's process hands over. A request is the name of a method of
:class:`~directkafka.sinks.embedded.file.connection.FileConnection` with its arguments, the answer its result or its
error.

Who may end what:

- The driver's process has ended, however: this one ends at once, as if it had been killed too. The database undoes or
  finishes what was open when the file is opened next, and the ledger tells which.
- The driver's process says nothing while it has a file open (SIGSTOP, a machine that stands still): after a bound the
  file is closed, and what was begun is undone, so that a newer driver need not wait for it. The older one is told when
  it goes on.
- Signals for a whole group of processes (Ctrl-C, a service manager's SIGTERM) are for the driver, which then ends its
  batch; so they are ignored here.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from directkafka.errors import DirectKafkaError
from directkafka.sinks.embedded.file.channel import Channel
from directkafka.sinks.embedded.file.connection import DatabaseSaidError, FileConnection

#: The module of each kind of database, imported when the first file of its kind is opened.
_MODULES: Final = {
    "sqlite": "directkafka.sinks.embedded.file.sqlite_connection",
    "duckdb": "directkafka.sinks.embedded.file.duckdb_connection",
}

_LOOK_S: Final = 0.2

#: Nothing is open before the first request is there.
_OPENING_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The first request on a connection.

    Attributes:
        kind: of the database.
        path: of the file.
        lock_timeout_s: how long to wait for another process that keeps it.
        durable: commits survive a crash of the machine.
        silence_s_max: how long the driver may leave the file open without asking for anything.
    """

    kind: str
    path: str
    lock_timeout_s: float
    durable: bool
    silence_s_max: float


def main() -> None:
    """Serve the process that started this one, until it ends. Arguments: a socket's descriptor, the process's id."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    descriptor, driver = map(int, sys.argv[1:])
    threading.Thread(target=_end_with, args=(driver,), daemon=True).start()
    with socket.socket(fileno=descriptor) as control:
        while True:
            message, descriptors, *_ = socket.recv_fds(control, 1, 1)
            if not message:
                os._exit(0)
            threading.Thread(target=_serve, args=(socket.socket(fileno=descriptors[0]),), daemon=True).start()


def _end_with(driver: int) -> None:
    """End as soon as the driver's process has ended, in the middle of whatever is done for it.

    The end of its socket would not tell in time: it is not looked at while a statement runs, and a child that the
    driver's process has forked would keep it open.
    """
    with suppress(AttributeError, OSError):  # not Linux, or an old one
        ended = os.pidfd_open(driver)
        if os.getppid() == driver:
            select.select([ended], [], [])
    while os.getppid() == driver:
        time.sleep(_LOOK_S)
    os._exit(1)


def _serve(end: socket.socket) -> None:
    """One connection, from its opening to its end."""
    # Ended by the driver, or given up since it stands still within a request.
    with Channel(end, timeout_s=_OPENING_S_MAX) as first, suppress(EOFError, OSError):
        opening: Opening = first.receive()
        channel = Channel(end, timeout_s=opening.silence_s_max)
        try:
            file = _opened(opening)
        except Exception as error:  # noqa: BLE001 - it is told
            channel.send((False, _told(error, opening.kind)))
            return
        try:
            channel.send((True, None))
            _answer_all(channel, file, opening)
        finally:
            with suppress(Exception):
                file.close()


def _opened(opening: Opening) -> FileConnection:
    database = importlib.import_module(_MODULES[opening.kind])
    file: FileConnection = database.opened(opening.path, lock_timeout_s=opening.lock_timeout_s, durable=opening.durable)
    return file


def _answer_all(channel: Channel, file: FileConnection, opening: Opening) -> None:
    """Request by request, until the driver closes the file or says nothing for too long."""
    name = ""
    while name != "close":
        if not channel.wait(opening.silence_s_max):
            with suppress(Exception):  # it is let go; what counts for the driver is that its transaction is undone
                file.close()
            _tell_silence(channel, opening)
            return
        try:
            name, arguments, keywords = channel.receive()
        except (EOFError, OSError):
            return
        except Exception as error:  # noqa: BLE001 - it is told: what was sent cannot be made again here
            channel.send((False, _told(error, opening.kind)))
            continue
        try:
            answer = (True, getattr(file, name)(*arguments, **keywords))
        except Exception as error:  # noqa: BLE001 - it is told
            answer = (False, _told(error, opening.kind))
        _send(channel, answer, opening)


def _send(channel: Channel, answer: tuple[bool, Any], opening: Opening) -> None:
    try:
        channel.send(answer)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - it is told: the answer cannot be pickled, and nothing of it was sent
        channel.send((False, _told(error, opening.kind)))


def _tell_silence(channel: Channel, opening: Opening) -> None:
    """Wait for the driver's next request, and say what has become of its transaction."""
    channel.wait(None)
    name, *_ = channel.receive()
    message = (
        f"this process asked for nothing for {opening.silence_s_max:g} s while it kept the file; the file was closed "
        "then, and what was begun is undone"
    )
    channel.send((True, None) if name == "close" else (False, DatabaseSaidError("unavailable", message)))


def _told(error: Exception, kind: str) -> Exception:
    """An error that can be pickled, and be read where the database's library is not imported."""
    if isinstance(error, DirectKafkaError):
        return error
    # Without its module there is no error of the database's.
    database = sys.modules.get(_MODULES[kind])
    known: DatabaseSaidError | None = database.as_database_error(error) if database is not None else None
    return known or DatabaseSaidError("request", " ".join(str(error).split()), type(error).__name__)


if __name__ == "__main__":
    main()
