"""The MariaDB that a program starts for itself."""

from __future__ import annotations

from contextlib import closing

import pytest

from directkafka.sinks.mysql.session import MySQLAddress, execute
from directkafka.testing import EmbeddedMariaDB

pytestmark = pytest.mark.real


def test_a_server_that_starts_takes_no_other_one_s_temporary_tables_away(mysql_database: str) -> None:
    """A server begins with removing the temporary files that it finds."""
    with closing(MySQLAddress.parse(mysql_database).connect("test")) as session:
        execute(session, "CREATE TEMPORARY TABLE numbers (number INT) ENGINE = Aria")
        execute(session, "INSERT INTO numbers VALUES (1)")
        with EmbeddedMariaDB():
            pass
        assert execute(session, "SELECT number FROM numbers") == [(1,)]
        execute(session, "DROP TEMPORARY TABLE numbers")  # fails where the table's files are gone
