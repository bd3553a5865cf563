"""Offsets in Postgres, for :class:`~directkafka.sinks.offset_store.OffsetStore`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from directkafka.errors import DirectKafkaError
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.sinks.databases import load_blocks
from directkafka.sinks.postgres.session import ALREADY_THERE, PostgresAddress

_SQL: Final = load_blocks("directkafka.sinks.postgres", "offset_store.sql")


class PostgresOffsets:
    """See :class:`~directkafka.sinks.offset_store.OffsetDatabase`; connections are psycopg's.

    Args:
        dsn: libpq connection string or URI.

    Raises:
        OptionError: the DSN is none.
    """

    def __init__(self, dsn: str) -> None:
        self._address = PostgresAddress.parse(dsn)

    @property
    def label(self) -> str:
        """Server and database."""
        return self._address.label

    @contextmanager
    def session(self, *, make: bool) -> Iterator[psycopg.Connection[Any] | None]:
        """A session that commits each statement: where two make the table, one of them fails, and it is there."""
        with self._address.connect("directkafka offsets") as connection:
            row = _execute(connection, "exists").fetchone()
            is_there = bool(row and row[0])
            if make and not is_there:
                with suppress(*ALREADY_THERE):
                    _execute(connection, "create")
            yield connection if make or is_there else None

    def is_in_transaction(self, connection: psycopg.Connection[Any]) -> bool:
        """A connection that is not in autocommit mode begins one by itself."""
        return not connection.autocommit or connection.info.transaction_status == TransactionStatus.INTRANS

    def stored(self, connection: psycopg.Connection[Any], stream: str) -> Iterable[tuple[str, int, int]]:
        """All rows of the stream."""
        return _execute(connection, "load", stream=stream).fetchall()

    def start(self, connection: psycopg.Connection[Any], stream: str, offsets: Sequence[tuple[str, int, int]]) -> None:
        """In one statement."""
        _execute(
            connection,
            "preload",
            stream=stream,
            topics=[topic for topic, _, _ in offsets],
            partitions=[partition for _, partition, _ in offsets],
            offsets=[offset for _, _, offset in offsets],
        )

    def advance(
        self, connection: psycopg.Connection[Any], stream: str, ranges: Sequence[OffsetRange]
    ) -> set[TopicPartition]:
        """In one statement, which waits for another program's transaction."""
        moved = _execute(
            connection,
            "advance",
            stream=stream,
            topics=[offset_range.topic for offset_range in ranges],
            partitions=[offset_range.partition for offset_range in ranges],
            starts=[offset_range.from_offset for offset_range in ranges],
            ends=[offset_range.until_offset for offset_range in ranges],
        )
        return {TopicPartition(*row) for row in moved.fetchall()}

    def translate(self, error: Exception) -> DirectKafkaError | None:
        """By SQLSTATE."""
        return self._address.translate(error) if isinstance(error, psycopg.Error) else None


def _execute(connection: psycopg.Connection[Any], block: str, **values: object) -> psycopg.Cursor[Any]:
    # The caller's connection may make something else of rows than tuples.
    return connection.cursor(row_factory=tuple_row).execute(_SQL[block], values)
