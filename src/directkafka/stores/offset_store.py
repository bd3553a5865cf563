"""Offsets of a direct stream in the user's own database, moved on in the user's own transaction.

The table is for people to read and to change: to rewind a stream that is stopped,

    UPDATE directkafka_offsets SET next_offset = 1000 WHERE stream = 'flights' AND topic = 'flights' AND partition = 0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from directkafka.errors import OptionError
from directkafka.offsets import OffsetRange, TopicPartition, total_count
from directkafka.stores.postgres_session import ALREADY_THERE, PostgresAddress
from directkafka.stores.sql_blocks import load_blocks
from directkafka.stream_errors import RecordCountError, StoredOffsetError

__all__ = ["OffsetStore"]

_SQL: Final = load_blocks("directkafka.stores", "offset_store.sql")


class OffsetStore:
    """The offsets of one stream in the table ``directkafka_offsets`` of a Postgres database.

    Small and picklable: executors may have it, and use it with connections of their own::

        store = OffsetStore(dsn, "flights")
        store.preload(cluster.earliest(partitions))
        ...
        with psycopg.connect(dsn) as connection:                # one transaction
            rows = write(connection, records)
            store.advance(connection, [offset_range], rows=rows)

    Args:
        dsn: libpq connection string or URI.
        stream: names the stream; several may share a table.

    Raises:
        OptionError: the DSN is none, or the name is empty.
    """

    def __init__(self, dsn: str, stream: str) -> None:
        if not stream:
            raise OptionError(option="stream", reason="is empty; give the stream a name that no other one has")
        self._address, self._stream = PostgresAddress.parse(dsn), stream

    def __repr__(self) -> str:
        return f"OffsetStore({self._address.label!r}, {self._stream!r})"

    def load(self) -> dict[TopicPartition, int]:
        """The first offset that is not processed yet, by partition; empty for a stream that has never run.

        Raises:
            StoreUnavailableError, StoreAccessError: so do the other methods.
        """
        with self._session() as connection:
            if not _one(connection, "exists"):
                return {}
            found = _execute(connection, "load", stream=self._stream).fetchall()
        return {TopicPartition(topic, partition): offset for topic, partition, offset in found}

    def preload(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Say where the stream starts in partitions that it has not met yet; the table is made if need be.

        Args:
            offsets: the first offset to process, by partition. Where the stream is already somewhere, that stays.

        Returns:
            What :meth:`load` gives afterwards.
        """
        with self._session() as connection:
            if not _one(connection, "exists"):
                with suppress(*ALREADY_THERE):
                    _execute(connection, "create")
            _execute(connection, "preload", stream=self._stream, **_starts(offsets))
        return self.load()

    def advance(
        self,
        connection: psycopg.Connection[Any],
        ranges: Iterable[OffsetRange],
        *,
        rows: int | None = None,
        records: int | None = None,
    ) -> None:
        """Move the stream on by these ranges, in the transaction that is open on the connection.

        The stored offset must be the start of each range: then nothing was left out, and nothing comes twice. The
        caller commits; when this raises, it must not.

        Args:
            connection: with the transaction that holds the results.
            ranges: what has been processed. Several of one partition must adjoin; an empty one of a partition that the
                stream has not met yet says where it starts, as an empty range of a new partition does in a stream.
            rows: how many records were counted while they were processed; None when nobody counted.
            records: how many the ranges have, where that is known to be less than their offsets (compacted and
                transactional topics; :func:`directkafka.record_counts`).

        Raises:
            StoredOffsetError: a partition stands elsewhere, or nowhere: then it was never preloaded.
            RecordCountError: ``rows`` is not what the ranges have.
            OptionError: the connection has no transaction: each statement would be committed by itself; or ranges of
                one partition do not adjoin.
        """
        given = _joined(ranges)
        expected = total_count(given) if records is None else records
        if rows is not None and rows != expected:
            raise RecordCountError(store=self._address.label, sink=self._stream, reported=rows, found=expected)
        if not given:
            return
        if connection.autocommit and connection.info.transaction_status != TransactionStatus.INTRANS:
            reason = "is in autocommit mode: offsets and results belong in one transaction (connection.transaction())"
            raise OptionError(option="connection", reason=reason)
        with self._translated():
            met = {one.topic_partition: one.from_offset for one in given if not one.count()}
            _execute(connection, "preload", stream=self._stream, **_starts(met))
            moved = _execute(
                connection,
                "advance",
                stream=self._stream,
                topics=[one.topic for one in given],
                partitions=[one.partition for one in given],
                starts=[one.from_offset for one in given],
                ends=[one.until_offset for one in given],
            ).fetchall()
        if len(moved) != len(given):
            raise self._mismatch(connection, given, {TopicPartition(*one) for one in moved})

    def _mismatch(
        self, connection: psycopg.Connection[Any], given: list[OffsetRange], moved: set[TopicPartition]
    ) -> StoredOffsetError:
        with self._translated():
            stored = {
                TopicPartition(topic, partition): offset
                for topic, partition, offset in _execute(connection, "load", stream=self._stream)
            }
        stuck = [one for one in given if one.topic_partition not in moved]
        return StoredOffsetError(
            store=self._address.label,
            pipeline=self._stream,
            expected=", ".join(f"{one.topic_partition} at {one.from_offset}" for one in stuck),
            found=", ".join(f"{one.topic_partition} at {stored.get(one.topic_partition, 'nothing')}" for one in stuck),
        )

    @contextmanager
    def _session(self) -> Iterator[psycopg.Connection[Any]]:
        with self._translated(), self._address.connect("directkafka offsets") as connection:
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._address.translate(error) from None


def _execute(connection: psycopg.Connection[Any], block: str, **values: object) -> psycopg.Cursor[Any]:
    # The caller's connection may make something else of rows than tuples.
    return connection.cursor(row_factory=tuple_row).execute(_SQL[block], values)


def _one(connection: psycopg.Connection[Any], block: str) -> bool:
    row = _execute(connection, block).fetchone()
    return bool(row and row[0])


def _starts(offsets: Mapping[TopicPartition, int]) -> dict[str, list[Any]]:
    """The arrays of the statement ``preload``; sorted, so that two drivers lock rows in one order."""
    places = sorted(offsets)
    return {
        "topics": [one.topic for one in places],
        "partitions": [one.partition for one in places],
        "offsets": [offsets[one] for one in places],
    }


def _joined(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """One range for each partition.

    Raises:
        OptionError: ranges of one partition have a gap between them, or overlap.
    """
    joined: dict[TopicPartition, OffsetRange] = {}
    for one in sorted(ranges):
        before = joined.get(one.topic_partition)
        if before is not None and before.until_offset != one.from_offset:
            raise OptionError(
                option="ranges", reason=f"{before} and {one} do not adjoin: one would be left out, or twice"
            )
        start = one if before is None else before
        joined[one.topic_partition] = OffsetRange(one.topic, one.partition, start.from_offset, one.until_offset)
    return list(joined.values())
