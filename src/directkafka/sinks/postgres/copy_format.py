"""Postgres' binary COPY format: its frame, its types, and the statement that takes rows in it.

Rows are encoded in :mod:`directkafka.sinks.postgres.copy_encoder`, which tasks import and drivers do not: it brings
numba. Source: "File Formats, Binary Format" of Postgres' page on COPY.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER: Final = b"\xff\xff"

#: Of a row's number of fields, and of a field's length.
HEAD_BYTES: Final = 2
LENGTH_BYTES: Final = 4
#: Of the UUID of a task's attempt.
ATTEMPT_BYTES: Final = 16


class Wire(Enum):
    """Wire types; the value is numpy's type where that is enough to encode a column, and else a description."""

    BOOL = "u1"
    INT2 = ">i2"
    INT4 = ">i4"
    INT8 = ">i8"
    FLOAT4 = ">f4"
    FLOAT8 = ">f8"
    TIMESTAMP = ">i8 since 2000"
    DATE = ">i4 since 2000"
    UUID = "16 bytes"
    NUMERIC = "numeric"
    TEXT = "text"
    BYTEA = "bytea"
    JSONB = "jsonb"
    TIME = ">i8 since midnight"
    INTERVAL = "16 bytes of time, days, months"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireColumn:
    """A DataFrame column and the wire type its target column wants.

    Attributes:
        name: the column's name.
        wire: its wire type; for an array that of its elements.
        array_of: OID of the elements' type when the column is an array.
    """

    name: str
    wire: Wire
    array_of: int | None = None


def copy_chunks(cursor: psycopg.Cursor[Any], statement: sql.Composed, chunks: Iterable[bytes | memoryview]) -> int:
    """Run a ``COPY ... FROM STDIN (FORMAT binary)`` over encoded rows, in bounded memory.

    Returns:
        The number of rows that the server says it has stored.

    Raises:
        RowRejectedError: from the encoder that makes the chunks; the COPY is aborted.
        psycopg.Error: the server's refusal, untranslated.
    """
    with cursor.copy(statement) as copy:
        copy.write(SIGNATURE)
        for chunk in chunks:
            copy.write(chunk)
        copy.write(TRAILER)
    return cursor.rowcount
