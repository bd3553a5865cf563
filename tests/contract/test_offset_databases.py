"""Offsets in the user's own transaction: the same tests for every database, and for one that a user brings himself."""

from __future__ import annotations

import pickle
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import psycopg
import pymysql
import pytest

from directkafka import (
    DuckDBOffsets,
    MySQLOffsets,
    OffsetDatabase,
    OffsetRange,
    OffsetStore,
    SQLiteOffsets,
    TopicPartition,
)
from directkafka.errors import (
    DirectKafkaError,
    OffsetMismatchError,
    OptionError,
    StoreAccessError,
    StoreUnavailableError,
)
from directkafka.errors.streams import RecordCountError, StoredOffsetError
from directkafka.sinks.postgres.offset_store import PostgresOffsets

FIRST, SECOND, THIRD = (TopicPartition("flights", partition) for partition in range(3))
DONE = OffsetRange("flights", 0, 0, 10)
WAIT_S = 60.0


class OwnOffsets:
    """What a user's own database could look like: few rows, statements of its own, positions in a dict of text."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.label = f"own {path}"

    @contextmanager
    def session(self, *, make: bool) -> Iterator[sqlite3.Connection | None]:
        if not make and not self._path.exists():
            yield None
            return
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS positions (name TEXT PRIMARY KEY, at INTEGER)")
            yield connection

    def is_in_transaction(self, connection: sqlite3.Connection) -> bool:
        return connection.isolation_level is not None or connection.in_transaction

    def stored(self, connection: sqlite3.Connection, stream: str) -> list[tuple[str, int, int]]:
        rows = connection.execute("SELECT name, at FROM positions WHERE name LIKE ?", (f"{stream}/%",)).fetchall()
        return [(*self._parsed(name), at) for name, at in rows]

    def start(self, connection: sqlite3.Connection, stream: str, offsets: Sequence[tuple[str, int, int]]) -> None:
        rows = [(f"{stream}/{topic}/{partition}", at) for topic, partition, at in offsets]
        connection.executemany("INSERT OR IGNORE INTO positions VALUES (?, ?)", rows)

    def advance(
        self, connection: sqlite3.Connection, stream: str, ranges: Sequence[OffsetRange]
    ) -> set[TopicPartition]:
        statement = "UPDATE positions SET at = ? WHERE name = ? AND at = ?"
        return {
            offset_range.topic_partition
            for offset_range in ranges
            if connection.execute(
                statement,
                (
                    offset_range.until_offset,
                    f"{stream}/{offset_range.topic}/{offset_range.partition}",
                    offset_range.from_offset,
                ),
            ).rowcount
        }

    def translate(self, error: Exception) -> DirectKafkaError | None:
        return StoreUnavailableError(store=self.label, cause=str(error)) if isinstance(error, sqlite3.Error) else None

    @staticmethod
    def _parsed(name: str) -> tuple[str, int]:
        _, topic, partition = name.split("/")
        return topic, int(partition)


class Place:
    """A database with a table of results beside the offsets."""

    def __init__(self, database: OffsetDatabase, connect: Callable[[], Any], *, parameter: str = "?") -> None:
        self.database = database
        self.connect = connect
        self._insert = f"INSERT INTO results VALUES ({parameter})"

    def store(self, stream: str = "flights") -> OffsetStore:
        return OffsetStore(self.database, stream)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with closing(self.connect()) as connection:
            try:
                if isinstance(connection, duckdb.DuckDBPyConnection):
                    connection.begin()
                yield connection
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def make_results(self) -> None:
        with self.transaction() as connection:
            self.execute(connection, "CREATE TABLE results (n INTEGER)")

    def insert(self, connection: Any, number: int) -> None:
        self.execute(connection, self._insert, (number,))

    def execute(self, connection: Any, statement: str, values: tuple[object, ...] = ()) -> Any:
        """A cursor with the rows."""
        if not isinstance(connection, pymysql.Connection):
            return connection.execute(statement, values)
        cursor = connection.cursor()
        cursor.execute(statement, values)
        return cursor

    def process(self, store: OffsetStore, *ranges: OffsetRange, is_interrupted: bool = False) -> None:
        """A row and the offsets in one transaction."""
        with self.transaction() as connection:
            self.insert(connection, 1)
            store.advance(connection, ranges)
            if is_interrupted:
                raise ZeroDivisionError

    def results(self) -> list[int]:
        with self.transaction() as connection:
            return [n for (n,) in self.execute(connection, "SELECT n FROM results ORDER BY n").fetchall()]


@pytest.fixture(
    params=["sqlite", "duckdb", "own", *(pytest.param(name, marks=pytest.mark.real) for name in ("postgres", "mysql"))]
)
def results_database(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    path = tmp_path / "flights.db"
    match request.param:
        case "sqlite":
            return Place(SQLiteOffsets(path), lambda: sqlite3.connect(path))
        case "duckdb":
            return Place(DuckDBOffsets(path), lambda: duckdb.connect(str(path)))
        case "own":
            return Place(OwnOffsets(path), lambda: sqlite3.connect(path))
        case "mysql":
            url = request.getfixturevalue("mysql_database")
            return Place(MySQLOffsets(url), lambda: mysql_connection(url), parameter="%s")
    dsn = request.getfixturevalue("database")
    return Place(PostgresOffsets(dsn), lambda: psycopg.connect(dsn), parameter="%s")


def mysql_connection(url: str) -> pymysql.Connection:
    """As a program makes one of its own, with the server's own sql_mode."""
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname, port=parts.port or 0, user=parts.username, password=parts.password or "",
        database=parts.path[1:],
    )  # fmt: skip


