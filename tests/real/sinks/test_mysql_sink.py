"""The MySQL sink against a real MariaDB: values as they came, and what is refused before a row is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.contract.mysql_harness import MySQLHarness
from tests.hostile import HOSTILE
from tests.real.sinks.batches import problems_of, run

from directkafka.errors import RowRejectedError, SchemaMismatchError
from directkafka.sinks.databases import with_json
from directkafka.sinks.mysql.session import quoted
from directkafka.sinks.mysql.sink import MySQLSink
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real


@pytest.fixture
def harness(mysql_database: str) -> MySQLHarness:
    return MySQLHarness(mysql_database)


@pytest.fixture
def job(harness: MySQLHarness) -> Iterator[Job]:
    job = Job(harness.open_store()).start()
    yield job
    job.store.close()


AT = datetime(2013, 1, 1, 5, 0, 0, 123456)

#: A column of each type, with bounds and a null.
COLUMNS: dict[str, pa.Array] = {
    "tiny": pa.array([-128, 127, None], pa.int8()),
    "small": pa.array([-(2**15), 2**15 - 1, None], pa.int16()),
    "whole": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
    "big": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
    "price": pa.array([Decimal("-9999999.99"), Decimal("0.01"), None], pa.decimal128(9, 2)),
    "tiny_part": pa.array([Decimal("0.000000123456789012345678901234"), Decimal(0), None], pa.decimal128(38, 30)),
    "large": pa.array([Decimal(10**38 - 1), Decimal(0), None], pa.decimal128(38, 0)),
    "single": pa.array([0.5, -3.0e38, None], pa.float32()),
    "real": pa.array([0.1, 1.7976931348623157e308, None], pa.float64()),
    "flag": pa.array([True, False, None]),
    "text": pa.array(["", "it's \\ \n\t\0 '\"` %s é 🚀", None]),
    "bytes": pa.array([b"", bytes(range(256)), None]),
    "day": pa.array([date(1000, 1, 1), date(9999, 12, 31), None]),
    "at": pa.array([AT.replace(tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), None]),
    "local": pa.array([AT, datetime(1000, 1, 1), None], pa.timestamp("us")),
}


@pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
def test_every_value_comes_back_as_it_was(harness: MySQLHarness, job: Job, staged: bool) -> None:
    table = pa.table(COLUMNS)
    run(job, MySQLSink(harness.dsn, "t", inline_bytes_max=0 if staged else 1 << 20), table)
    # FLOAT is shown with six digits, and is what it was all the same.
    names = ", ".join(f"{name} + 0e0" if name == "single" else quoted(name) for name in COLUMNS)
    rows = harness.query(f"SELECT {names} FROM t ORDER BY big IS NULL, big")
    assert rows == [tuple(map(as_stored, row.values())) for row in table.to_pylist()]


def as_stored(value: object) -> object:
    """MySQL has no zones and no truth values."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return int(value) if isinstance(value, bool) else value


def test_hostile_texts_and_names_are_only_data(harness: MySQLHarness, job: Job) -> None:
    texts = [
        text
        for text in HOSTILE
        if len(text) < 100_000 and not any(0xD800 <= ord(character) < 0xE000 for character in text)
    ]
    name = 'odd "name" `%s\' \\'
    run(job, MySQLSink(harness.dsn, "t"), pa.table({name: texts, "n": range(len(texts))}))
    assert [text for text, _ in harness.query("SELECT * FROM t ORDER BY n")] == texts


@pytest.mark.parametrize("mode", ["ignore", "upsert", "merge"])
def test_keys_are_compared_byte_by_byte(harness: MySQLHarness, job: Job, mode: Any) -> None:
    """Case, accents and blanks at the end count, whatever the server's collation says."""
    keys = ["a", "A", "á", "a ", "a  ", ""]
    add = {"add": ["n"]} if mode == "merge" else {}
    sink = MySQLSink(harness.dsn, "t", mode, key=["k"], **add)
    run(job, sink, pa.table({"k": keys, "n": range(len(keys))}))
    assert dict(harness.query("SELECT * FROM t")) == {key: number for number, key in enumerate(keys)}


