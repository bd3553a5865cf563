"""JSON as Kafka Connect's converter writes it: a value alone, or as the payload behind its schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.payloads.json.decoder import JsonDecoder

PAYLOAD: Final = "payload"
#: Schemas that one range has. Each is one more way to read its texts.
_SCHEMAS_MAX: Final = 1_000
#: What stands in front of a schema and behind it: as Kafka Connect writes it, and as Python does.
_FRAMES: Final = ((b'{"schema":', b',"payload":'), (b'{"schema": ', b', "payload": '))
#: Schemas that are looked for so in one column.
_FRAMES_MAX: Final = 100
#: How texts begin that may have a schema.
_MAY_HAVE_SCHEMA: Final = rb"^\s*\{\s*\"(schema|payload)\""

#: Numbers of texts, as an array.
Rows = np.ndarray[tuple[int], np.dtype[np.int64]]


class Reader(Protocol):
    """Reads texts of one schema.

    Attributes:
        problems: what is wrong with a text of the last column, by its number.
    """

    problems: dict[int, str]

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """A row for each text."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How some texts hold their values.

    Attributes:
        schema: the schema in front of them, as JSON; None: there is none.
        is_cut_out: whether the texts are the values alone, without the schema.
    """

    schema: str | None = None
    is_cut_out: bool = False


class ReaderBySchema:
    """Reads texts, each as the schema in front of it says, in one thread.

    Args:
        type: of the rows.
        reader_of: makes what reads the texts of a layout. ValueError: they cannot be read.

    Attributes:
        problems: what is wrong with a text of the last column, by its number.
    """

    def __init__(self, type: pa.StructType, reader_of: Callable[[Layout], Reader]) -> None:
        self._type, self._reader_of = type, reader_of
        # What has no payload is a value with a field of that name.
        self._schemas = JsonDecoder(pa.struct([("schema", pa.string()), (PAYLOAD, pa.string())]), explains=False)
        self._readers: dict[Layout, Reader | str] = {}
        self.problems: dict[int, str] = {}

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """Decode a column.

        Args:
            texts: binary.

        Returns:
            A row for each text; null for a null, for a blank one, and where its schema is for no row.
        """
        self.problems = {}
        parts, places = [pa.nulls(0, self._type)], [np.empty(0, np.int64)]
        for layout, rows, part in self._parts(texts):
            parts.append(self._read(layout, rows, part))
            places.append(rows)
        order = np.concatenate(places)
        whole = parts[1] if len(parts) == len(places) == 2 else pa.concat_arrays(parts)
        return whole if (order == np.arange(len(order))).all() else whole.take(pa.array(np.argsort(order)))

    def _parts(self, texts: pa.Array) -> Iterator[tuple[Layout, Rows, pa.Array]]:
        """The texts by their schemas, with their numbers."""
        maybe = _is(pc.match_substring_regex(texts, _MAY_HAVE_SCHEMA))
        if not maybe.all():
            rows = np.flatnonzero(~maybe)
            yield Layout(), rows, _taken(texts, rows)
        left = np.flatnonzero(maybe)
        # As a rule one text after the other has the same schema, in the same words.
        unframed = []
        for _ in range(_FRAMES_MAX):
            if not len(left):
                break
            if (frame := _frame_of(texts[int(left[0])].as_py())) is None:
                unframed.append(left[:1])
                left = left[1:]
                continue
            head, schema = frame
            rest = _taken(texts, left)
            is_framed = _is(pc.and_(pc.starts_with(rest, head), pc.ends_with(rest, b"}")))
            part = rest if is_framed.all() else rest.filter(pa.array(is_framed))
            yield Layout(schema, is_cut_out=True), left[is_framed], pc.binary_slice(part, len(head), -1)
            left = left[~is_framed]
        left = np.sort(np.concatenate([*unframed, left]))
        yield from self._looked_through(_taken(texts, left), left)

    def _looked_through(self, texts: pa.Array, rows: Rows) -> Iterator[tuple[Layout, Rows, pa.Array]]:
        """Texts of which it takes a parser to know whether they have a schema."""
        schemas, payloads = self._schemas.decode(texts).flatten()
        encoded_schemas = pc.if_else(payloads.is_valid(), schemas, pa.scalar(None, pa.string())).dictionary_encode()
        names = [*encoded_schemas.dictionary.to_pylist(), None]
        numbers = pc.fill_null(encoded_schemas.indices, len(names) - 1).to_numpy(zero_copy_only=False)
        for number in np.unique(numbers).tolist():
            inside = np.flatnonzero(numbers == number)
            yield Layout(names[number]), rows[inside], _taken(texts, inside)

    def _read(self, layout: Layout, rows: Rows, texts: pa.Array) -> pa.Array:
        reader = self._reader(layout)
        if isinstance(reader, str):
            self.problems.update(dict.fromkeys(rows.tolist(), reader))
            return pa.nulls(len(rows), self._type)
        part = reader.decode(texts)
        self.problems.update({int(rows[number]): problem for number, problem in reader.problems.items()})
        return part

    def _reader(self, layout: Layout) -> Reader | str:
        if layout not in self._readers:
            if len(self._readers) > _SCHEMAS_MAX:
                return f"its schema was not read: {_SCHEMAS_MAX} others are known"
            try:
                self._readers[layout] = self._reader_of(layout)
            except ValueError as error:
                self._readers[layout] = str(error)
        return self._readers[layout]


def _taken(texts: pa.Array, rows: Rows) -> pa.Array:
    return texts if len(rows) == len(texts) else texts.take(pa.array(rows))


def _is(flags: pa.Array) -> Any:
    return pc.fill_null(flags, False).to_numpy(zero_copy_only=False)


def _frame_of(text: bytes) -> tuple[bytes, str | None] | None:
    """What stands in front of a text's value, and the schema in it; None where it takes a parser to know."""
    for head, between in _FRAMES:
        end = text.find(between)
        if text.startswith(head) and text.endswith(b"}") and end > 0:
            schema = _json(text[len(head) : end])
            if schema is not None:
                return text[: end + len(between)], None if schema == "null" else schema
    return None


@lru_cache(maxsize=_SCHEMAS_MAX)
def _json(content: bytes) -> str | None:
    """A text that is JSON; None for what is none."""
    try:
        text = content.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return text


class StructReader:
    """Reads structs, behind one schema or behind none.

    Args:
        type: the struct.
        layout: where they stand: cut out, as the payload behind a schema, or alone. The last may still be a payload.
        time_zone: of timestamps that name none.
    """

    def __init__(self, type: pa.StructType, layout: Layout, time_zone: str) -> None:
        self._type = type
        has_schema = layout.schema is not None and not layout.is_cut_out
        # A struct may have a field of that name itself.
        self._has_payload = has_schema or not (layout.is_cut_out or PAYLOAD in type.names)
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
