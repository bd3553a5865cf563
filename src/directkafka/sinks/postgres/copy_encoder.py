"""Arrow record batches to Postgres' binary COPY format, without a Python object per row.

Two steps per column and chunk: numpy or a kernel turns the column into wire values (big-endian, Postgres' epoch,
``numeric`` digits), then :func:`~directkafka.sinks.postgres.copy_kernels.interleave` lays the columns out as rows. The
target column's type decides the wire type: an int32 goes into a bigint column as eight bytes.

Values that only the data can show to be wrong (a NUL in a text, a timestamp beyond int64) are refused here by
row; everything that types can show was refused when the sink was prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.errors import RowRejectedError
from directkafka.sinks.postgres.copy_format import HEAD_BYTES, LENGTH_BYTES, Wire, WireColumn
from directkafka.sinks.postgres.copy_kernels import (
    ARRAY_HEADER_BYTES,
    COLUMN_FIELDS,
    NUMERIC_BYTES_MAX,
    encode_arrays,
    encode_numeric,
    encode_uuid,
    interleave,
)

#: Aim of one chunk. Larger ones fall out of the processor's cache, smaller ones pay numpy's calls.
CHUNK_BYTES: Final = 512 * 1024

_EPOCH_MICROSECONDS: Final = 946_684_800_000_000  # 1970 to 2000
_EPOCH_DAYS: Final = 10_957

#: A NUL as JSON writes it, inside quotes, and not a backslash before the letters.
_JSON_NUL: Final = r"[^\\](\\\\)*\\u0000"


@dataclass(frozen=True, slots=True)
class _Wired:
    """One column of one chunk as wire values; ``keep`` holds what the addresses point into."""

    line: tuple[int, int, int, int, int]
    bytes_max: int
    keep: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowEncoder:
    """Encodes batches for one table.

    Attributes:
        columns: in the order of the COPY statement.
        store, sink: for messages.
        attempt: 16 bytes that every row gets as a last ``uuid`` column; empty for none.
    """

    columns: tuple[WireColumn, ...]
    store: str
    sink: str
    attempt: bytes = b""

    def chunks(self, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """The batch's rows as pieces of COPY data; a piece is valid until the next one is asked for.

        Raises:
            RowRejectedError: a value that Postgres cannot hold, by column and row.
        """
        if batch.num_rows == 0:
            return
        row_bytes = max(1, batch.nbytes // batch.num_rows) + 6 * len(self.columns)
        rows = max(1, CHUNK_BYTES // row_bytes)
        for start in range(0, batch.num_rows, rows):
            yield self._encode(batch.slice(start, rows))

    def _encode(self, batch: pa.RecordBatch) -> memoryview:
        rows = batch.num_rows
        wired = [self._column(batch, column) for column in self.columns]
        if self.attempt:
            repeated = np.frombuffer(self.attempt * rows, dtype=np.uint8)
            wired.append(_fixed(repeated, 16, None))
        lines = np.array([column.line for column in wired], dtype=np.int64).reshape(-1, COLUMN_FIELDS)
        bytes_max = rows * (HEAD_BYTES + LENGTH_BYTES * len(wired)) + sum(column.bytes_max for column in wired)
        out = np.empty(bytes_max, dtype=np.uint8)
        size = interleave(rows, lines, out)
        return out[:size].data

    def _column(self, batch: pa.RecordBatch, column: WireColumn) -> _Wired:
        array = _plain(batch.column(column.name))
        try:
            if column.array_of is not None:
                return _arrays(array, column.wire, column.array_of)
            return _encode_array(array, column.wire)
        except _RefusedRow as refused:
            raise RowRejectedError(
                store=self.store,
                sink=self.sink,
                detail=f"column {column.name!r}: {refused.reason} ({_location_of(batch, refused.row)})",
            ) from None


class _RefusedRow(Exception):  # noqa: N818 - a message to the caller above, never seen outside
    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row = row
        self.reason = reason


def _location_of(batch: pa.RecordBatch, row: int) -> str:
    """Where a row came from, if the DataFrame kept Kafka's columns; else its number in the batch."""
    names = [name for name in ("topic", "partition", "offset") if name in batch.schema.names]
    if len(names) == 3:
        return ", ".join(f"{name} {batch.column(name)[row].as_py()}" for name in names)
    return f"row {row} of {batch.num_rows} of its chunk"