def test_nested_columns_are_json(harness: MySQLHarness, job: Job) -> None:
    schema = with_json(pa.schema([("n", pa.int64()), ("whole", pa.struct([("a", pa.int64())]))]), ["whole"])
    run(job, MySQLSink(harness.dsn, "t"), pa.table([[1, 2], ['{"a": "it\'s \\u00e9"}', None]], schema=schema))
    texts = dict(harness.query("SELECT n, whole FROM t"))
    assert json.loads(texts[1]) == {"a": "it's é"}
    assert texts[2] is None
    assert harness.query("SELECT json_value(whole, '$.a') FROM t WHERE n = 1") == [("it's é",)]


def test_columns_that_are_there_take_what_fits_and_the_server_refuses_the_rest(harness: MySQLHarness, job: Job) -> None:
    harness.query("CREATE TABLE t (n INT UNSIGNED, name VARCHAR(3), kind ENUM('a', 'b'), at TIMESTAMP(6) NULL)")
    at = pa.array([AT.replace(tzinfo=UTC)])
    good = pa.table({"n": pa.array([7], pa.int32()), "name": ["abc"], "kind": ["b"], "at": at})
    run(job, MySQLSink(harness.dsn, "t"), good)
    assert harness.query("SELECT * FROM t") == [(7, "abc", "b", AT)]
    # '2' would be the number of 'b'.
    for column, value in [("n", -1), ("name", "abcd"), ("kind", "c"), ("kind", "2"), ("kind", "B")]:
        bad = good.set_column(good.column_names.index(column), column, [[value]]).cast(good.schema)
        with pytest.raises(RowRejectedError, match=column):
            run(job, MySQLSink(harness.dsn, "t"), bad)
    assert harness.query("SELECT count(*) FROM t") == [(1,)]


def test_the_texts_of_an_enum_are_those_that_the_server_tells(harness: MySQLHarness, job: Job) -> None:
    texts = ["it's", "a\\b", "", "é,'", "7"]
    literals = ", ".join("'" + text.replace("\\", "\\\\").replace("'", "''") + "'" for text in texts)
    harness.query(f"CREATE TABLE t (n INT, kind ENUM({literals}))")
    rows = pa.table({"n": pa.array(range(len(texts)), pa.int32()), "kind": texts})
    run(job, MySQLSink(harness.dsn, "t"), rows)
    assert [kind for _, kind in harness.query("SELECT n, kind FROM t ORDER BY n")] == texts


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_null_in_a_timestamp_stays_null_on_a_server_of_the_old_way(
    harness: MySQLHarness, job: Job, mode: Any
) -> None:
    """MariaDB before 10.10 has it: a TIMESTAMP that does not say NULL takes a null for the time of now."""
    key = ["k"] if mode == "upsert" else []
    harness.query("CREATE TABLE t (k INT UNIQUE, at TIMESTAMP(6) NULL)")
    harness.query("SET GLOBAL explicit_defaults_for_timestamp = OFF")
    try:
        rows = pa.table({"k": pa.array([1, 2], pa.int32()), "at": pa.array([None, AT.replace(tzinfo=UTC)])})
        run(job, MySQLSink(harness.dsn, "t", mode, key=key, inline_bytes_max=0), rows)
    finally:
        harness.query("SET GLOBAL explicit_defaults_for_timestamp = ON")
    assert harness.query("SELECT k, at FROM t ORDER BY k") == [(1, None), (2, AT)]


@pytest.mark.parametrize("inline_bytes_max", [0, 1 << 20], ids=["staged", "inline"])
def test_a_null_is_not_taken_for_the_time_of_now(harness: MySQLHarness, job: Job, inline_bytes_max: int) -> None:
    """As MariaDB does where a TIMESTAMP is NOT NULL."""
    harness.query("CREATE TABLE t (at TIMESTAMP(6) NOT NULL)")
    sink = MySQLSink(harness.dsn, "t", inline_bytes_max=inline_bytes_max)
    run(job, sink, pa.table({"at": pa.array([AT.replace(tzinfo=UTC)])}))
    with pytest.raises(RowRejectedError, match="'at': a null"):
        run(job, sink, pa.table({"at": pa.array([AT.replace(tzinfo=UTC), None])}))
    assert harness.query("SELECT * FROM t") == [(AT,)]