@pytest.fixture
def started(results_database: Place) -> OffsetStore:
    store = results_database.store()
    store.preload({FIRST: 0, SECOND: 100})
    results_database.make_results()
    return store


def test_a_stream_that_has_never_run_has_no_offsets_and_a_first_run_is_preloaded(results_database: Place) -> None:
    store = results_database.store()
    assert isinstance(results_database.database, OffsetDatabase)
    assert store.load() == {}
    assert store.preload({FIRST: 5}) == {FIRST: 5}
    with results_database.transaction() as connection:
        store.advance(connection, [OffsetRange("flights", 0, 5, 9)])
    # A partition that came later starts where it is told, the other one stays where it is.
    assert store.preload({FIRST: 0, SECOND: 3}) == {FIRST: 9, SECOND: 3}
    assert results_database.store("other").load() == {}


def test_offsets_move_with_the_results_or_not_at_all(results_database: Place, started: OffsetStore) -> None:
    with pytest.raises(ZeroDivisionError):
        results_database.process(started, DONE, is_interrupted=True)
    assert (started.load(), results_database.results()) == ({FIRST: 0, SECOND: 100}, [])
    with results_database.transaction() as connection:
        results_database.insert(connection, 1)
        started.advance(connection, [DONE, OffsetRange("flights", 1, 100, 100)], rows=10)
    assert (started.load(), results_database.results()) == ({FIRST: 10, SECOND: 100}, [1])


@pytest.mark.parametrize(
    ("moved", "expected", "stored"),
    [
        (OffsetRange("flights", 1, 90, 110), "flights-1 at 90", "flights-1 at 100"),
        (OffsetRange("flights", 1, 110, 120), "flights-1 at 110", "flights-1 at 100"),
        (OffsetRange("flights", 7, 0, 10), "flights-7 at 0", "flights-7 at nothing"),
    ],
    ids=["would double", "would lose", "unknown partition"],
)
def test_a_range_that_does_not_start_where_the_stream_is_moves_nothing(
    results_database: Place, started: OffsetStore, moved: OffsetRange, expected: str, stored: str
) -> None:
    with pytest.raises(StoredOffsetError) as raised:
        results_database.process(started, DONE, moved)
    assert (raised.value.expected, raised.value.found, raised.value.is_done) == (expected, stored, False)
    assert isinstance(raised.value, OffsetMismatchError)
    assert (started.load(), results_database.results()) == ({FIRST: 0, SECOND: 100}, [])


def test_a_range_that_was_processed_before_is_refused_and_said_to_be_done(
    results_database: Place, started: OffsetStore
) -> None:
    """A task that is tried again after its commit rolls its rows back, and need not fail."""
    both, begun = [DONE, OffsetRange("flights", 1, 100, 120)], OffsetRange("flights", 2, 7, 7)
    with results_database.transaction() as connection:
        started.advance(connection, [*both, begun])
    for again in (both, [DONE], [*both, begun]):
        with pytest.raises(StoredOffsetError) as raised:
            results_database.process(started, *again)
        assert raised.value.is_done
    # One of two partitions is done, the other one has moved or stands elsewhere: nothing may be taken for done.
    for second in (OffsetRange("flights", 1, 120, 130), OffsetRange("flights", 1, 100, 119)):
        with pytest.raises(StoredOffsetError) as raised:
            results_database.process(started, DONE, second)
        assert not raised.value.is_done
    assert started.load() == {FIRST: 10, SECOND: 120, THIRD: 7}
    assert results_database.results() == []


