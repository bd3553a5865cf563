"""What a DSN shows, and what a server's error means."""

from __future__ import annotations

import pickle

import psycopg
import pytest

from directkafka.errors import (
    DirectKafkaError,
    OptionError,
    RowRejectedError,
    SchemaMismatchError,
    StoreAccessError,
    StoreRequestError,
    StoreUnavailableError,
)
from directkafka.sinks.api import BatchAttempt
from directkafka.sinks.postgres.session import PostgresAddress, translate
from directkafka.sinks.staging import staging_name, stale_staging_pattern

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("state", "error_class"),
    [
        ("08006", StoreUnavailableError), ("57P01", StoreUnavailableError), ("40P01", StoreUnavailableError),
        ("40001", StoreUnavailableError), ("53300", StoreUnavailableError), ("53100", StoreUnavailableError),
        ("25006", StoreUnavailableError), ("55P03", StoreUnavailableError), ("25P03", StoreUnavailableError),
        ("28P01", StoreAccessError), ("42501", StoreAccessError), ("3D000", StoreAccessError),
        ("22001", RowRejectedError), ("22021", RowRejectedError), ("23505", RowRejectedError),
        ("23502", RowRejectedError), ("42P01", SchemaMismatchError), ("42703", SchemaMismatchError),
        ("42P10", SchemaMismatchError), ("42601", StoreRequestError), ("0A000", StoreRequestError),
    ],
)  # fmt: skip
def test_every_kind_of_error_has_its_meaning(state: str, error_class: type[DirectKafkaError]) -> None:
    error = translate(psycopg.errors.lookup(state)("said the server"), store="postgres here", sink="flights")
    assert type(error) is error_class
    assert "said the server" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("words", "error_class"),
    [
        ('FATAL:  password authentication failed for user "u"', StoreAccessError),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', StoreAccessError),
        ('FATAL:  database "x" does not exist', StoreAccessError),
        ("connection refused", StoreUnavailableError),
        ("server closed the connection unexpectedly", StoreUnavailableError),
    ],
)
def test_a_refused_connection_is_known_by_its_words(words: str, error_class: type[DirectKafkaError]) -> None:
    assert type(translate(psycopg.OperationalError(words), store="postgres here")) is error_class


@pytest.mark.parametrize(
    "dsn", [f"postgresql://u:{SECRET}@h:5433/d", f"host=h port=5433 dbname=d user=u password={SECRET}"]
)
def test_an_address_shows_host_port_and_database_but_no_password(dsn: str) -> None:
    address = PostgresAddress.parse(dsn)
    assert address.label == "postgres h:5433/d"
    assert SECRET not in repr(address)
    assert pickle.loads(pickle.dumps(address)) == address
    echoed = address.translate(psycopg.OperationalError(f"cannot use {SECRET}"))
    assert SECRET not in str(echoed)


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://u:p/{SECRET}@h/d", f"postgres://u:5/{SECRET}@h/d?connect_timeout=5", f"host=h port={SECRET}",
        f"postgresql://h:{SECRET}/d",
    ],
)  # fmt: skip
def test_an_address_whose_password_is_cut_in_two_is_refused_without_being_quoted(dsn: str) -> None:
    with pytest.raises(OptionError, match="write / as %2F") as caught:
        PostgresAddress.parse(dsn)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql:///d",
        "postgresql://u@a:5433,b/d?application_name=x@y",
        "port=5433,",
        "host=/tmp dbname=a@b",
        "password='a://b/c@d' port='1, 2'",
    ],
)
def test_ports_may_be_several_or_none(dsn: str) -> None:
    assert PostgresAddress.parse(dsn).label.startswith("postgres ")


def test_a_staging_name_fits_and_tells_its_generation() -> None:
    import re

    batch = BatchAttempt(pipeline="flights" * 20, generation=12345678, batch_id=12345678901, attempt="ab" * 16)
    name = staging_name(batch, "public.flights")
    assert len(name.encode()) <= 63
    match = re.search(stale_staging_pattern(batch.pipeline), name)
    assert match is not None
    assert match.group(1) == "12345678"
    assert re.search(stale_staging_pattern("weather"), name) is None