def _plain(array: pa.Array) -> pa.Array:
    """The array in a layout of values or of offsets and bytes."""
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary_decode())
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def _encode_array(array: pa.Array, wire: Wire) -> _Wired:
    if (special := _SPECIAL.get(wire)) is not None:
        return special(array)
    if wire is Wire.BOOL:
        array = array.cast(pa.uint8())
    values = _values(array).astype(wire.value)
    return _fixed(values, values.itemsize, array)


def _values(array: pa.Array) -> np.ndarray[Any, Any]:
    """A view of a fixed-width array's values; what null slots hold has no meaning."""
    if pa.types.is_floating(array.type):
        dtype = f"f{array.type.bit_width // 8}"
    else:
        sign = "u" if pa.types.is_unsigned_integer(array.type) else "i"
        dtype = f"{sign}{array.type.bit_width // 8}"
    whole = np.frombuffer(array.buffers()[1], dtype=dtype)
    return whole[array.offset : array.offset + len(array)]


def _fixed(values: np.ndarray[Any, Any], width: int, array: pa.Array | None) -> _Wired:
    validity, first_bit = _validity(array)
    line = (width, values.ctypes.data, 0, validity, first_bit)
    return _Wired(line, values.nbytes, (values, array))


def _validity(array: pa.Array | None) -> tuple[int, int]:
    if array is None or array.null_count == 0:
        return 0, 0
    return array.buffers()[0].address, array.offset


def _since_2000(array: pa.Array, dtype: str, epoch: int) -> _Wired:
    whole = np.frombuffer(array.buffers()[1], dtype=dtype)
    values = whole[array.offset : array.offset + len(array)]
    # Below the limit the subtraction would wrap round to a valid date in the far future.
    limit = np.iinfo(dtype).min + epoch + 1
    if values.min() < limit:
        low = np.asarray(values < limit) & np.asarray(array.is_valid())
        if low.any():
            raise _RefusedRow(int(low.argmax()), "before the first date that Postgres knows")
    wired = (values - values.dtype.type(epoch)).astype(f">{dtype}")
    return _fixed(wired, wired.itemsize, array)