def test_an_added_partition_begins_with_its_empty_range_and_goes_on(
    results_database: Place, started: OffsetStore
) -> None:
    with results_database.transaction() as connection:
        started.advance(connection, [DONE, OffsetRange("flights", 2, 7, 7)])
    assert started.load() == {FIRST: 10, SECOND: 100, THIRD: 7}
    with results_database.transaction() as connection:
        started.advance(connection, [OffsetRange("flights", 2, 7, 9)])
    assert started.load()[THIRD] == 9
    with pytest.raises(StoredOffsetError, match="flights-2 at 9"), results_database.transaction() as connection:
        started.advance(connection, [OffsetRange("flights", 2, 7, 7)])


def test_rows_are_counted_against_the_range_less_its_known_gaps(results_database: Place, started: OffsetStore) -> None:
    with results_database.transaction() as connection:
        with pytest.raises(RecordCountError, match="9 records were processed, the ranges have 10"):
            started.advance(connection, [DONE], rows=9)
        with pytest.raises(RecordCountError, match="10 records were processed, the ranges have 9"):
            started.advance(connection, [DONE], rows=10, records=9)
        started.advance(connection, [DONE], rows=9, records=9)
    assert started.load()[FIRST] == 10


def test_of_two_programs_with_one_range_one_moves_the_offset(results_database: Place, started: OffsetStore) -> None:
    """Both have written their rows by then."""
    outcomes: list[BaseException | None] = []
    begun = threading.Barrier(2)

    def process(number: int) -> None:
        try:
            with results_database.transaction() as connection:
                begun.wait(WAIT_S)
                started.advance(connection, [DONE])
                results_database.insert(connection, number)
        except (StoredOffsetError, StoreUnavailableError) as error:
            outcomes.append(error)
        else:
            outcomes.append(None)

    threads = [threading.Thread(target=process, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert [type(outcome) for outcome in outcomes].count(type(None)) == 1, outcomes
    assert len(outcomes) == 2
    assert (started.load()[FIRST], len(results_database.results())) == (10, 1)


def test_a_connection_that_commits_each_statement_is_refused(results_database: Place, started: OffsetStore) -> None:
    with closing(results_database.connect()) as connection:
        if isinstance(connection, sqlite3.Connection):
            connection.isolation_level = None
        elif isinstance(connection, psycopg.Connection):
            connection.autocommit = True
        elif isinstance(connection, pymysql.Connection):
            connection.autocommit(True)
        with pytest.raises(OptionError, match="belong in one transaction"):
            started.advance(connection, [DONE])
        results_database.execute(connection, "BEGIN")
        started.advance(connection, [DONE])
        results_database.execute(connection, "COMMIT")
    assert started.load()[FIRST] == 10


def test_it_travels(results_database: Place) -> None:
    assert repr(pickle.loads(pickle.dumps(results_database.store()))) == repr(results_database.store())


@pytest.mark.parametrize("make", [SQLiteOffsets, DuckDBOffsets])
def test_a_file_that_is_none_or_cannot_be_opened_is_told(make: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the path of a file"):
        make(":memory:")
    (tmp_path / "text").write_text("this is no database, however one looks at it. " * 100)
    with pytest.raises(StoreAccessError, match="text"):
        OffsetStore(make(tmp_path / "text"), "flights").load()


def test_a_file_that_is_locked_names_who_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "flights.db"
    store = OffsetStore(SQLiteOffsets(path, lock_timeout_s=0.1), "flights")
    store.preload({FIRST: 0})
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailableError, match=r"has been kept for 0\.1 s by process \d+"):
            store.preload({SECOND: 0})


def test_rows_of_another_kind_do_as_well(tmp_path: Path) -> None:
    path = tmp_path / "flights.db"
    store = OffsetStore(SQLiteOffsets(path), "flights")
    store.preload({FIRST: 0})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.row_factory = lambda cursor, row: {"row": row}
        store.advance(connection, [DONE])
        with pytest.raises(StoredOffsetError, match="0 at 10"):
            store.advance(connection, [DONE])
