"""Connections to Postgres: how they are made, what their errors mean, and what of a DSN may be shown.

Contract with the rest: no :class:`psycopg.Error` leaves ``sinks`` untranslated, and no text that
leaves contains the password. :func:`translate` is the one table that says what an error means.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import conninfo

from directkafka.errors import (
    DirectKafkaError,
    OptionError,
)
from directkafka.options.texts import fault_of_host
from directkafka.sinks.databases import ErrorClass, error_for, load_blocks

SQL: Final = load_blocks("directkafka.sinks.postgres", "store.sql")

#: What a session that makes an object loses with when another one was faster: CREATE ... IF NOT EXISTS looks
#: first and makes later.
ALREADY_THERE: Final = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateObject,
)

#: Ends a transaction whose driver neither goes on nor hangs up. A driver's own pauses inside a transaction
#: are those between two of its statements: milliseconds.
IDLE_IN_TRANSACTION_MS_MAX: Final = 60_000

#: Longest wait for one lock, in milliseconds, where the user has set none. The try then fails and may be made again:
#: what it has locked itself is given back, and other sessions' deadlocks with it end.
LOCK_TIMEOUT_MS: Final = 30_000

#: How long an answer may take that costs the server nothing: to a setting, to ROLLBACK.
ANSWER_S_MAX: Final = 10.0

#: libpq parameters that a DSN may override. A peer that vanished without a FIN is noticed in about 25 s.
_DEFAULTS: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}

#: What a SQLSTATE means; the longest prefix counts. See appendix A of the Postgres manual.
_ERROR_CLASSES: Final[dict[str, ErrorClass]] = {
    "08": "unavailable",  # connection exceptions
    "25P03": "unavailable",  # idle-in-transaction timeout: the server has hung up
    "25006": "unavailable",  # read-only: a standby that is not promoted yet
    "40": "unavailable",  # deadlock, serialization failure: rolled back, may be tried again
    "53": "unavailable",  # too many connections, disk full, out of memory
    "55P03": "unavailable",  # lock_timeout
    "57": "unavailable",  # shut down, statement_timeout, terminated by an administrator
    "58": "unavailable",  # input/output error
    "XX": "unavailable",  # internal errors; a retry shows whether they stay
    "28": "access",
    "42501": "access",
    "3D000": "access",  # no such database
    "22": "rows",
    "23": "rows",
    "42P01": "schema",
    "42703": "schema",
    "42704": "schema",
    "42804": "schema",
    "42P10": "schema",  # ON CONFLICT finds no unique index
    "3F000": "schema",
}

#: SQLSTATEs after which nothing is known about the statement, although the server did answer.
_ANSWER_LOST: Final = ("08", "25P03", "40003", "57P")

#: libpq gives no SQLSTATE for a connection that was refused; these are the server's words.
_REFUSED: Final = re.compile(
    r"password authentication failed|no password supplied|role .* does not exist|no pg_hba\.conf entry"
    r"|database .* does not exist|authentication failed|permission denied for database"
    r"|is not permitted to log in"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """A DSN, parsed once; its ``repr`` and :attr:`label` hold no secret.

    Attributes:
        label: host, port and database for messages, as the DSN has them.
    """

    _dsn: str
    label: str

    @classmethod
    def parse(cls, dsn: str) -> PostgresAddress:
        """Parse a libpq connection string or URI.

        Raises:
            OptionError: it is neither. The message does not quote it: libpq's own would, password and all.
        """
        try:
            parameters = conninfo.conninfo_to_dict(dsn)
        except psycopg.Error:
            raise OptionError(
                option="dsn",
                reason="is not a Postgres connection string: write postgresql://user@host:port/database "
                "or 'host=... port=... dbname=... user=...'",
            ) from None
        hosts = [name for name in str(parameters.get("host") or "").split(",") if not name.startswith(("/", "@"))]
        if fault := next(filter(None, map(fault_of_host, hosts)), "") or _fault_of_parts(dsn, parameters):
            raise OptionError(option="dsn", reason=fault)
        host = parameters.get("host") or parameters.get("hostaddr") or parameters.get("service") or "local socket"
        database = parameters.get("dbname") or parameters.get("user") or "default database"
        return cls(_dsn=dsn, label=f"postgres {host}:{parameters.get('port') or 5432}/{database}")

    def __repr__(self) -> str:
        return f"PostgresAddress({self.label!r})"

    @property
    def login_s_max(self) -> int:
        """How long a login may take, in seconds: the DSN's ``connect_timeout``, ours where it sets no bound."""
        settings = _DEFAULTS | conninfo.conninfo_to_dict(self._dsn)
        given = int(settings["connect_timeout"])
        return given if given > 0 else int(_DEFAULTS["connect_timeout"])

    def connect(self, application_name: str, *, durable: bool = False) -> psycopg.Connection[Any]:
        """Open a session in autocommit mode; transactions are begun and ended by statements of ours.

        Args:
            application_name: what ``pg_stat_activity`` shows.
            durable: force ``synchronous_commit`` on; otherwise it stays as the server has it.

        Raises:
            StoreUnavailableError, StoreAccessError: naming host, port, database and user.
        """
        settings = _DEFAULTS | conninfo.conninfo_to_dict(self._dsn)
        try:
            # Text goes over in binary COPY as UTF-8, whatever the database's own encoding is. No prepared
            # statements: they outlive ALTER TABLE, and transaction poolers lose them.
            connection: psycopg.Connection[Any] = psycopg.connect(
                **(settings | {"client_encoding": "UTF8"}), autocommit=True, prepare_threshold=None
            )
            parameters = {
                "application_name": application_name,
                "idle_timeout": str(IDLE_IN_TRANSACTION_MS_MAX),
                "lock_timeout": str(LOCK_TIMEOUT_MS),
                "durable": durable,
            }
            try:
                with answered_within(connection, ANSWER_S_MAX):
                    connection.execute(SQL["configure_session"], parameters)
            except BaseException:
                connection.close()
                raise
        except psycopg.Error as error:
            raise self.translate(error) from None
        return connection

    def connect_beside(self, session: psycopg.Connection[Any], *, timeout_s: int) -> psycopg.Connection[Any]:
        """Open another session with the very server that this one is with; a DSN may name several.

        Raises:
            psycopg.Error: untranslated.
        """
        info = session.info
        server = {"host": info.host, "port": info.port} | ({"hostaddr": info.hostaddr} if info.hostaddr else {})
        settings = _DEFAULTS | conninfo.conninfo_to_dict(self._dsn) | server
        settings |= {"target_session_attrs": "any", "connect_timeout": timeout_s, "client_encoding": "UTF8"}
        settings.setdefault("application_name", "directkafka watch")
        return psycopg.connect(**settings, autocommit=True, prepare_threshold=None)

    def translate(self, error: psycopg.Error, *, sink: str = "", note: str = "") -> DirectKafkaError:
        """What a psycopg error means here; see :func:`translate`."""
        parameters = conninfo.conninfo_to_dict(self._dsn)
        return translate(
            error, store=self.label, sink=sink, user=str(parameters.get("user") or ""),
            secret=str(parameters.get("password") or ""), note=note,
        )  # fmt: skip


