"""Dead letters in a table of an embedded database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from directkafka.sinks.dead_letters.table import DeadLetterDialect, Rows
from directkafka.sinks.embedded.file.connection import FileTransaction, quoted
from directkafka.sinks.embedded.store import EmbeddedStore
from directkafka.sinks.embedded.table_schema import Dialect

_DIALECTS: Final = {
    "sqlite": DeadLetterDialect(
        # Timestamps are texts, 2013-01-01 05:00:00.000000+00:00.
        micros=(
            "(CAST(strftime('%s', substr({0}, 1, 19)) AS INTEGER) * 1000000 + CAST(substr({0}, 21, 6) AS INTEGER))"
        ),
        headers="{0}",
        contains="instr({0}, {1}) > 0",
        is_same_topic='"topic" = $1 COLLATE BINARY',
        is_whole="typeof(\"offset\") = 'integer' AND typeof(\"partition\") = 'integer'",
    ),
    "duckdb": DeadLetterDialect(
        micros="epoch_us({0})",
        headers="CAST(to_json([{{'key': one.key, 'value': base64(one.value)}} for one in {0}]) AS VARCHAR)",
        contains="contains({0}, {1})",
        beginning="array_slice({0}, 1, {1})",
    ),
}


class EmbeddedDeadLetters:
    """A sink's table, opened for a replay; see :class:`~directkafka.sinks.dead_letters.table.DeadLetterTable`.

    Args:
        store: the file's.
        dialect: of the sink's tables.
        name: parts of the table's name.
        sink: the sink's name.
    """

    def __init__(self, store: EmbeddedStore, dialect: Dialect, name: Sequence[str], *, sink: str) -> None:
        self._store = store
        self._tables = dialect
        self._name = tuple(name)
        self.sink = sink
        self.store = store.file.label
        self.target = quoted(*name)
        self.dialect = _DIALECTS[store.file.kind]

    @contextmanager
    def opened(self) -> Iterator[Rows]:
        """The file, open for a moment."""
        with self._store.opened(sink=self.sink) as connection:
            yield connection.rows

    def inside(self, transaction: FileTransaction) -> Rows:
        """The committing transaction."""
        return transaction.connection.rows

    def columns(self) -> tuple[str, ...]:
        """From the catalog; a file that is not there is not made."""
        if not self._store.file.path.exists():
            return ()
        with self._store.opened(sink=self.sink) as connection:
            table = self._tables.read_table(connection, self._name)
        return tuple(column.name for column in table.columns) if table is not None else ()
