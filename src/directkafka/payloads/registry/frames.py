"""The bytes in front of a record that name its schema, as Confluent's serializers write them; or a header that does.

A zero byte, and the schema's number in four bytes, the highest first. In a header it is the same, and the record has
nothing in front.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.payloads.texts import Texts

#: Bytes in front of a record.
FRAME: Final = 5
_MAGIC: Final = 0
#: What a header has besides, and how many bytes it is: a one, and 16 bytes.
_GUID: Final = "a schema's GUID, and only numbers are read"
_GUID_BYTES: Final = 17
#: In place of a number: the record is null, or names none.
NO_SCHEMA: Final = -1


@dataclass(frozen=True, slots=True)
class Frames:
    """What the records of a column say of their schemas.

    Attributes:
        schemas: int64, of each record its schema's number, or :data:`NO_SCHEMA`.
        starts: int64, of each record the position of its first byte behind the frame.
        problems: what is wrong with a record, by its number.
    """

    schemas: Any
    starts: Any
    problems: dict[int, str] = field(default_factory=dict)


def read_frames(texts: Texts, nulls: Any) -> Frames:
    """Read what stands in front of each record.

    Args:
        texts: the column.
        nulls: bool, which records are null.
    """
    starts = texts.ends[:-1]
    lengths = texts.ends[1:] - starts
    framed = np.flatnonzero(~nulls & (lengths >= FRAME))
    schemas = np.full(len(starts), NO_SCHEMA, np.int64)
    magic, numbers = _numbers(texts.data, starts[framed])
    known = magic == _MAGIC
    schemas[framed[known]] = numbers[known]
    problems = {
        int(number): f"it has {lengths[number]} bytes, and a schema's number in front of a record has {FRAME}"
        for number in np.flatnonzero(~nulls & (lengths < FRAME))
    }
    for number, found in zip(framed[~known].tolist(), magic[~known].tolist(), strict=True):
        problems[number] = f"it begins with the byte 0x{found:02x}, not with 0x00 and a schema's number"
    return Frames(schemas, np.where(schemas == NO_SCHEMA, starts, starts + FRAME), problems)


def read_headers(texts: Texts, nulls: Any, headers: pa.Array, name: str) -> Frames:
    """Read the header that names each record's schema; of several the last one counts, as in Java.

    Where a record has none, its schema's number stands in front of it.

    Args:
        texts: the column.
        nulls: bool, which records are null.
        headers: of each record a list of key and value.
        name: of the header.
    """
    found = read_frames(texts, nulls)
    rows, numbers, problems = _of_headers(headers, name)
    keep = ~nulls[rows]
    rows, numbers = rows[keep], numbers[keep]
    found.schemas[rows] = numbers
    found.starts[rows] = texts.ends[:-1][rows]
    own = {number: problem for number, problem in problems.items() if not nulls[number]}
    named = set(rows.tolist())
    kept = {number: problem for number, problem in found.problems.items() if number not in named}
    return Frames(found.schemas, found.starts, kept | own)


def _of_headers(headers: pa.Array, name: str) -> tuple[Any, Any, dict[int, str]]:
    """Rows with such a header, the schemas' numbers, and what is wrong with headers."""
    entries = headers.flatten()
    chosen = np.flatnonzero(pc.equal(entries.field("key"), name).to_numpy(zero_copy_only=False))
    rows = pc.list_parent_indices(headers).to_numpy()[chosen].astype(np.int64)
    # Of several in one row the last one.
    last = len(rows) - 1 - np.unique(rows[::-1], return_index=True)[1]
    rows, chosen = rows[last], chosen[last]
    values = Texts.of(entries.field("value").take(pa.array(chosen)))
    starts = values.ends[:-1]
    lengths = values.ends[1:] - starts
    numbers = np.full(len(rows), NO_SCHEMA, np.int64)
    framed = np.flatnonzero(lengths == FRAME)
    magic, found = _numbers(values.data, starts[framed])
    numbers[framed[magic == _MAGIC]] = found[magic == _MAGIC]
    problems = {
        int(rows[index]): f"the header {name} names {_GUID if lengths[index] == _GUID_BYTES else 'no schema'}"
        for index in np.flatnonzero(numbers == NO_SCHEMA)
    }
    return rows, numbers, problems


def _numbers(data: Any, starts: Any) -> tuple[Any, Any]:
    """Of each place the byte there, and the number in the four bytes behind it."""
    digits = [data[starts + place].astype(np.int64) for place in range(FRAME)]
    return digits[0], (digits[1] << 24) | (digits[2] << 16) | (digits[3] << 8) | digits[4]
