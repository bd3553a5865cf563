"""The protocol behind OffsetStore: what a database must be able to do to keep a program's offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from directkafka.errors import DirectKafkaError
from directkafka.offsets import OffsetRange, TopicPartition

__all__ = ["OffsetDatabase"]


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
        ...

    def session(self, *, make: bool) -> AbstractContextManager[Any]:
        """A connection for :meth:`stored` and :meth:`start`, with a transaction that is committed when it ends well.

        Args:
            make: make the table if it is not there. Without, it gives None where there is no table, and makes nothing.
        """
        ...

    def is_in_transaction(self, connection: Any) -> bool:
        """Whether what is changed over a connection is committed when the program says so, and not at once."""
        ...

    def stored(self, connection: Any, stream: str) -> Iterable[tuple[str, int, int]]:
        """Topic, partition and next offset of each row of a stream."""
        ...

    def start(self, connection: Any, stream: str, offsets: Sequence[tuple[str, int, int]]) -> None:
        """Insert rows (topic, partition, next offset) for partitions that the stream has not met; others stay."""
        ...

    def advance(self, connection: Any, stream: str, ranges: Sequence[OffsetRange]) -> set[TopicPartition]:
        """Set the next offset to a range's end in each row that stands at its start; no two ranges share a partition.

        The condition and the change must be one statement, or the row locked before: of two programs with one range,
        one must find the row moved.

        Returns:
            The partitions whose rows stood there.
        """
        ...

    def translate(self, error: Exception) -> DirectKafkaError | None:
        """The project's error for one of the database's, None for any other error: it is raised as it is."""
        ...
