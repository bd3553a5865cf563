"""The decoder of Debezium's events in Avro, whether they name schemas of a registry or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from directkafka.errors.registry import SchemaNotFoundError
from directkafka.options.schemas.avro_texts import schema_text
from directkafka.options.schemas.ddl import FieldType
from directkafka.options.schemas.debezium import parse_event, row_type, with_logical_types
from directkafka.payloads.avro.decoder import AvroDecoder
from directkafka.payloads.debezium.changes import changes_of
from directkafka.payloads.registry.avro import AvroRecords, avro_of
from directkafka.payloads.registry.client import RegisteredSchema
from directkafka.payloads.registry.decoder import RegisteredDecoder
from directkafka.payloads.texts import plain


class AvroEvents(AvroRecords):
    """Columns of an event, or of a key, for records of any schema that resolves to theirs."""

    def program(self, registered: RegisteredSchema, indexes: tuple[int, ...]) -> int:
        """What reads records of a schema; see :class:`~directkafka.payloads.registry.avro.AvroRecords`."""
        return super().program(_in_avros_words(registered), indexes)


def reader_schema_of(registered: RegisteredSchema, message: str) -> tuple[FieldType, str]:
    """The column that is for the rows of an event, and the event's schema as one text, whatever it refers to.

    Raises:
        ValueError: it is not Avro's, is none of an event, or no column is for its rows.
    """
    event = parse_event(schema_text(avro_of(_in_avros_words(registered))))
    return row_type(event), schema_text(event)


def _in_avros_words(registered: RegisteredSchema) -> RegisteredSchema:
    return replace(registered, texts=tuple(map(with_logical_types, registered.texts)))


class DebeziumAvroDecoder:
    """Decodes events of one table, in one thread.

    Args:
        row: the columns of a row.
        events: decodes the parts of events that are read.
        keys: decodes keys to rows; None: nobody knows their schema.

    Attributes:
        keys: of the events that are decoded next; None: nobody knows them.
        headers: of the records that are decoded next; None: nobody looks for schemas there.
        problems: why an event of the last column cannot be read, by its number.
        added: the columns beside the rows of the last column, by name.
        schema_ids: of the last column, the number of each event's schema; null where there is none.
        missed_row: the first event that names the schema that is not there, where that was an error.
    """

    def __init__(
        self, row: pa.StructType, events: AvroDecoder | RegisteredDecoder, keys: RegisteredDecoder | None = None
    ) -> None:
        self._row, self._events, self._keys = row, events, keys
        self.keys: pa.Array | None = None
        self.headers: pa.Array | None = None
        self.problems: dict[int, str] = {}
        self.added: Mapping[str, pa.Array] = {}
        self.schema_ids: pa.Array = pa.nulls(0, pa.int32())
        self.missed_row: int | None = None

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """Decode a column.

        Args:
            texts: binary.

        Returns:
            A row for each event: as it became, or of a deleted one what the event carries.

        Raises:
            RegistryError: a schema is not known yet, and the registry does not give it.
        """
        texts = plain(texts)
        if isinstance(self._events, RegisteredDecoder):
            self._events.headers = self.headers
        events = self._decoded(self._events, texts)
        if isinstance(self._events, RegisteredDecoder):
            self.schema_ids = self._events.schema_ids
        tombstones = texts.is_null().to_numpy(zero_copy_only=False)
        changes = changes_of(events, tombstones, self._events.problems, self._rows_of_keys)
        self.problems, self.added = changes.problems, changes.added()
        return changes.rows

    def _rows_of_keys(self, numbers: Any) -> tuple[pa.StructArray, dict[int, str]]:
        """The columns that keys have, and what is wrong with a key; one that is null has none."""
        if self.keys is None or self._keys is None:
            return pa.nulls(len(numbers), self._row), {}
        places = pa.array(numbers)
        self._keys.headers = None if self.headers is None else self.headers.take(places)
        return self._decoded(self._keys, self.keys.take(places), numbers), self._keys.problems

    def _decoded(self, decoder: AvroDecoder | RegisteredDecoder, texts: pa.Array, numbers: Any = None) -> pa.Array:
        """A column; ``numbers``: of the events that its texts belong to, where these are not all."""
        try:
            return decoder.decode(texts)
        except SchemaNotFoundError:
            assert isinstance(decoder, RegisteredDecoder), "only a registry's decoder asks for schemas"
            row = decoder.missed_row
            self.missed_row = row if numbers is None or row is None else int(numbers[row])
            raise
