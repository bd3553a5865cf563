"""PyMySQL, the client of these sinks; it comes with the extra ``mysql``.

Where it is missing, this package can still be imported: ``help(directkafka)`` and ``from directkafka import *`` do so.
:meth:`directkafka.sinks.mysql.session.MySQLAddress.parse` tells whoever makes a sink what to install.
"""

from __future__ import annotations

__all__ = ["pymysql"]

try:
    import pymysql
except ModuleNotFoundError:
    pymysql = None  # type: ignore[assignment]
