"""Offsets of a direct stream in the user's own database, moved on in the user's own transaction.

The table is for people to read and to change: to rewind a stream that is stopped,

    UPDATE directkafka_offsets SET next_offset = 1000 WHERE stream = 'flights' AND topic = 'flights' AND partition = 0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

from directkafka.errors import DirectKafkaError, OptionError
from directkafka.errors.streams import RecordCountError, StoredOffsetError
from directkafka.offsets import OffsetRange, TopicPartition, total_count
from directkafka.sinks.postgres.offset_store import PostgresOffsets


@runtime_checkable
class OffsetDatabase(Protocol):
    """A transactional database with the table ``directkafka_offsets``, one row per stream and partition.

    For :class:`~directkafka.sinks.offset_store.OffsetStore`, which checks all that is not SQL. An object of a class of
    one's own will do, for any database; if executors use it, it must be picklable. ``connection`` is always one of the
    program's own, with its own transaction, except in :meth:`session`.
    """

    @property
    def label(self) -> str:
        """Which database this is, for messages; without secrets."""

    def session(self, *, make: bool) -> AbstractContextManager[Any]:
        """A connection for :meth:`stored` and :meth:`start`, with a transaction that is committed when it ends well.

        Args:
            make: make the table if it is not there. Without, it gives None where there is no table, and makes nothing.
        """

    def is_in_transaction(self, connection: Any) -> bool:
        """Whether what is changed over a connection is committed when the program says so, and not at once."""

    def stored(self, connection: Any, stream: str) -> Iterable[tuple[str, int, int]]:
        """Topic, partition and next offset of each row of a stream."""

    def start(self, connection: Any, stream: str, offsets: Sequence[tuple[str, int, int]]) -> None:
        """Insert rows (topic, partition, next offset) for partitions that the stream has not met; others stay."""

    def advance(self, connection: Any, stream: str, ranges: Sequence[OffsetRange]) -> set[TopicPartition]:
        """Set the next offset to a range's end in each row that stands at its start; no two ranges share a partition.

        The condition and the change must be one statement, or the row locked before: of two programs with one range,
        one must find the row moved.

        Returns:
            The partitions whose rows stood there.
        """

    def translate(self, error: Exception) -> DirectKafkaError | None:
        """The project's error for one of the database's, None for any other error: it is raised as it is."""


class OffsetStore:
    """The offsets of one stream in the table ``directkafka_offsets`` of a database.

    Small and picklable: executors may have it, and use it with connections of their own::

        store = OffsetStore(dsn, "flights")
        store.preload(cluster.earliest(partitions))
        ...
        with psycopg.connect(dsn) as connection:                # one transaction
            rows = write(connection, records)
            store.advance(connection, [offset_range], rows=rows)

    Args:
        database: of Postgres: a libpq connection string or URI. Of MySQL, SQLite and DuckDB: ``dk.MySQLOffsets(url)``,
            ``dk.SQLiteOffsets(path)``, ``dk.DuckDBOffsets(path)``. Any other: an object of your own that is a
            ``dk.OffsetDatabase``.
        stream: names the stream; several may share a table.

    Raises:
        OptionError: the DSN is none, or the name is empty.
    """

    def __init__(self, database: str | OffsetDatabase, stream: str) -> None:
        if not stream:
            raise OptionError(option="stream", reason="is empty; give the stream a name that no other one has")
        self._database: OffsetDatabase = PostgresOffsets(database) if isinstance(database, str) else database
        self._stream = stream

    def __repr__(self) -> str:
        return f"OffsetStore({self._database.label!r}, {self._stream!r})"

    def load(self) -> dict[TopicPartition, int]:
        """The first offset that is not processed yet, by partition; empty for a stream that has never run.

        Raises:
            StoreUnavailableError, StoreAccessError: so do the other methods.
        """
        with self._translated(), self._database.session(make=False) as connection:
            return {} if connection is None else self._stored(connection)

    def preload(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Say where the stream starts in partitions that it has not met yet; the table is made if need be.

        Args:
            offsets: the first offset to process, by partition. Where the stream is already somewhere, that stays.

        Returns:
            What :meth:`load` gives afterwards.
        """
        with self._translated(), self._database.session(make=True) as connection:
            self._database.start(connection, self._stream, _starts(offsets))
        return self.load()

    def advance(
        self,
        connection: Any,
        ranges: Iterable[OffsetRange],
        *,
        rows: int | None = None,
        records: int | None = None,
    ) -> None:
        """Move the stream on by these ranges, in the transaction that is open on the connection.

        The stored offset must be the start of each range: then nothing was left out, and nothing comes twice. The
        caller commits; when this raises, it must not. That holds for a range that was processed before as well: the
        rows that the transaction has would come twice. The error says so (``is_done``), and after a rollback there is
        nothing left to do::

            try:
                store.advance(connection, [offset_range], rows=rows)
            except StoredOffsetError as error:                    # in directkafka.errors.streams
                connection.rollback()
                if not error.is_done:                             # else: an earlier attempt of this task has committed
                    raise

        Args:
            connection: with the transaction that holds the results; of the database's own library (psycopg, sqlite3,
                duckdb).
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
            raise RecordCountError(store=self._database.label, sink=self._stream, reported=rows, found=expected)
        if not given:
            return
        with self._translated():
            if not self._database.is_in_transaction(connection):
                reason = "is in autocommit mode: offsets and results belong in one transaction, so begin one first"
                raise OptionError(option="connection", reason=reason)
            met = {
                offset_range.topic_partition: offset_range.from_offset
                for offset_range in given
                if not offset_range.count()
            }
            if met:
                self._database.start(connection, self._stream, _starts(met))
            moved = self._database.advance(connection, self._stream, given)
            if len(moved) != len(given):
                raise self._mismatch(self._stored(connection), given, moved)

    def _stored(self, connection: Any) -> dict[TopicPartition, int]:
        rows = self._database.stored(connection, self._stream)
        return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}

    def _mismatch(
        self, stored: dict[TopicPartition, int], given: list[OffsetRange], moved: set[TopicPartition]
    ) -> StoredOffsetError:
        stuck = [offset_range for offset_range in given if offset_range.topic_partition not in moved]
        return StoredOffsetError(
            store=self._database.label,
            pipeline=self._stream,
            expected=", ".join(
                f"{offset_range.topic_partition} at {offset_range.from_offset}" for offset_range in stuck
            ),
            found=", ".join(
                f"{offset_range.topic_partition} at {stored.get(offset_range.topic_partition, 'nothing')}"
                for offset_range in stuck
            ),
            is_done=all(stored.get(offset_range.topic_partition) == offset_range.until_offset for offset_range in given)
            and moved.isdisjoint(offset_range.topic_partition for offset_range in given if offset_range.count()),
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            translated = self._database.translate(error)
            if translated is None:
                raise
            raise translated from None


def _starts(offsets: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    """Sorted, so that two drivers lock rows in one order."""
    return [(partition.topic, partition.partition, offsets[partition]) for partition in sorted(offsets)]


def _joined(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """One range for each partition.

    Raises:
        OptionError: ranges of one partition have a gap between them, or overlap.
    """
    joined: dict[TopicPartition, OffsetRange] = {}
    for offset_range in sorted(ranges):
        before = joined.get(offset_range.topic_partition)
        if before is not None and before.until_offset != offset_range.from_offset:
            raise OptionError(
                option="ranges", reason=f"{before} and {offset_range} do not adjoin: one would be left out, or twice"
            )
        start = offset_range if before is None else before
        joined[offset_range.topic_partition] = OffsetRange(
            offset_range.topic, offset_range.partition, start.from_offset, offset_range.until_offset
        )
    return list(joined.values())
