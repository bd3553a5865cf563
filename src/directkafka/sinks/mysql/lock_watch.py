"""The watch of sessions in MySQL and MariaDB: who is in the way of one. See :mod:`directkafka.sinks.session_watch`.

Where the two servers differ. Waits for rows are in MySQL's ``performance_schema``, and in MariaDB's
``information_schema``. Who has a table's metadata lock (ALTER TABLE, LOCK TABLES, an open transaction) MariaDB does not
tell without a plugin: there all are named that may have it. Sessions of other users are seen with the right PROCESS
alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any, ClassVar, Final

from directkafka.sinks.mysql.client import pymysql
from directkafka.sinks.mysql.session import (
    LOCK_WAIT_TIMEOUT,
    SQL,
    Connection,
    MySQLAddress,
    close_quietly,
    execute,
    is_error,
    number_of,
    shut_down,
)
from directkafka.sinks.session_watch import ServerSilentError, SessionWatch, Wait, statement_kind

#: A statement that was ended by KILL QUERY.
INTERRUPTED: Final = 1317


_TIMED_OUT: Final = "timed out"


class MySQLWatch(SessionWatch[Connection]):
    """See :class:`~directkafka.sinks.session_watch.SessionWatch`.

    Args:
        address: the database.
        session, doing, stop: as there.
    """

    log: ClassVar = logging.getLogger("directkafka.sinks.mysql.store")

    def __init__(
        self, address: MySQLAddress, session: Callable[[], Connection | None], *, doing: str, stop: Event | None = None
    ) -> None:
        super().__init__(session, doing=doing, stop=stop)
        self._address = address

    def _has_ended_a_wait(self, error: BaseException) -> bool:
        return is_error(error, LOCK_WAIT_TIMEOUT, INTERRUPTED)

    def _waits_for(self, session: Connection) -> Wait | None:
        with self._beside(session) as beside:
            number = {"session": number_of(session)}
            rows = _either(beside, "row_blockers_mysql", "row_blockers_mariadb", number)
            if rows:
                return Wait(lock="a row that another transaction has changed", blockers=_in_words(rows))
            state = execute(beside, SQL["session_state"], number)
            if not state or "lock" not in str(state[0][0]).lower():
                return None
            table_blockers = _either(beside, "table_blockers_mysql", "table_blockers_mariadb", number)
            lock = str(state[0][0]).removeprefix("Waiting for ")
            return Wait(
                lock=f"a {lock}", blockers=_in_words(table_blockers) or ("a session that this user may not see",)
            )

    def _cancel(self, session: Connection) -> None:
        with self._beside(session) as beside:
            execute(beside, f"KILL QUERY {number_of(session)}")

    def _is_closed(self, session: Connection) -> bool:
        return not session.open

    def _shut_down(self, session: Connection) -> None:
        shut_down(session)

    @contextmanager
    def _beside(self, session: Connection) -> Iterator[Connection]:
        try:
            beside = self._address.connect_beside(session)
            try:
                yield beside
            finally:
                close_quietly(beside)
        except pymysql.MySQLError as error:
            if _TIMED_OUT in str(error):
                raise ServerSilentError from error
            raise


@contextmanager
def watched(address: MySQLAddress, purpose: str, *, sink: str = "", stop: Event | None = None) -> Iterator[Connection]:
    """A session for what is done inside: watched, with pymysql's errors translated.

    Args:
        address: the database.
        purpose: what it is for, for the server's list of connections and for messages.
        sink: the sink whose table it is about.
        stop: once it is set, a session that waits is not waited for.
    """
    connection = address.connect(purpose)
    try:
        doing = f"{purpose} of table {sink}" if sink else purpose
        with MySQLWatch(address, lambda: connection, doing=doing, stop=stop) as watch:
            try:
                yield connection
            except pymysql.MySQLError as error:
                raise address.translate(error, sink=sink, note=watch.note_on(error)) from error
    finally:
        close_quietly(connection)


def _either(connection: Connection, mysql: str, mariadb: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What MySQL's tables tell; what MariaDB's do where the first ones are not there, or nothing is in them."""
    for block in (mysql, mariadb):
        with suppress(pymysql.ProgrammingError, pymysql.OperationalError):
            if rows := execute(connection, SQL[block], values):
                return rows
    return []


def _in_words(rows: list[tuple[Any, ...]]) -> tuple[str, ...]:
    return tuple(blocker_in_words(*row) for row in rows)


def blocker_in_words(number: int, user: str | None, command: str | None, seconds: int | None, query: str | None) -> str:
    """A session in the way of another one, as far as this user may see it.

    Args:
        number: of its connection.
        user, command, seconds: as in the server's list of connections: whose it is, what it does, since when.
        query: its statement.
    """
    since = f" for {seconds} s" if seconds is not None else ""
    state = {"Sleep": "idle", "Query": "active"}.get(command or "", command or "")
    statement = statement_kind(query or "")
    told = (
        f"user {user!r}" if user else "",
        f"{state}{since}" if state else "",
        f"statement {statement}" if statement else "",
    )
    return f"connection {number} ({', '.join(filter(None, told)) or 'gone now'})"
