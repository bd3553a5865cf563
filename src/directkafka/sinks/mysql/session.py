"""Connections to MySQL and MariaDB: how they are made, what their errors mean, and what of a URL may be shown.

Contract with the rest: no :class:`pymysql.MySQLError` leaves this package untranslated, and no text that leaves it has
the password in it.

Where the two servers differ. MySQL 8 has ``@@server_uuid``, MariaDB ``@@server_uid``. MySQL's JSON is a type, MariaDB's
an alias of LONGTEXT. Collations that compare texts byte by byte, blanks at their end included, have other names. All
else that is used here is the same in both: so ``ON DUPLICATE KEY UPDATE`` names a derived table's columns, neither
``VALUES()``, which MySQL is about to drop, nor a row alias, which MariaDB does not have.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from directkafka.errors import DirectKafkaError, OptionError
from directkafka.options.texts import check_installed, fault_of_host
from directkafka.sinks.databases import ErrorClass, error_for, load_blocks
from directkafka.sinks.mysql.client import connect, pymysql

SQL: Final = load_blocks("directkafka.sinks.mysql", "store.sql")

Connection: TypeAlias = "pymysql.Connection"

#: What a session that makes a table loses with when another one was faster.
ALREADY_THERE: Final = 1050
LOCK_WAIT_TIMEOUT: Final = 1205
DEADLOCK: Final = 1213
UNKNOWN_VARIABLE: Final = 1193
_CANNOT_CONNECT: Final = 2003

#: Longest wait for one lock, in seconds, of a row or of a table.
LOCK_TIMEOUT_S: Final = 30
#: Ends a session whose driver neither goes on nor hangs up in the middle of a transaction, in seconds.
IDLE_IN_TRANSACTION_S_MAX: Final = 60

_CONNECT_TIMEOUT_S: Final = 10
_PORT: Final = 3306

#: After so many seconds a peer that vanished without a FIN is noticed.
_KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
_USER_TIMEOUT_MS: Final = 25_000

#: What each session needs: errors instead of values that were made to fit, double quotes around names, zero as a value
#: of an AUTO_INCREMENT column, instants in UTC, and no lock that is waited for without end.
_SETTINGS: Final[Mapping[str, object]] = {
    "sql_mode": "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO,"
    "ANSI_QUOTES,PIPES_AS_CONCAT",
    "time_zone": "+00:00",
    "innodb_lock_wait_timeout": LOCK_TIMEOUT_S,
    "lock_wait_timeout": LOCK_TIMEOUT_S,
    "sql_safe_updates": 0,
}

#: Names in a URL's query, and the arguments of pymysql that they stand for.
_PARAMETERS: Final = {
    "ssl_ca": "ssl_ca",
    "ssl_cert": "ssl_cert",
    "ssl_key": "ssl_key",
    "ssl_verify_cert": "ssl_verify_cert",
    "ssl_verify_identity": "ssl_verify_identity",
    "unix_socket": "unix_socket",
    "connect_timeout": "connect_timeout",
}
_TRUTHS: Final = {"true": True, "false": False, "1": True, "0": False}

#: What an error's number means. See the manual's "Server Error Message Reference"; those from 1900 to 2000 and from
#: 4000 on differ between the two servers.
_ERROR_CLASSES: Final[Mapping[ErrorClass, frozenset[int]]] = {
    "unavailable": frozenset(
        {
            0, 1020, 1021, 1037, 1038, 1040, 1041, 1053, 1077, 1079, 1114, 1152, 1158, 1159, 1160, 1161, 1180, 1184,
            1203, 1205, 1213, 1226, 1290, 1317, 1792, 1836, 1927, 1969, 2002, 2003, 2006, 2013, 2014, 2055, 3024, 4031,
        }
    ),
    "access": frozenset({1044, 1045, 1049, 1130, 1142, 1143, 1227, 1251, 1370, 1410, 1698, 2059}),
    "rows": frozenset(
        {
            1048, 1062, 1216, 1217, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1451, 1452, 1525, 1586, 1644, 1690,
            1761, 3140, 3141, 3156, 3819, 4025,
        }
    ),
    "schema": frozenset({1054, 1072, 1136, 1146, 1347, 1471, 1906, 3105}),
}  # fmt: skip

#: Numbers after which nothing is known of the statement: the connection was lost under it.
_ANSWER_LOST: Final = frozenset({0, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 2014, 2055, 4031})


def quoted(*names: str) -> str:
    """A name, with the parts in front of it, as SQL under ``ANSI_QUOTES``."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def names_sql(names: Iterable[str]) -> str:
    """Names, quoted, with commas between them."""
    return ", ".join(map(quoted, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class MySQLAddress:
    """A URL, parsed once; its ``repr`` and :attr:`label` hold no secret.

    Attributes:
        label: host, port and database for messages.
        database: the one that the ledger is in.
        user: for remedies.
    """

    label: str
    database: str
    user: str
    _arguments: Mapping[str, Any] = field(repr=False)

    @classmethod
    def parse(cls, dsn: str) -> MySQLAddress:
        """Parse ``mysql://user:password@host:port/database``.

        Raises:
            OptionError: it is none, or names no database; PyMySQL is not installed. The message does not quote it.
        """
        check_installed("pymysql", extra="mysql")
        try:
            url = urlsplit(dsn)
            port, host = url.port or _PORT, url.hostname or ""
        except ValueError:
            raise _no_url("has a port that is no number") from None
        database = unquote(url.path.removeprefix("/"))
        if url.scheme not in ("mysql", "mariadb") or not host:
            raise _no_url("is no URL of MySQL")
        if fault := fault_of_host(host):
            raise _no_url(fault)
        if not database or "/" in database:
            raise _no_url("names no database")
        given = {"host": host, "port": port, "database": database, "connect_timeout": _CONNECT_TIMEOUT_S}
        given |= {"user": unquote(url.username)} if url.username else {}
        given |= {"password": unquote(url.password)} if url.password else {}
        given |= _parameters(url.query)
        where = given.get("unix_socket") or f"{host}:{port}"
        return cls(
            label=f"mysql {where}/{database}", database=database, user=unquote(url.username or ""), _arguments=given
        )

    def connect(self, purpose: str) -> Connection:
        """Open a session in autocommit mode.

        Args:
            purpose: what the server's list of connections shows as ``program_name``.

        Raises:
            StoreUnavailableError, StoreAccessError: naming host, port and database.
        """
        # PyMySQL's connect_timeout ends with the TCP connection, which a server that stands still takes as well.
        limit_s = self._arguments["connect_timeout"]
        with self.translated():
            connection: Connection = connect(
                **self._arguments,
                read_timeout=limit_s,
                charset="utf8mb4",
                autocommit=True,
                program_name=purpose,
                # Rows that an UPDATE has found, not only those that it has changed.
                client_flag=pymysql.constants.CLIENT.FOUND_ROWS,
            )
            try:
                _notice_lost_peers(connection)
                assignments = ", ".join(f"SESSION {name} = %s" for name in _SETTINGS)
                with answered_within(connection, limit_s):
                    execute(connection, f"SET {assignments}", tuple(_SETTINGS.values()))
                    execute(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            except BaseException:
                close_quietly(connection)
                raise
        return connection

    def connect_beside(self, session: Connection) -> Connection:
        """Open another session with the very server that this one is with; a host's name may stand for several.

        Raises:
            pymysql.MySQLError: untranslated.
        """
        limit_s = self._arguments["connect_timeout"]
        own, beside = socket_of(session), None
        if own is not None and own.family != socket.AF_UNIX:
            # The name stays in the arguments: it is what a certificate is compared with.
            beside = _connected(own.getpeername()[:2], limit_s)
        connection: Connection = connect(
            **self._arguments, autocommit=True, program_name="directkafka watch", read_timeout=limit_s,
            defer_connect=True,
        )  # fmt: skip
        connection.connect(beside)
        return connection

    @contextmanager
    def translated(self, *, sink: str = "") -> Iterator[None]:
        """Turn pymysql's errors into ours."""
        try:
            yield
        except pymysql.MySQLError as error:
            raise self.translate(error, sink=sink) from error

    def translate(self, error: pymysql.MySQLError, *, sink: str = "", note: str = "") -> DirectKafkaError:
        """What a pymysql error means here.

        Args:
            error: what pymysql raised.
            sink: the sink's name when the statement was about its table.
            note: what else is known of a failure that may pass, such as who was in the way.
        """
        number, words = _number(error), _words(error, str(self._arguments.get("password") or ""))
        error_class = _error_class(error)
        if note and error_class == "unavailable":
            words = f"{words}; {note}"
        return error_for(
            error_class, store=self.label, sink=sink, cause=words, remedy=_remedy(words, self.user), code=str(number)
        )


def execute(connection: Connection, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
    """Run a statement; its rows. A statement with values has no other percent signs."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def affected(connection: Connection, statement: str, values: Any = None) -> int:
    """Run a statement; how many rows it has found or written."""
    with connection.cursor() as cursor:
        return int(cursor.execute(statement, values))


@contextmanager
def answered_within(connection: Connection, limit_s: float) -> Iterator[None]:
    """Take the connection for lost when an answer is silent for so long; otherwise answers are waited for.

    Raises:
        pymysql.OperationalError: 2013, and the connection is closed.
    """
    connection._read_timeout = limit_s  # type: ignore[attr-defined]
    try:
        yield
    finally:
        connection._read_timeout = None  # type: ignore[attr-defined]


def close_quietly(connection: Connection) -> None:
    """Close a connection that may be lost."""
    with suppress(pymysql.MySQLError, OSError):
        connection.close()


def is_error(error: BaseException, *numbers: int) -> bool:
    """Whether an error of pymysql has one of these numbers."""
    return isinstance(error, pymysql.MySQLError) and _number(error) in numbers


def connection_is_lost(error: BaseException, connection: Connection) -> bool:
    """Whether a statement failed in a way that leaves open what the server made of it."""
    if not isinstance(error, pymysql.MySQLError):
        return False
    return not connection.open or _number(error) in _ANSWER_LOST


def socket_of(connection: Connection) -> socket.socket | None:
    """What the session goes over; None once it is closed."""
    own: socket.socket | None = connection._sock  # type: ignore[attr-defined]
    return own


def shut_down(connection: Connection) -> None:
    """End a connection from another thread: whoever reads from it sees its end."""
    own = socket_of(connection)
    if own is not None:
        with suppress(OSError):
            # Not by TLS's own way, which takes the encryption off before a thread that sends has heard of the end.
            socket.socket.shutdown(own, socket.SHUT_RDWR)


def number_of(connection: Connection) -> int:
    """What the server calls the session."""
    return int(connection.thread_id())  # type: ignore[no-untyped-call]


def _connected(address: tuple[str, int], limit_s: float) -> socket.socket:
    try:
        return socket.create_connection(address, limit_s)
    except OSError as error:
        reason = f"Can't connect to MySQL server on {address[0]!r} ({error})"
        raise pymysql.OperationalError(_CANNOT_CONNECT, reason) from error


def _notice_lost_peers(connection: Connection) -> None:
    own = socket_of(connection)
    if own is None or own.family == socket.AF_UNIX:
        return
    for option, value in _KEEPALIVE.items():
        own.setsockopt(socket.IPPROTO_TCP, option, value)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)


def _no_url(reason: str) -> OptionError:
    return OptionError(option="dsn", reason=f"{reason}: write mysql://user:password@host:port/database")


def _parameters(query: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise OptionError(
                option="dsn", reason=f"no parameter {name!r} is known; known are {', '.join(_PARAMETERS)}"
            )
        value: object = text
        if name.startswith("ssl_verify"):
            if text not in _TRUTHS:
                raise OptionError(option="dsn", reason=f"{name} is true or false")
            value = _TRUTHS[text]
        elif name == "connect_timeout":
            if not text.isdecimal() or not 0 < int(text) <= 31_536_000:
                raise OptionError(option="dsn", reason="connect_timeout is a number of seconds, 1 at least")
            value = int(text)
        parameters[_PARAMETERS[name]] = value
    _check_verification(parameters)
    return parameters


def _check_verification(parameters: Mapping[str, Any]) -> None:
    """With ``ssl_ca`` alone PyMySQL verifies nothing; without it, it takes what any public authority has signed."""
    verifies = [name for name in ("ssl_verify_cert", "ssl_verify_identity") if parameters.get(name)]
    if "ssl_ca" in parameters and not verifies:
        raise OptionError(
            option="dsn", reason="ssl_ca alone verifies nothing: add ssl_verify_identity=true, or ssl_verify_cert=true"
        )
    if verifies and "ssl_ca" not in parameters:
        raise OptionError(
            option="dsn", reason=f"{verifies[0]} needs ssl_ca, the file of the authority that signed for the server"
        )


def _number(error: pymysql.MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _words(error: pymysql.MySQLError, secret: str) -> str:
    parts: Sequence[object] = error.args[1:] if len(error.args) > 1 else error.args
    text = " ".join(" ".join(str(part).split()) for part in parts) or "the connection is closed"
    return text.replace(secret, "***") if secret else text


def _error_class(error: pymysql.MySQLError) -> ErrorClass:
    number = _number(error)
    error_class = next((kind for kind, numbers in _ERROR_CLASSES.items() if number in numbers), None)
    if error_class is not None:
        return error_class
    # The server's own fault, and what a trigger raises by SIGNAL, have states of their own.
    return "unavailable" if isinstance(error, pymysql.InterfaceError) else "request"


def _remedy(words: str, user: str) -> str:
    who = f"'{user}'" if user else "this user"
    if match := re.search(r"^(\w+(?:, \w+)*) command denied to user .* for table `?([^`]+)`?(?:\.`?([^`]+)`?)?", words):
        rights, *parts = match.groups()
        return f"Run GRANT {rights} ON {'.'.join(part for part in parts if part)} TO {who}."
    return "Check user, password, host and database, and what SHOW GRANTS says."
