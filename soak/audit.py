"""What the stores have, compared with what the topic has."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Self

import duckdb
import psycopg
from tests.contract.kafka_harness import still_open, wait_until_stable

from soak.driver import PIPELINE
from soak.history import History
from soak.world import COPIES, TOPIC, World, read_topic

__all__ = ["Finding", "Watcher", "audit", "batch_id"]

#: Partition, offset and number.
Record = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One store compared with the topic.

    Attributes:
        store: its name.
        records: records of the topic.
        lost, doubled, foreign: records that are not there, that are there more than once, and rows that are no record.
        left: what staging has left behind.
    """

    store: str
    records: int
    lost: int
    doubled: int
    foreign: int
    left: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether every record is there once, and nothing else."""
        return not (self.lost or self.doubled or self.foreign or self.left)


def audit(world: World) -> list[Finding]:
    """Compare every store with the topic as an independent client reads it."""
    expected = Counter(
        (partition, offset, int(value)) for partition, offset, value in read_topic(world.kafka.bootstrap_servers, TOPIC)
    )
    return [
        _compare("postgres", expected, _postgres(world), _staging_tables(world)),
        _compare("kafka", expected, _kafka(world), _open_transactions(world)),
        _compare("duckdb", expected, _duckdb(world)),
        _compare("sqlite", expected, _sqlite(world), tuple(str(path) for path in world.folder.glob("*-staging/*"))),
        _compare_totals(world, expected),
    ]


def _compare(store: str, expected: Counter[Record], rows: Iterator[Record], left: tuple[str, ...] = ()) -> Finding:
    stored = Counter(rows)
    return Finding(
        store=store,
        records=expected.total(),
        lost=(expected - stored).total(),
        doubled=sum(count - 1 for record, count in stored.items() if record in expected),
        foreign=sum(count for record, count in stored.items() if record not in expected),
        left=left,
    )


def _compare_totals(world: World, expected: Counter[Record]) -> Finding:
    """The merge sink: a sum for each partition, which must be that of its records."""
    right: dict[int, tuple[int, int]] = {}
    for (partition, _, number), count in expected.items():
        records, numbers = right.get(partition, (0, 0))
        right[partition] = (records + count, numbers + number * count)
    with psycopg.connect(world.dsn) as connection:
        totals = {row[0]: (int(row[1]), int(row[2])) for row in connection.execute("SELECT * FROM totals").fetchall()}
    differing = [
        partition for partition in right.keys() | totals.keys() if right.get(partition) != totals.get(partition)
    ]
    return Finding(
        store="postgres, merged",
        records=expected.total(),
        lost=sum(max(0, right.get(partition, (0, 0))[0] - totals.get(partition, (0, 0))[0]) for partition in differing),
        doubled=sum(
            max(0, totals.get(partition, (0, 0))[0] - right.get(partition, (0, 0))[0]) for partition in differing
        ),
        foreign=sum(right.get(partition, (0,))[0] == totals.get(partition, (0,))[0] for partition in differing),
    )


def _postgres(world: World) -> Iterator[Record]:
    with psycopg.connect(world.dsn) as connection:
        yield from connection.execute('SELECT partition, "offset", number FROM records')


def _staging_tables(world: World) -> tuple[str, ...]:
    with psycopg.connect(world.dsn) as connection:
        rows = connection.execute("SELECT relname::text FROM pg_class WHERE relname LIKE 'directkafka\\_stage\\_%'")
        return tuple(name for (name,) in rows)


def _kafka(world: World) -> Iterator[Record]:
    for _, _, value in read_topic(world.kafka.bootstrap_servers, COPIES):
        partition, offset, number = map(int, value.split(b","))
        yield partition, offset, number


def _open_transactions(world: World) -> tuple[str, ...]:
    """Transactions that nobody ended (KIP-664); the last stable offsets reach the ends, or it is an error."""
    wait_until_stable(world.kafka.bootstrap_servers, COPIES)
    return tuple(still_open(world.kafka.bootstrap_servers, ""))


def _duckdb(world: World) -> Iterator[Record]:
    with duckdb.connect(str(world.folder / "soak.duckdb")) as connection:
        yield from connection.execute('SELECT partition, "offset", number FROM records').fetchall()


def _sqlite(world: World) -> Iterator[Record]:
    with closing(sqlite3.connect(world.folder / "soak.sqlite")) as connection:
        yield from connection.execute('SELECT partition, "offset", number FROM records')


def batch_id(world: World) -> int:
    """The last committed batch."""
    with psycopg.connect(world.dsn) as connection:
        row = connection.execute("SELECT batch_id FROM directkafka_ledger WHERE pipeline = %s", (PIPELINE,)).fetchone()
    return int(row[0]) if row is not None else -1


class Watcher:
    """A reader that looks at the database all the while: it must never see part of a batch.

    The topic has no gaps, so the table has as many rows as the ledger's offsets say, in every snapshot.

    Args:
        world: whose database.
        history: told of what must not be.
    """

    _QUERY = """
        SELECT (SELECT count(*) FROM records), (SELECT coalesce(sum(records), 0) FROM totals),
               (SELECT coalesce(sum((one ->> 'end')::bigint - (one ->> 'origin')::bigint), 0)
                  FROM directkafka_ledger, jsonb_array_elements(progress) AS one WHERE pipeline = %s)
    """

    def __init__(self, world: World, history: History) -> None:
        self._dsn = world.dsn
        self._history = history
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self.looks = 0
        self.torn = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._enough.wait(0.5):
            try:
                self._look()
            except psycopg.Error:  # the server is being killed, or the tables are not made yet
                time.sleep(0.5)

    def _look(self) -> None:
        with psycopg.connect(self._dsn, connect_timeout=5) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            row = connection.execute(self._QUERY, (PIPELINE,)).fetchone()
        assert row is not None
        self.looks += 1
        if len(set(map(int, row))) > 1:
            self.torn += 1
            self._history.note("torn", rows=row[0], totals=row[1], ledger=row[2])
