"""The watch of sessions in Postgres: who is in the way of one. See :mod:`directkafka.sinks.session_watch`.

A COMMIT that waits for a synchronous standby has committed already: a cancel would only end the wait for the copy. So
that one is not cancelled but left to the server; and what a deferred constraint has to wait for, it waits for before
COMMIT (``SET CONSTRAINTS ALL IMMEDIATE``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from typing import Any, ClassVar, Final

import psycopg
from psycopg.rows import dict_row

from directkafka.sinks.postgres.session import SQL, PostgresAddress, answered_within, shut_down
from directkafka.sinks.session_watch import ServerSilentError, SessionWatch, Wait, statement_kind

#: What ends a wait for a lock: a limit, or somebody's cancel.
WAIT_ENDED: Final = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)

_CANCEL_S_MAX: Final = 2.0
_STANDBY: Final = "a standby that confirms the commit (SyncRep; see pg_stat_replication)"

_Session = psycopg.Connection[Any]


class PostgresWatch(SessionWatch[_Session]):
    """See :class:`~directkafka.sinks.session_watch.SessionWatch`.

    Args:
        address: the database.
        session, doing, stop: as there.
    """

    log: ClassVar = logging.getLogger("directkafka.sinks.postgres.store")

    def __init__(
        self,
        address: PostgresAddress,
        session: Callable[[], _Session | None],
        *,
        doing: str,
        stop: Event | None = None,
    ) -> None:
        super().__init__(session, doing=doing, stop=stop)
        self._address = address

    def _has_ended_a_wait(self, error: BaseException) -> bool:
        return isinstance(error, WAIT_ENDED)

    def _waits_for(self, session: _Session) -> Wait | None:
        limit_s = self._address.login_s_max
        try:
            beside = self._address.connect_beside(session, timeout_s=limit_s)
            with beside, answered_within(beside, limit_s), beside.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(SQL["waiting_for"], {"pid": session.info.backend_pid}).fetchall()
        except psycopg.errors.ConnectionTimeout as error:
            raise ServerSilentError from error
        blockers = tuple(blocker_in_words(row) for row in rows if row["pid"] is not None)
        if blockers:
            return Wait(lock=rows[0]["lock"] or "", blockers=blockers)
        return Wait(other=_STANDBY) if rows and rows[0]["wait_event"] == "SyncRep" else None

    def _cancel(self, session: _Session) -> None:
        session.cancel_safe(timeout=_CANCEL_S_MAX)

    def _is_closed(self, session: _Session) -> bool:
        return bool(session.closed)

    def _shut_down(self, session: _Session) -> None:
        shut_down(session)


def blocker_in_words(row: dict[str, Any]) -> str:
    """A session in the way of another one, as far as this user may see it.

    Args:
        row: of ``waiting_for``; what may not be seen is None. Process 0 is a prepared transaction, which has none.
    """
    if row["pid"] == 0:
        return "a prepared transaction (see pg_prepared_xacts)"
    since = f" for {row['state_s']} s" if row["state_s"] is not None else ""
    statement = statement_kind(row["query"] or "")
    told = (
        f"user {row['usename']!r}" if row["usename"] else "",
        f"application {row['application_name']!r}" if row["application_name"] else "",
        f"{row['state']}{since}" if row["state"] else "",
        f"last statement {statement}" if statement else "",
    )
    return f"process {row['pid']} ({', '.join(filter(None, told)) or 'gone now'})"
