"""Offsets in a file: what SQLite and DuckDB share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.sinks.embedded.file.connection import resolved
from directkafka.sinks.embedded.file.locks import describe_holders
from directkafka.sinks.sql_files import load_blocks

__all__ = ["FileOffsets"]

_SQL: Final = load_blocks("directkafka.sinks.embedded", "offset_store.sql")


class FileOffsets(ABC):
    """A file; see :class:`~directkafka.sinks.offset_database.OffsetDatabase`.

    It is opened in the program's own process and by the library that the program uses itself, which then knows of both
    connections: another copy of it would drop the program's lock when it closes the file.
    """

    #: The database's name.
    name: ClassVar[str]

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        self._path = resolved(path, kind=self.name)
        self._lock_timeout_s = lock_timeout_s

    @property
    def label(self) -> str:
        """The file."""
        return f"{self.name.lower()} {self._path}"

    @contextmanager
    def session(self, *, make: bool) -> Iterator[Any]:
        """A connection, if there is a file or one may be made."""
        if not make and not self._path.exists():
            yield None
            return
        with self._opened() as connection:
            if make:
                self._change(connection, _SQL["create"])
            is_there = make or self._rows(connection, _SQL["exists"])[0][0]
            yield connection if is_there else None

    def stored(self, connection: Any, stream: str) -> Iterable[tuple[str, int, int]]:
        """All rows of the stream."""
        return self._rows(connection, _SQL["load"], stream)

    def start(self, connection: Any, stream: str, offsets: Sequence[tuple[str, int, int]]) -> None:
        """Row by row: a stream has few partitions."""
        for place in offsets:
            self._change(connection, _SQL["preload"], stream, *place)

    def advance(self, connection: Any, stream: str, ranges: Sequence[OffsetRange]) -> set[TopicPartition]:
        """Row by row; the first one keeps other programs from writing until the transaction ends."""
        return {
            one.topic_partition
            for one in ranges
            if self._change(
                connection, _SQL["advance"], one.until_offset, stream, one.topic, one.partition, one.from_offset
            )
        }

    @abstractmethod
    def _opened(self) -> Any:
        """A context with a connection; its transaction is committed at the end."""

    @abstractmethod
    def _rows(self, connection: Any, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What a query returns."""

    @abstractmethod
    def _change(self, connection: Any, statement: str, *parameters: object) -> int:
        """How many rows a statement has changed."""

    def _locked(self) -> str:
        holders = describe_holders(self._path) or "another connection"
        return f"the file has been kept for {self._lock_timeout_s:g} s by {holders}"
