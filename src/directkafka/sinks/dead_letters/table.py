"""Dead letters in a table, as a replay sees them: chosen, planned in batches, read, and taken out.

A replay first writes into each chosen dead letter which of its batches will try it (the column ``replay_claim``), so
that a batch is the same dead letters whoever does it again. What fails again comes back with the new reason, and with
the number of replays that have tried it (the column ``replays``). Both columns are added by the first replay.

A batch of dead letters is small (:data:`DEAD_LETTERS_MAX`, :data:`BYTES_MAX`), so a plain cursor brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from directkafka.errors import RowCountError, RowRejectedError, SchemaMismatchError
from directkafka.sinks.databases import load_blocks
from directkafka.sinks.dead_letters import REPLAYS

SQL = load_blocks("directkafka.sinks.dead_letters", "table.sql")

#: Which batch of which pipeline's replay holds a dead letter; null is none.
CLAIM: Final = "replay_claim"

#: A batch of a replay has at most so many dead letters, and bytes of them beyond its first.
DEAD_LETTERS_MAX: Final = 10_000
BYTES_MAX: Final = 16 * 1024 * 1024

#: As much of a reason is shown to people.
REASON_CHARACTERS_MAX: Final = 500

_RECORD: Final = '"topic", "partition", "offset"'

#: Columns without which there is nothing to replay.
_NEEDED: Final = ("topic", "partition", "offset", "value", "reason")

#: What a dead letter's columns are as Arrow; headers are the JSON that the sinks write.
_TYPES: Final = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.string(),
    REPLAYS: pa.int32(),
}
_BYTES: Final = ("key", "value")

#: Runs one statement with parameters ``$1, $2, ...``; what it returns.
Rows = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which dead letters to replay; what is None does not narrow.

    Attributes:
        reason: a text that the reason has in it.
        topic: the record's topic.
        partition: its partition.
        from_offset, until_offset: its offset, the second one exclusive.
        since_ms, until_ms: its timestamp, in milliseconds since 1970, the second one exclusive.
        limit: at most so many, the first by topic, partition and offset.
    """

    reason: str | None = None
    topic: str | None = None
    partition: int | None = None
    from_offset: int | None = None
    until_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterDialect:
    """A database's own words, with ``{0}`` and ``{1}`` for what they are applied to.

    Attributes:
        micros: a timestamp as microseconds since 1970.
        headers: headers as a JSON text, with values in base64.
        contains: whether the first text has the second in it.
        beginning: as many of the first bytes as the second number says.
        lock: what locks the rows that a query finds.
        is_same_topic: a second condition, where ``"topic" = $1`` may ignore case or spaces at the end.
        is_whole: whether ``"offset"`` is a whole number, where a column may hold others.
        text, whole: the types that a text and a whole number are cast to.
        claim_type: the type of the column for claims, which compares its texts as they are.
        update: UPDATE of the table ``{target}`` from the query ``{planned}``, where rows are ``{same}``.
    """

    micros: str
    headers: str
    contains: str
    beginning: str = "substr({0}, 1, {1})"
    lock: str = ""
    is_same_topic: str = "1 = 1"
    is_whole: str = "1 = 1"
    text: str = "TEXT"
    whole: str = "BIGINT"
    claim_type: str = "TEXT"
    update: str = (
        'UPDATE {target} AS letter SET "replay_claim" = planned.claim FROM {planned} '
        'WHERE {same} AND letter."replay_claim" IS NULL'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A dead letter, for people.

    Attributes:
        topic, partition, offset: the record's.
        timestamp_ms: its timestamp, in milliseconds since 1970; None where the table has none.
        reason: the beginning of why it was rejected.
        value: the beginning of its value; None for a tombstone.
        byte_count: how long the value is.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    reason: str
    value: bytes | None
    byte_count: int


class DeadLetterTable(Protocol):
    """The table of a sink, opened for a replay."""

    @property
    def store(self) -> str:
        """The store's label, for messages."""

    @property
    def sink(self) -> str:
        """The sink's name, for messages."""

    @property
    def target(self) -> str:
        """The table's name as SQL."""

    @property
    def dialect(self) -> DeadLetterDialect:
        """The database's own words."""

    def opened(self) -> AbstractContextManager[Rows]:
        """A session beside the ledger's, with the database's errors translated."""

    def inside(self, transaction: Any) -> Rows:
        """The store's committing transaction; errors are the database's own."""

    def columns(self) -> tuple[str, ...]:
        """The table's columns; none if there is no table."""


class DeadLetters:
    """The dead letters of one pipeline.

    Args:
        table: where they are.
        pipeline: the pipeline's name; claims begin with it.
    """

    def __init__(self, table: DeadLetterTable, pipeline: str) -> None:
        self.table = table
        self._prefix = f"{pipeline} "
        self._columns = table.columns()

    @property
    def is_there(self) -> bool:
        """Whether there is a table; the pipeline's first batch makes it."""
        return bool(self._columns)

    def check(self, selection: Selection) -> None:
        """See that the table has what a replay needs.

        Raises:
            SchemaMismatchError: it is no table of dead letters, or has no timestamps to choose by.
        """
        by_time = selection.since_ms is not None or selection.until_ms is not None
        needed = (*_NEEDED, "timestamp") if by_time else _NEEDED
        if missing := [name for name in needed if name not in self._columns]:
            raise SchemaMismatchError(
                store=self.table.store,
                sink=self.table.sink,
                detail=f"a replay needs the columns {', '.join(missing)}, which this table of dead letters lacks",
            )

    def add_columns(self) -> None:
        """Add the two columns that a replay writes, where they are not there."""
        with self.table.opened() as rows:
            for column, kind in ((REPLAYS, "INTEGER"), (CLAIM, self.table.dialect.claim_type)):
                if column not in self._columns:
                    rows(self._sql("add_column", column=column, type=kind), ())
        self._columns = self.table.columns()

    def count_by_reason(self, selection: Selection) -> dict[str, int]:
        """How many dead letters of the selection have which reason; changes nothing."""
        chosen, parameters = self._chosen(selection)
        statement = self._sql("count_by_reason", chosen=chosen, limit=_limit(selection))
        with self.table.opened() as rows:
            return {str(reason): count for reason, count in rows(statement, parameters)}

    def common_reasons(self, limit: int) -> dict[str, int]:
        """The beginnings of the most common reasons, and how many dead letters have each; changes nothing."""
        chosen, parameters = self._chosen(Selection())
        statement = self._sql("common_reasons", chosen=chosen, limit=int(limit), reason_max=REASON_CHARACTERS_MAX)
        with self.table.opened() as rows:
            return {str(reason): count for reason, count in rows(statement, parameters)}

    def count(self) -> int:
        """How many there are; changes nothing."""
        chosen, parameters = self._chosen(Selection())
        with self.table.opened() as rows:
            return int(rows(self._sql("count", chosen=chosen), parameters)[0][0])

    def examples(self, limit: int, *, bytes_max: int, reason: str | None = None) -> tuple[DeadLetter, ...]:
        """Some dead letters, sorted by topic, partition and offset; changes nothing.

        Args:
            limit: how many, at most.
            bytes_max: how much of a value is looked at.
            reason: the beginning of their reason, as :meth:`common_reasons` tells it; None for any.
        """
        chosen, parameters = self._chosen(Selection())
        if reason is not None:
            parameters.append(reason)
            text = self.table.dialect.text
            chosen += f' AND substr("reason", 1, {REASON_CHARACTERS_MAX}) = CAST(${len(parameters)} AS {text})'
        micros = self.table.dialect.micros.format('"timestamp"') if "timestamp" in self._columns else "NULL"
        beginning = self.table.dialect.beginning.format('"value"', bytes_max)
        statement = self._sql(
            "examples",
            chosen=chosen,
            limit=int(limit),
            timestamp=micros,
            value=beginning,
            reason_max=REASON_CHARACTERS_MAX,
        )
        with self.table.opened() as rows:
            dead_letter_rows = rows(statement, parameters)
        dead_letters = (
            DeadLetter(
                topic=topic,
                partition=partition,
                offset=offset,
                timestamp_ms=None if micros is None else int(micros) // 1000,
                reason=str(reason),
                value=None if value is None else bytes(value),
                byte_count=byte_count or 0,
            )
            for topic, partition, offset, micros, reason, value, byte_count in dead_letter_rows
        )
        return tuple(sorted(dead_letters, key=lambda letter: (letter.topic, letter.partition, letter.offset)))

    def plan(self, transaction: Any, selection: Selection, *, after: int) -> None:
        """Inside the ledger's transaction: let go what an earlier replay held, and give each dead letter its batch.

        Args:
            transaction: the store's.
            selection: which dead letters.
            after: the batches are numbered from the number behind this one.

        Raises:
            RowRejectedError: a record has two dead letters.
        """
        rows = self.table.inside(transaction)
        chosen, parameters = self._chosen(selection)
        double = rows(self._sql("find_double", chosen=chosen), parameters)
        if double:
            topic, partition, offset, count = double[0]
            raise RowRejectedError(
                store=self.table.store,
                sink=self.table.sink,
                detail=f"{count} dead letters are of the one record {topic}-{partition} at offset {offset}, so a "
                "replay would double its rows: delete all but one, and let each pipeline have a table of its own",
            )
        rows(self._sql("release"), (self._prefix,))
        planned = self._sql(
            "plan", chosen=chosen, limit=_limit(selection), size=self._size(), after=after,
            letters_max=DEAD_LETTERS_MAX, bytes_max=BYTES_MAX,
        )  # fmt: skip
        update = self.table.dialect.update
        rows(update.format(target=self.table.target, planned=planned, same=SQL["same_record"]), parameters)

    def planned(self) -> dict[int, int]:
        """Dead letters of each batch that is planned, by the batch's number."""
        with self.table.opened() as rows:
            counts_by_batch = rows(self._sql("planned"), (self._prefix,))
        return {int(batch): count for batch, count in counts_by_batch}

    def read(self, batch_id: int) -> pa.Table:
        """The dead letters of one batch."""
        names = [name for name in _TYPES if name in self._columns]
        columns = ", ".join(self._as_read(name) for name in names)
        with self.table.opened() as rows:
            return dead_letter_table(names, rows(self._sql("read", columns=columns), (f"{self._prefix}{batch_id}",)))

    def delete_replayed(self, transaction: Any, batch_id: int, *, expected: int) -> dict[str, int]:
        """Inside the ledger's transaction: delete the dead letters of one batch.

        Returns:
            How many had which reason.

        Raises:
            RowCountError: they are not as many as were read.
        """
        rows, claim = self.table.inside(transaction), (f"{self._prefix}{batch_id}",)
        held = rows(self._sql("held_by_reason", lock=self.table.dialect.lock), claim)
        reasons = {str(reason): count for reason, count in held}
        if (dead_letter_count := sum(reasons.values())) != expected:
            raise RowCountError(
                store=self.table.store, sink=self.table.sink, reported=expected, found=dead_letter_count
            )
        rows(self._sql("delete"), claim)
        return reasons

    def _chosen(self, selection: Selection) -> tuple[str, list[Any]]:
        """The condition on dead letters, and its parameters; the first one is the prefix of claims."""
        dialect = self.table.dialect
        micros = dialect.micros.format('"timestamp"')
        clauses = (
            (selection.reason, dialect.contains.format('"reason"', "{}")),
            (selection.topic, '"topic" = {}'),
            (selection.partition, '"partition" = {}'),
            (selection.from_offset, '"offset" >= {}'),
            (selection.until_offset, '"offset" < {}'),
            (selection.since_ms, f"{micros} >= 1000 * {{}}"),
            (selection.until_ms, f"{micros} < 1000 * {{}}"),
        )
        # A table without claims has no use for the prefix, and a database refuses a parameter that is not used.
        parameters: list[Any] = [self._prefix]
        conditions = [self._sql("mine") if CLAIM in self._columns else f"CAST($1 AS {dialect.text}) <> ''"]
        for value, clause in clauses:
            if value is not None:
                parameters.append(value)
                kind = dialect.text if isinstance(value, str) else dialect.whole
                conditions.append(clause.format(f"CAST(${len(parameters)} AS {kind})"))
        return " AND ".join(conditions), parameters

    def _sql(self, block: str, **names: object) -> str:
        dialect = self.table.dialect
        known = {"target": self.table.target, "record": _RECORD, "prefix": len(self._prefix)}
        return SQL[block].format(**known, text=dialect.text, whole=dialect.whole, **names)

    def _as_read(self, name: str) -> str:
        column, dialect = f'"{name}"', self.table.dialect
        words = {"timestamp": dialect.micros, "headers": dialect.headers, REPLAYS: "coalesce({0}, 0)"}
        return words.get(name, "{0}").format(column)

    def _size(self) -> str:
        """A letter's bytes, about."""
        names = [f'coalesce(octet_length("{name}"), 0)' for name in _BYTES if name in self._columns]
        return " + ".join(names)


def _limit(selection: Selection) -> str:
    return "" if selection.limit is None else f" LIMIT {int(selection.limit)}"


def dead_letter_table(names: Sequence[str], rows: Sequence[Sequence[Any]] = ()) -> pa.Table:
    """Dead letters as the source's columns, and how many replays have tried them.

    Args:
        names: of the columns, of those that a dead letter may have.
        rows: their cells; timestamps in microseconds since 1970, headers as JSON.
    """
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    schema = pa.schema([(name, _TYPES[name]) for name in names])
    return pa.table([pa.array(column, field.type) for column, field in zip(cells, schema, strict=True)], schema=schema)