@contextmanager
def answered_within(session: psycopg.Connection[Any], limit_s: float) -> Iterator[None]:
    """Shut a session down that gets no answer in time: psycopg knows no limit for a statement's answer.

    Raises:
        psycopg.errors.ConnectionTimeout: it was.
    """
    fired = threading.Event()

    def fire() -> None:
        fired.set()
        shut_down(session)

    timer = threading.Timer(limit_s, fire)
    timer.daemon = True
    timer.start()
    try:
        yield
    except psycopg.OperationalError:
        if fired.is_set():
            raise psycopg.errors.ConnectionTimeout(
                f"the server took the connection and has said nothing for {limit_s:g} s"
            ) from None
        raise
    finally:
        timer.cancel()


def shut_down(session: psycopg.Connection[Any]) -> None:
    """End a connection from another thread: whoever reads from it sees its end."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(session.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)


def connection_is_lost(error: BaseException, connection: psycopg.Connection[Any]) -> bool:
    """Whether a statement failed in a way that leaves open what the server made of it."""
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    return connection.closed or (state is not None and state.startswith(_ANSWER_LOST))


def translate(
    error: psycopg.Error, *, store: str, sink: str = "", user: str = "", secret: str = "", note: str = ""
) -> DirectKafkaError:
    """The project's error for one of psycopg's: one table, from SQLSTATE to a class of errors.

    Args:
        error: what psycopg raised.
        store: the store's label.
        sink: the sink's name when the statement was about its table.
        user: the user of the DSN, for the remedy.
        secret: the password; taken out wherever the server's text repeats it.
        note: what else is known of a failure that may pass, such as who was in the way.
    """
    cause = _words(error, secret)
    if note and _error_class(error) == "unavailable":
        cause = f"{cause}; {note}"
    return error_for(
        _error_class(error),
        store=store,
        sink=sink,
        cause=cause,
        remedy=_remedy(cause, user),
        code=error.sqlstate or "none",
    )


def _error_class(error: psycopg.Error) -> ErrorClass:
    state = error.sqlstate
    if state is None:
        if _REFUSED.search(str(error)):
            return "access"
        return "unavailable" if isinstance(error, psycopg.OperationalError) else "request"
    for length in (5, 2):
        if error_class := _ERROR_CLASSES.get(state[:length]):
            return error_class
    return "request"


def _words(error: psycopg.Error, secret: str) -> str:
    parts = [error.diag.message_primary or str(error), error.diag.message_detail, error.diag.context]
    text = "; ".join(" ".join(part.split()) for part in parts if part)
    return text.replace(secret, "***") if secret else text


def _remedy(cause: str, user: str) -> str:
    who = f'"{user}"' if user else "this user"
    if match := re.search(r"permission denied for (schema|table|database) (\S+)", cause):
        kind, name = match.groups()
        rights = {"schema": "USAGE, CREATE ON SCHEMA", "database": "CONNECT ON DATABASE"}
        grant = f"GRANT {rights.get(kind, 'SELECT, INSERT, UPDATE ON')} {name} TO {who}"
        return f"Run {grant}; or make the tables beforehand where one was to be made."
    if "temporary tables" in cause:
        return f"Run GRANT TEMPORARY ON DATABASE ... TO {who}."
    if "terminate process" in cause or "pg_signal_backend" in cause:
        return f"Run GRANT pg_signal_backend TO {who}, or end the older driver's session yourself."
    return "Check user, password, database and pg_hba.conf."


def _fault_of_parts(dsn: str, parameters: Mapping[str, Any]) -> str:
    """What is wrong with an address whose password was cut in two: a part of it would be shown as port or database."""
    ports = (port.strip() for port in str(parameters.get("port") or "").split(","))
    scheme, mark, rest = dsn.partition("://")
    path = rest.partition("?")[0].partition("/")[2] if mark and scheme in ("postgres", "postgresql") else ""
    if "@" in path or not all(port.isascii() and port.isdecimal() for port in ports if port):
        return (
            "has a port that is no number, or an @ behind the host: write / as %2F and @ as %40, in a password or a "
            "database's name"
        )
    return ""
