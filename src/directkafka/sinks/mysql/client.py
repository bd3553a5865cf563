"""PyMySQL, the client of these sinks; it comes with the extra ``mysql``.

Where it is missing, this package can still be imported: ``help(directkafka)`` and ``from directkafka import *`` do so.
:meth:`directkafka.sinks.mysql.session.MySQLAddress.parse` tells whoever makes a sink what to install.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

__all__ = ["connect", "pymysql"]

try:
    import pymysql
except ModuleNotFoundError:
    pymysql = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from pymysql import Connection


def connect(**arguments: Any) -> Connection[Any]:
    """Like ``pymysql.connect``; without TLS options it does not load the machine's CA certificates.

    Args:
        arguments: see there.

    Raises:
        pymysql.MySQLError: untranslated.
    """
    return _connection_class()(**arguments)


@cache
def _connection_class() -> type[Connection[Any]]:
    class QuickConnection(pymysql.connections.Connection):
        """Without TLS options, nothing is verified, and no CA certificates are loaded.

        Unless told otherwise PyMySQL uses TLS where the server has it, and verifies nothing. It reads all authorities
        of the machine all the same, with each connection: 25 to 50 ms of a core.
        """

        def _create_ssl_ctx(self, sslp: Mapping[str, Any]) -> ssl.SSLContext:
            if sslp:
                context: ssl.SSLContext = super()._create_ssl_ctx(sslp)  # type: ignore[misc]
                return context
            return _unverified_context()

    return QuickConnection


@cache
def _unverified_context() -> ssl.SSLContext:
    """TLS without verification: it protects against eavesdropping, not against a man in the middle."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
