"""Offsets in the user's own transaction: what is Postgres' own; what all databases share is in the contract suite."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, scalar_row

from directkafka import OffsetRange, OffsetStore, TopicPartition
from directkafka.errors import OptionError, StoreUnavailableError
from directkafka.errors.streams import StoredOffsetError

pytestmark = pytest.mark.real

FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)
WAIT_S = 90.0


@pytest.fixture
def store(database: str) -> OffsetStore:
    return OffsetStore(database, "flights")


@pytest.fixture
def started(store: OffsetStore) -> OffsetStore:
    store.preload({FIRST: 0, SECOND: 100})
    return store


def test_a_stream_that_has_never_run_has_no_offsets_and_nothing_is_made_by_asking(
    store: OffsetStore, database: str
) -> None:
    assert store.load() == {}
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regclass('directkafka_offsets')").fetchone() == (None,)


def test_of_two_drivers_with_one_range_the_second_finds_the_offset_moved(started: OffsetStore, database: str) -> None:
    ranges = [OffsetRange("flights", 0, 0, 10)]
    outcome: list[BaseException] = []

    def second() -> None:
        try:
            with psycopg.connect(database) as connection:
                started.advance(connection, ranges)
        except StoredOffsetError as error:
            outcome.append(error)

    with psycopg.connect(database) as connection:
        started.advance(connection, ranges)
        thread = threading.Thread(target=second)
        thread.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        with psycopg.connect(database, autocommit=True) as looking:
            for _ in range(1000):
                if looking.execute(waiting).fetchone() == (1,):
                    break
                looking.execute("SELECT pg_sleep(0.01)")
            else:
                pytest.fail("the second driver does not wait for the first one")
    thread.join(WAIT_S)
    assert [failure.found for failure in outcome if isinstance(failure, StoredOffsetError)] == ["flights-0 at 10"]
    assert started.load()[FIRST] == 10


def test_a_connection_that_commits_each_statement_is_refused(started: OffsetStore, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        with pytest.raises(OptionError, match="belong in one transaction"):
            started.advance(connection, [OffsetRange("flights", 0, 0, 10)])
        with connection.transaction():
            started.advance(connection, [OffsetRange("flights", 0, 0, 10)])
    assert started.load()[FIRST] == 10


def test_rewinding_is_an_update(started: OffsetStore, database: str) -> None:
    with psycopg.connect(database) as connection:
        started.advance(connection, [OffsetRange("flights", 0, 0, 10)])
    with psycopg.connect(database) as connection:
        connection.execute(
            "UPDATE directkafka_offsets SET next_offset = 3 "
            "WHERE stream = 'flights' AND topic = 'flights' AND partition = 0"
        )
    assert started.load()[FIRST] == 3
    with psycopg.connect(database) as connection:
        started.advance(connection, [OffsetRange("flights", 0, 3, 12)])
    assert started.load()[FIRST] == 12


def test_it_travels_to_executors_and_shows_no_password(database: str) -> None:
    store = OffsetStore(f"{database}?password=hunter2", "flights")
    assert "hunter2" not in repr(store)
    assert repr(pickle.loads(pickle.dumps(store))) == repr(store)


def test_a_database_that_is_away_is_told() -> None:
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:1/nothing"):
        OffsetStore("postgresql://127.0.0.1:1/nothing", "flights").load()


def test_a_stream_needs_a_name(database: str) -> None:
    with pytest.raises(OptionError, match="is empty"):
        OffsetStore(database, "")


def test_an_empty_range_of_a_partition_that_stands_elsewhere_is_refused(started: OffsetStore, database: str) -> None:
    with psycopg.connect(database) as connection, pytest.raises(StoredOffsetError, match="flights-1 at 100"):
        started.advance(connection, [OffsetRange("flights", 1, 7, 7)])


@pytest.mark.parametrize("factory", [dict_row, scalar_row])
def test_a_connection_that_makes_something_else_of_rows_does_as_well(
    started: OffsetStore, database: str, factory: Any
) -> None:
    with psycopg.connect(database, row_factory=factory) as connection:
        started.advance(connection, [OffsetRange("flights", 0, 0, 5)])
    assert started.load()[FIRST] == 5
    with psycopg.connect(database, row_factory=factory) as connection, pytest.raises(StoredOffsetError, match="0 at 5"):
        started.advance(connection, [OffsetRange("flights", 0, 0, 5)])


def test_ranges_of_one_partition_are_one_if_they_adjoin(started: OffsetStore, database: str) -> None:
    with psycopg.connect(database) as connection:
        started.advance(connection, [OffsetRange("flights", 0, 5, 9), OffsetRange("flights", 0, 0, 5)], rows=9)
    assert started.load()[FIRST] == 9
    for second in (OffsetRange("flights", 0, 13, 15), OffsetRange("flights", 0, 11, 15)):
        with psycopg.connect(database) as connection, pytest.raises(OptionError, match="do not adjoin"):
            started.advance(connection, [OffsetRange("flights", 0, 9, 12), second])


def test_a_partition_that_was_never_preloaded_is_told_so(started: OffsetStore, database: str) -> None:
    with psycopg.connect(database) as connection, pytest.raises(StoredOffsetError, match="never preloaded") as caught:
        started.advance(connection, [OffsetRange("flights", 5, 0, 3)])
    assert "flights-5 at nothing" in str(caught.value)
