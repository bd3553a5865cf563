"""The bytes in front of a record that name its schema, as Confluent's serializers write them; or a header that does.

A zero byte, and the schema's number in four bytes, the highest first; then, if the schema has several messages, which
of them it is (:mod:`.message_indexes`). In a header it is the same, and the record has nothing in front. There it may
also be a one, and the schema's GUID in 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.payloads.registry.message_indexes import FIRST, read_message_indexes
from directkafka.payloads.texts import Texts

#: Bytes in front of a record.
FRAME: Final = 5
#: The headers that may name a record's schemas instead.
SCHEMA_HEADERS: Final = {"value": "__value_schema_id", "key": "__key_schema_id"}
_MAGIC: Final = 0
_GUID_MAGIC: Final = 1
_GUID_FRAME: Final = 17
_SCHEMA_MAX: Final = (1 << 31) - 1
#: In place of a number: the record is null, or names none.
NO_SCHEMA: Final = -1
#: In place of a number: the first of the GUIDs. The second one is a number below, and so on.
FIRST_GUID: Final = -2


@dataclass(frozen=True, slots=True)
class Frames:
    """What the records of a column say of their schemas.

    Attributes:
        schemas: int64, of each record its schema's number, or :data:`NO_SCHEMA`, or one of :data:`FIRST_GUID` and
            below.
        starts: int64, of each record the position of its first byte behind the frame.
        problems: what is wrong with a record, by its number.
        messages: int64, of each record the place of its message's indexes in ``paths``.
        paths: the indexes of messages.
        guids: of schemas that records name in this way.
    """

    schemas: Any
    starts: Any
    problems: dict[int, str]
    messages: Any
    paths: list[tuple[int, ...]]
    guids: list[UUID]


def read_frames(texts: Texts, nulls: Any, *, names_messages: bool = False) -> Frames:
    """Read what stands in front of each record.

    Args:
        texts: the column.
        nulls: bool, which records are null.
        names_messages: whether a message is named behind the schema.
    """
    return _read(texts, nulls, names_messages=names_messages, has_guids=False)


def _read(texts: Texts, nulls: Any, *, names_messages: bool, has_guids: bool) -> Frames:
    starts = texts.ends[:-1]
    lengths = texts.ends[1:] - starts
    framed = np.flatnonzero(~nulls & (lengths >= FRAME))
    schemas = np.full(len(starts), NO_SCHEMA, np.int64)
    magic, numbers = _numbers(texts.data, starts[framed])
    has_number = magic == _MAGIC
    has_guid = (magic == _GUID_MAGIC) & (lengths[framed] >= _GUID_FRAME) & has_guids
    numbered, named = framed[has_number], framed[has_guid]
    codes, guids = _guids(texts.data, starts[named] + 1)
    schemas[numbered] = numbers[has_number]
    too_large = np.flatnonzero(schemas > _SCHEMA_MAX)
    schemas[too_large] = NO_SCHEMA
    problems = {
        int(number): f"it has {lengths[number]} bytes, and a schema's number in front of a record has {FRAME}"
        for number in np.flatnonzero(~nulls & (lengths < FRAME))
    }
    problems |= dict.fromkeys(too_large.tolist(), "the number of its schema is above 2147483647, which none has")
    others = ~(has_number | has_guid)
    for number, byte in zip(framed[others].tolist(), magic[others].tolist(), strict=True):
        problems[number] = f"it begins with the byte 0x{byte:02x}, not with 0x00 and a schema's number"
    behind = np.where(schemas == NO_SCHEMA, starts, starts + FRAME)
    schemas[named], behind[named] = FIRST_GUID - codes, starts[named] + _GUID_FRAME
    messages, paths = np.zeros(len(starts), np.int64), [FIRST]
    if names_messages:
        rows = np.flatnonzero(schemas != NO_SCHEMA)
        found_messages = read_message_indexes(texts.data, behind[rows], texts.ends[1:][rows])
        behind[rows], messages[rows], paths = found_messages.behind, found_messages.codes, found_messages.paths
        for index, problem in found_messages.problems.items():
            problems[int(rows[index])] = problem
        schemas[[int(rows[index]) for index in found_messages.problems]] = NO_SCHEMA
    return Frames(schemas, behind, problems, messages, paths, guids)


def read_headers(texts: Texts, nulls: Any, headers: pa.Array, name: str, *, names_messages: bool = False) -> Frames:
    """Read the header that names each record's schema; of several the last one counts, as in Java.

    Where a record has none, its schema's number stands in front of it.

    Args:
        texts: the column.
        nulls: bool, which records are null.
        headers: of each record a list of key and value.
        name: of the header.
        names_messages: whether a message is named behind the schema.
    """
    frames = read_frames(texts, nulls, names_messages=names_messages)
    named_rows, own_frames, problems = _of_headers(headers, name, names_messages=names_messages)
    keep = ~nulls[named_rows]
    rows = named_rows[keep]
    frames.schemas[rows] = own_frames.schemas[keep]
    frames.starts[rows] = texts.ends[:-1][rows]
    frames.messages[rows] = own_frames.messages[keep] + len(frames.paths)
    own = {number: problem for number, problem in problems.items() if not nulls[number]}
    named = set(rows.tolist())
    kept = {number: problem for number, problem in frames.problems.items() if number not in named}
    paths = frames.paths + own_frames.paths
    return Frames(frames.schemas, frames.starts, kept | own, frames.messages, paths, own_frames.guids)


def _of_headers(headers: pa.Array, name: str, *, names_messages: bool) -> tuple[Any, Frames, dict[int, str]]:
    """Rows with such a header, what the headers say, and what is wrong with them."""
    entries = headers.flatten()
    chosen = np.flatnonzero(pc.equal(entries.field("key"), name).to_numpy(zero_copy_only=False))
    rows = pc.list_parent_indices(headers).to_numpy()[chosen].astype(np.int64)
    # Of several in one row the last one.
    last = len(rows) - 1 - np.unique(rows[::-1], return_index=True)[1]
    rows, chosen = rows[last], chosen[last]
    header_values = entries.field("value").take(pa.array(chosen))
    values = Texts.of(header_values)
    nulls = header_values.is_null().to_numpy(zero_copy_only=False)
    frames = _read(values, nulls, names_messages=names_messages, has_guids=True)
    # Behind the schema, and the message, there is nothing.
    frames.schemas[frames.starts != values.ends[1:]] = NO_SCHEMA
    nameless = rows[frames.schemas == NO_SCHEMA].tolist()
    return rows, frames, dict.fromkeys(nameless, f"the header {name} names no schema")


def _numbers(data: Any, starts: Any) -> tuple[Any, Any]:
    """Of each place the byte there, and the number in the four bytes behind it."""
    digits = [data[starts + index].astype(np.int64) for index in range(FRAME)]
    return digits[0], (digits[1] << 24) | (digits[2] << 16) | (digits[3] << 8) | digits[4]


def _guids(data: Any, starts: Any) -> tuple[Any, list[UUID]]:
    """Of each place which of the GUIDs stands there, and the GUIDs."""
    length = _GUID_FRAME - 1
    guid_bytes = np.ascontiguousarray(data[starts[:, None] + np.arange(length)]).view(f"V{length}").reshape(-1)
    different, codes = np.unique(guid_bytes, return_inverse=True)
    return codes.reshape(-1), [UUID(bytes=guid.tobytes()) for guid in different]
