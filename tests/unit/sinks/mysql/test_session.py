"""URLs, secrets and what errors mean."""

from __future__ import annotations

import socket

import pymysql
import pytest

from directkafka.errors import (
    OptionError,
    RowRejectedError,
    SchemaMismatchError,
    StoreAccessError,
    StoreRequestError,
    StoreUnavailableError,
)
from directkafka.sinks.mysql.session import MySQLAddress, quoted

DSN = "mysql://me:se%2Fcret@host:3307/air"


def test_a_url_is_parsed_and_keeps_its_password() -> None:
    address = MySQLAddress.parse(DSN + "?ssl_ca=/etc/ca.pem&ssl_verify_identity=true&connect_timeout=3")
    assert (address.label, address.database, address.user) == ("mysql host:3307/air", "air", "me")
    assert "se/cret" not in repr(address)
    assert address._arguments == {
        "host": "host", "port": 3307, "database": "air", "user": "me", "password": "se/cret",
        "ssl_ca": "/etc/ca.pem", "ssl_verify_identity": True, "connect_timeout": 3,
    }  # fmt: skip


def test_a_port_and_a_user_may_be_left_out() -> None:
    assert MySQLAddress.parse("mariadb://host/air").label == "mysql host:3306/air"


@pytest.mark.parametrize(
    "dsn",
    [
        "", "host/air", "postgresql://host/air", "mysql:///air", "mysql://host", "mysql://host/", "mysql://host/a/b",
        "mysql://host:port/air", "mysql://host/air?unknown=1", "mysql://host/air?ssl_verify_cert=perhaps",
        "mysql://host/air?ssl_ca=/etc/ca.pem", "mysql://host/air?ssl_ca=/etc/ca.pem&ssl_verify_cert=false",
        "mysql://host/air?ssl_verify_identity=true", "mysql://host/air?ssl_verify_cert=1",
        "mysql://host/air?connect_timeout=0", "mysql://host/air?connect_timeout=soon", "mysql://[::1/air",
    ],
)  # fmt: skip
def test_what_is_no_url_is_refused_without_being_quoted(dsn: str) -> None:
    with pytest.raises(OptionError, match="dsn") as caught:
        MySQLAddress.parse(dsn.replace("//", "//user:secret@") if "://" in dsn else dsn)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (pymysql.OperationalError(2013, "Lost connection"), StoreUnavailableError),
        (pymysql.InterfaceError(0, ""), StoreUnavailableError),
        (pymysql.OperationalError(1213, "Deadlock found"), StoreUnavailableError),
        (pymysql.OperationalError(1045, "Access denied"), StoreAccessError),
        (pymysql.OperationalError(1142, "INSERT command denied to user 'a'@'b' for table `d`.`t`"), StoreAccessError),
        (pymysql.IntegrityError(1062, "Duplicate entry"), RowRejectedError),
        (pymysql.DataError(1406, "Data too long"), RowRejectedError),
        (pymysql.ProgrammingError(1146, "Table doesn't exist"), SchemaMismatchError),
        (pymysql.ProgrammingError(1064, "You have an error in your SQL syntax"), StoreRequestError),
    ],
)
def test_a_number_says_what_an_error_means(error: pymysql.MySQLError, expected: type[Exception]) -> None:
    assert type(MySQLAddress.parse(DSN).translate(error, sink="t")) is expected


def test_no_error_repeats_the_password_and_a_missing_right_is_named() -> None:
    address = MySQLAddress.parse(DSN)
    assert "se/cret" not in str(address.translate(pymysql.OperationalError(2003, "no se/cret here")))
    denied = address.translate(
        pymysql.OperationalError(1142, "INSERT command denied to user 'me'@'h' for table `a`.`t`")
    )
    assert "GRANT INSERT ON a.t TO 'me'" in str(denied)


def test_names_are_quoted() -> None:
    assert quoted('a"b', "c d") == '"a""b"."c d"'


def test_a_server_that_takes_the_connection_and_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = MySQLAddress.parse(f"mysql://me@127.0.0.1:{server.getsockname()[1]}/air?connect_timeout=1")
        with pytest.raises(StoreUnavailableError, match="Lost connection"):
            address.connect("a test")