def _offsets(array: pa.Array) -> np.ndarray[Any, Any]:
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    whole = np.frombuffer(array.buffers()[1], dtype="i8" if large else "i4")
    return whole[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _varying(array: pa.Array, *, is_text: bool) -> _Wired:
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    offsets = _offsets(array)
    data = array.buffers()[2]
    length = int(offsets[-1] - offsets[0])
    if is_text and length:
        _refuse_nul(array, offsets, np.frombuffer(data, dtype=np.uint8))
    validity, first_bit = _validity(array)
    address = data.address if data is not None else 0
    line = (0, address, offsets.ctypes.data, validity, first_bit)
    return _Wired(line, length, (offsets, data, array))


def _jsonb(array: pa.Array) -> _Wired:
    """A version number, which is 1, before each text. Source: ``jsonb_recv`` in Postgres' ``jsonb.c``."""
    if pc.any(pc.match_substring(array, "\\u0000")).as_py():
        is_nul = pc.fill_null(pc.match_substring_regex(array, _JSON_NUL), False)
        if (row := pc.index(is_nul, True).as_py()) >= 0:
            raise _RefusedRow(row, "a JSON text with a NUL (\\u0000), which jsonb cannot hold")
    # Made here: Arrow's first scalar imports pandas.
    version, separator = pa.scalar(b"\x01", pa.large_binary()), pa.scalar(b"", pa.large_binary())
    versioned = pc.binary_join_element_wise(version, array.cast(pa.large_binary()), separator)
    return _varying(versioned, is_text=False)


def _arrays(array: pa.Array, wire: Wire, oid: int) -> _Wired:
    """Lists; their elements are wired as a column of their own, and an error in one is told of its list's row."""
    large = array.cast(pa.large_list(array.type.value_field))
    whole = np.frombuffer(large.buffers()[1], dtype=np.int64)
    lists = whole[large.offset : large.offset + len(large) + 1]
    elements = large.values.slice(int(lists[0]), int(lists[-1] - lists[0]))
    try:
        wired = _encode_array(_plain(elements), wire) if len(elements) else _fixed(np.empty(0, np.uint8), 1, None)
    except _RefusedRow as refused:
        row = int(np.searchsorted(lists, refused.row + lists[0], side="right")) - 1
        raise _RefusedRow(row, f"in one of its elements {refused.reason}") from None
    positions = np.ascontiguousarray(lists - lists[0])
    out = np.empty(ARRAY_HEADER_BYTES * len(large) + 4 * len(elements) + wired.bytes_max, dtype=np.uint8)
    offsets = np.empty(len(large) + 1, dtype=np.int64)
    size = encode_arrays(positions, len(large), np.array(wired.line, dtype=np.int64), oid, out, offsets)
    validity, first_bit = _validity(large)
    line = (0, out.ctypes.data, offsets.ctypes.data, validity, first_bit)
    return _Wired(line, int(size), (out, offsets, large, wired.keep))


def _refuse_nul(array: pa.Array, offsets: np.ndarray[Any, Any], data: np.ndarray[Any, Any]) -> None:
    """Postgres' text cannot hold U+0000; its own message would name neither column nor record."""
    used = data[offsets[0] : offsets[-1]]
    if used.all():
        return
    positions = np.flatnonzero(used == 0) + offsets[0]
    for row in np.unique(np.searchsorted(offsets, positions, side="right") - 1):
        if array[int(row)].is_valid:
            raise _RefusedRow(int(row), "a text with a NUL byte (U+0000), which Postgres cannot hold")


def _numeric(array: pa.Array) -> _Wired:
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    elif not pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    rows = len(array)
    values = array.buffers()[1].address + 16 * array.offset
    out = np.empty(rows * NUMERIC_BYTES_MAX, dtype=np.uint8)
    offsets = np.empty(rows + 1, dtype=np.int64)
    encode_numeric(values, rows, array.type.scale, out, offsets)
    validity, first_bit = _validity(array)
    line = (0, out.ctypes.data, offsets.ctypes.data, validity, first_bit)
    return _Wired(line, int(offsets[-1]), (out, offsets, array))


def _uuid(array: pa.Array) -> _Wired:
    if pa.types.is_fixed_size_binary(array.type):
        whole = np.frombuffer(array.buffers()[1], dtype=np.uint8)
        values = whole[16 * array.offset : 16 * (array.offset + len(array))]
        return _fixed(values, 16, array)
    filled = pc.fill_null(array, b"" if pa.types.is_binary(array.type) else "")
    offsets = _offsets(filled)
    data = filled.buffers()[2]
    out = np.zeros(16 * len(array), dtype=np.uint8)
    bad = encode_uuid(data.address if data else 0, offsets, len(array), out)
    # What is left of an empty text is a null's zeros, or a row that has to be refused.
    if bad < 0:
        empty = (np.diff(offsets) == 0) & np.asarray(array.is_valid())
        bad = int(empty.argmax()) if empty.any() else -1
    if bad >= 0:
        raise _RefusedRow(bad, f"{array[bad].as_py()!r} is not a UUID")
    return _fixed(out, 16, array)


def _timestamp(array: pa.Array) -> _Wired:
    return _since_2000(array.cast(pa.timestamp("us", array.type.tz)), "i8", _EPOCH_MICROSECONDS)


def _time(array: pa.Array) -> _Wired:
    return _fixed(_values(array.cast(pa.time64("us"))).astype(">i8"), 8, array)


def _interval(array: pa.Array) -> _Wired:
    """A length of time; Arrow's has neither days nor months. Source: ``interval_recv`` in ``timestamp.c``."""
    values = np.zeros(len(array), dtype=[("time", ">i8"), ("days", ">i4"), ("months", ">i4")])
    values["time"] = _values(array.cast(pa.duration("us")).cast(pa.int64()))
    return _fixed(values, values.itemsize, array)


#: Wire types that are more than numpy's type of a fixed width.
_SPECIAL: Final[dict[Wire, Callable[[pa.Array], _Wired]]] = {
    Wire.TEXT: lambda array: _varying(array, is_text=True),
    Wire.BYTEA: lambda array: _varying(array, is_text=False),
    Wire.JSONB: _jsonb,
    Wire.NUMERIC: _numeric,
    Wire.UUID: _uuid,
    Wire.TIMESTAMP: _timestamp,
    Wire.TIME: _time,
    Wire.INTERVAL: _interval,
    Wire.DATE: lambda array: _since_2000(array, "i4", _EPOCH_DAYS),
}
