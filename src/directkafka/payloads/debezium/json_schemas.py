"""JSON as Kafka Connect's converter writes it: a value alone, or as the payload behind its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.payloads.json.decoder import JsonDecoder

PAYLOAD: Final = "payload"
#: Schemas that one range has. Each is one more way to read its texts.
_SCHEMAS_MAX: Final = 1_000


class Reader(Protocol):
    """Reads texts of one schema.

    Attributes:
        problems: what is wrong with a text of the last column, by its number.
    """

    problems: dict[int, str]

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """A row for each text."""


class ReaderBySchema:
    """Reads texts, each as the schema in front of it says, in one thread.

    Args:
        type: of the rows.
        reader_of: makes what reads texts of a schema; None: of those that have none. ValueError: they cannot be read.

    Attributes:
        problems: what is wrong with a text of the last column, by its number.
    """

    def __init__(self, type: pa.StructType, reader_of: Callable[[str | None], Reader]) -> None:
        self._type, self._reader_of = type, reader_of
        self._schemas = JsonDecoder(pa.struct([("schema", pa.string())]), explains=False)
        self._readers: dict[str | None, Reader | str] = {}
        self.problems: dict[int, str] = {}

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """Decode a column.

        Args:
            texts: binary or string.

        Returns:
            A row for each text; null for a null, for a blank one, and where its schema is for no row.
        """
        self.problems = {}
        found = self._schemas.decode(texts).field("schema").dictionary_encode()
        schemas = [*found.dictionary.to_pylist(), None]
        numbers = pc.fill_null(found.indices, len(schemas) - 1).to_numpy(zero_copy_only=False)
        parts, places = [pa.nulls(0, self._type)], [np.empty(0, np.int64)]
        for number, schema in enumerate(schemas):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                parts.append(self._part(texts, rows, schema))
                places.append(rows)
        if len(places) == 2:  # the empty one, and that of the only schema
            return parts[1]
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))

    def _part(self, texts: pa.Array, rows: np.ndarray[tuple[int], np.dtype[np.int64]], schema: str | None) -> pa.Array:
        reader = self._reader(schema)
        if isinstance(reader, str):
            self.problems.update(dict.fromkeys(rows.tolist(), reader))
            return pa.nulls(len(rows), self._type)
        part = reader.decode(texts if len(rows) == len(texts) else texts.take(pa.array(rows)))
        self.problems.update({int(rows[place]): problem for place, problem in reader.problems.items()})
        return part

    def _reader(self, schema: str | None) -> Reader | str:
        if schema not in self._readers:
            if len(self._readers) > _SCHEMAS_MAX:
                return f"its schema was not read: {_SCHEMAS_MAX} others are known"
            try:
                self._readers[schema] = self._reader_of(schema)
            except ValueError as error:
                self._readers[schema] = str(error)
        return self._readers[schema]


class StructReader:
    """Reads structs, behind one schema or behind none.

    Args:
        type: the struct.
        has_schema: whether they are the payload behind a schema. Those that are not may still be one.
        time_zone: of timestamps that name none.
    """

    def __init__(self, type: pa.StructType, *, has_schema: bool, time_zone: str) -> None:
        self._type = type
        # A struct may have a field of that name itself.
        self._has_payload = has_schema or PAYLOAD not in type.names
        alone = [] if has_schema else list(type)
        behind = [pa.field(PAYLOAD, type)] if self._has_payload else []
        self._decoder = JsonDecoder(pa.struct([*alone, *behind]), time_zone)
        self._is_alone = not has_schema
        self.problems: dict[int, str] = {}

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """A row for each text."""
        outer = self._decoder.decode(texts)
        self.problems = self._decoder.problems
        if not self._has_payload:
            return outer
        inner = pc.struct_field(outer, PAYLOAD)
        if not self._is_alone or not inner.null_count:
            return inner
        fields = [outer.field(name) for name in self._type.names]
        mask = outer.is_null() if outer.null_count else None
        alone = pa.StructArray.from_arrays(fields, fields=list(self._type), mask=mask)
        if inner.null_count == len(inner):
            return alone
        places = np.arange(len(outer))
        places[inner.is_valid().to_numpy(zero_copy_only=False)] += len(outer)
        return pa.concat_arrays([alone, inner]).take(pa.array(places))
