"""The decoder of Debezium's events in JSON, as Kafka Connect's converter writes them, with schemas or without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from directkafka.payloads.debezium.changes import SOURCE_FIELDS, changes_of
from directkafka.payloads.debezium.connect_types import Wires, converted, written_row
from directkafka.payloads.debezium.json_schemas import Layout, ReaderBySchema, StructReader
from directkafka.payloads.texts import plain

#: Of a change.
_SIDES = ("before", "after")


class DebeziumJsonDecoder:
    """Decodes events of one table, in one thread.

    Args:
        row: the columns that are wanted.
        time_zone: of timestamps that name none.

    Attributes:
        keys: of the events that are decoded next; None: nobody knows them.
        problems: why an event of the last column cannot be read, by its number.
        added: the columns beside the rows of the last column, by name.
    """

    def __init__(self, row: pa.StructType, time_zone: str = "UTC") -> None:
        self._row = row
        self._events = ReaderBySchema(_event_type(row), lambda layout: _Events(row, layout, time_zone))
        self._keys = ReaderBySchema(row, lambda layout: _Keys(row, layout, time_zone))
        self.keys: pa.Array | None = None
        self.problems: dict[int, str] = {}
        self.added: Mapping[str, pa.Array] = {}

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """Decode a column.

        Args:
            texts: binary or string.

        Returns:
            A row for each event: as it became, or of a deleted one what the event carries.
        """
        texts = plain(texts)
        events = self._events.decode(texts)
        tombstones = texts.is_null().to_numpy(zero_copy_only=False)
        changes = changes_of(events, tombstones, self._events.problems, self._rows_of_keys)
        self.problems, self.added = changes.problems, changes.added()
        return changes.rows

    def _rows_of_keys(self, numbers: Any) -> tuple[pa.StructArray, dict[int, str]]:
        """The columns that keys have, and what is wrong with a key; one that is null has none."""
        if self.keys is None:
            return pa.nulls(len(numbers), self._row), {}
        return self._keys.decode(plain(self.keys.take(pa.array(numbers)))), self._keys.problems


class _Events:
    """Reads events of one schema, or without."""

    def __init__(self, row: pa.StructType, layout: Layout, time_zone: str) -> None:
        wires = Wires(row, time_zone)
        self._row, self._wires = row, wires.alone() if layout.schema is None else wires.of_events(layout.schema)
        written = _event_type(written_row(row, self._wires))
        self._reader = StructReader(written, layout, time_zone)
        self.problems: dict[int, str] = {}

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """A row for each event: before, after, source and op."""
        events = self._reader.decode(texts)
        self.problems = self._reader.problems
        if not self._wires:
            return events
        columns = dict(zip(events.type.names, events.flatten(), strict=True))
        for name in _SIDES:
            columns[name] = converted(columns[name], self._row, self._wires, self.problems, name)
        mask = events.is_null() if events.null_count else None
        return pa.StructArray.from_arrays(list(columns.values()), fields=list(_event_type(self._row)), mask=mask)


class _Keys:
    """Reads keys of one schema, or without."""

    def __init__(self, row: pa.StructType, layout: Layout, time_zone: str) -> None:
        wires = Wires(row, time_zone)
        self._row, self._wires = row, wires.alone() if layout.schema is None else wires.of_keys(layout.schema)
        self._reader = StructReader(written_row(row, self._wires), layout, time_zone)
        self.problems: dict[int, str] = {}

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """A row for each key, with its columns; the others are null."""
        keys = self._reader.decode(texts)
        self.problems = self._reader.problems
        return converted(keys, self._row, self._wires, self.problems, "")


def _event_type(row: pa.StructType) -> pa.StructType:
    return pa.struct([("before", row), ("after", row), ("source", pa.struct(SOURCE_FIELDS)), ("op", pa.string())])
