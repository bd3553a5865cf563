"""Offsets in MySQL or MariaDB, for :class:`~directkafka.sinks.offset_store.OffsetStore`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from directkafka.errors import DirectKafkaError
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.sinks.databases import load_blocks
from directkafka.sinks.mysql.client import pymysql
from directkafka.sinks.mysql.session import Connection, MySQLAddress, close_quietly

_SQL: Final = load_blocks("directkafka.sinks.mysql", "offset_store.sql")


class MySQLOffsets:
    """A database of MySQL or MariaDB where a stream's offsets are kept; connections are pymysql's.

    Args:
        dsn: ``mysql://user:password@host:port/database``.

    Raises:
        OptionError: the URL is none.
    """

    def __init__(self, dsn: str) -> None:
        self._address = MySQLAddress.parse(dsn)

    @property
    def label(self) -> str:
        """Server and database."""
        return self._address.label

    @contextmanager
    def session(self, *, make: bool) -> Iterator[Connection | None]:
        """A session that commits each statement: rows are inserted one by one, and those that are there stay."""
        connection = self._address.connect("directkafka offsets")
        try:
            if make:
                _rows(connection, "create")
            is_there = make or bool(_rows(connection, "exists")[0][0])
            yield connection if is_there else None
        finally:
            close_quietly(connection)

    def is_in_transaction(self, connection: Connection) -> bool:
        """A connection that is not in autocommit mode begins one by itself."""
        status: int = connection.server_status  # type: ignore[attr-defined]
        return not connection.get_autocommit() or bool(status & pymysql.constants.SERVER_STATUS.SERVER_STATUS_IN_TRANS)

    def stored(self, connection: Connection, stream: str) -> Iterable[tuple[str, int, int]]:
        """All rows of the stream."""
        return [(topic, partition, offset) for topic, partition, offset in _rows(connection, "load", stream)]

    def start(self, connection: Connection, stream: str, offsets: Sequence[tuple[str, int, int]]) -> None:
        """Row by row: a stream has few partitions."""
        for partition_offset in offsets:
            _rows(connection, "preload", stream, *partition_offset)

    def advance(self, connection: Connection, stream: str, ranges: Sequence[OffsetRange]) -> set[TopicPartition]:
        """Row by row, each locked before it is compared: MySQL counts no row whose value stays the same."""
        moved = set()
        for offset_range in ranges:
            key = (stream, offset_range.topic, offset_range.partition)
            if _rows(connection, "lock", *key) == [(offset_range.from_offset,)]:
                _rows(connection, "advance", offset_range.until_offset, *key)
                moved.add(offset_range.topic_partition)
        return moved

    def translate(self, error: Exception) -> DirectKafkaError | None:
        """By the error's number."""
        return self._address.translate(error) if isinstance(error, pymysql.MySQLError) else None


def _rows(connection: Connection, block: str, *values: object) -> list[tuple[Any, ...]]:
    # The program's connection may make something else of rows than tuples.
    with connection.cursor(pymysql.cursors.Cursor) as cursor:
        cursor.execute(_SQL[block], values)
        return list(cursor.fetchall())