def test_what_a_table_cannot_hold_is_told_at_once(harness: MySQLHarness) -> None:
    harness.query(
        "CREATE TABLE t (n INT, price DECIMAL(5,2), at DATETIME(3), made INT AS (n + 1), must INT NOT NULL, "
        "near DOUBLE(10,2)) "
        "ENGINE = Aria"
    )
    problems = problems_of(
        MySQLSink(harness.dsn, "t"),
        n=pa.int64(), price=pa.decimal128(6, 2), at=pa.timestamp("us", "UTC"), made=pa.int32(), more=pa.string(),
        near=pa.float64(),
    )  # fmt: skip
    for words in (
        "'n'",
        "'price'",
        "'at'",
        "'near'",
        "'made' is generated",
        "no column 'more'",
        "'must' is NOT NULL",
        "Aria",
    ):
        assert words in problems


def test_a_second_unique_index_is_refused_and_a_counter_is_none(harness: MySQLHarness, job: Job) -> None:
    harness.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, k INT UNIQUE, other INT UNIQUE)")
    sink = MySQLSink(harness.dsn, "t", "upsert", key=["k"])
    assert "another unique index, on other" in problems_of(sink, k=pa.int32(), other=pa.int32())
    harness.query("ALTER TABLE t DROP INDEX other")
    run(job, MySQLSink(harness.dsn, "t", "upsert", key=["k"]), pa.table({"k": pa.array([7], pa.int32())}))
    assert harness.query("SELECT id, k FROM t") == [(1, 7)]


def test_a_null_key_is_refused(harness: MySQLHarness, job: Job) -> None:
    harness.query("CREATE TABLE t (k INT UNIQUE, n INT)")
    sink = MySQLSink(harness.dsn, "t", "upsert", key=["k"])
    rows = pa.table({"k": pa.array([1, None], pa.int32()), "n": pa.array([1, 2], pa.int32())})
    with pytest.raises(RowRejectedError, match="1 rows have a null in the key k"):
        run(job, sink, rows)
    assert harness.query("SELECT * FROM t") == []


def test_a_row_that_violates_another_constraint_than_the_key_is_an_error_of_ignore(
    harness: MySQLHarness, job: Job
) -> None:
    """INSERT IGNORE would make it fit."""
    harness.query("CREATE TABLE t (k INT UNIQUE, name VARCHAR(2) NOT NULL)")
    rows = pa.table({"k": pa.array([1], pa.int32()), "name": pa.array([None], pa.string())})
    with pytest.raises(RowRejectedError, match="name"):
        run(job, MySQLSink(harness.dsn, "t", "ignore", key=["k"]), rows)


def test_new_columns_are_added_where_the_policy_says_so(harness: MySQLHarness, job: Job) -> None:
    run(job, MySQLSink(harness.dsn, "t"), pa.table({"n": [1]}))
    wider = pa.table({"n": [2], "name": ["b"]})
    with pytest.raises(SchemaMismatchError, match="no column 'name'"):
        run(job, MySQLSink(harness.dsn, "t"), wider)
    sink = MySQLSink(harness.dsn, "t", schema_policy="add-columns")
    sink.check(wider.schema)
    assert harness.query("SELECT count(*) FROM information_schema.columns WHERE table_name = 't'") == [(1,)]
    run(job, sink, wider)
    assert harness.query("SELECT * FROM t ORDER BY n") == [(1, None), (2, "b")]


def test_a_check_makes_nothing(harness: MySQLHarness) -> None:
    MySQLSink(harness.dsn, "t", "upsert", key=["k"]).check(pa.schema([("k", pa.string())]))
    assert harness.query("SHOW TABLES") == []


def test_a_column_without_a_type_here_is_refused(harness: MySQLHarness) -> None:
    assert "has no MySQL type here" in problems_of(MySQLSink(harness.dsn, "t"), n=pa.duration("us"))


def test_a_ledger_that_cannot_roll_back_is_refused(harness: MySQLHarness) -> None:
    store = harness.open_store()
    store.fence("flights")
    harness.query("ALTER TABLE directkafka_ledger ENGINE = Aria")
    with pytest.raises(SchemaMismatchError, match="ALTER TABLE directkafka_ledger ENGINE = InnoDB"):
        harness.open_store().fence("flights")
    store.close()
