"""Record bytes of fetch responses to Arrow: the decoder of one range.

The life of a response: its batch headers are indexed. A filter checks codec and CRC32C of the next batches and
collects those that hold wanted records into a run of some hundred kilobytes, small enough to stay in the processor's
cache. The compressed ones among them are decompressed into a scratch buffer that is used over and over. One call
then checks their records and appends them to Arrow buffers. These are handed out when they are full, or when the
response ends.

An Arrow batch therefore consists of whole Kafka batches; only one that exceeds the limits by itself is handed out in
several slices. Of a malformed Kafka batch no row is emitted, and everything before it is emitted first.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from directkafka.errors import MalformedBatchError
from directkafka.errors.data_loss import KafkaMalformedRecordTimestampError
from directkafka.errors.streams import DecompressionLimitError
from directkafka.kafka.compression import decompress
from directkafka.kafka.compression.lz4 import SNAPPY
from directkafka.kafka.kernels.c_functions import crc32c_address
from directkafka.kafka.records import arrow
from directkafka.kafka.records.decode_kernel import decode_run
from directkafka.kafka.records.record import Corruption, describe, new_corruption
from directkafka.kafka.records.record_batch import (
    Batch,
    BatchIndex,
    FilterSpec,
    aborted_transactions,
    filter_batches,
    readonly_bytes,
)
from directkafka.kafka.records.record_columns import Capacity, OffsetWindow, Source, WriteCursor
from directkafka.options.client import DECOMPRESSED_BYTES_MAX, ClientOptions
from directkafka.options.spec import specs_of

BATCH_ROWS_MAX = 16_384
BATCH_BYTES_MAX = 2 * 1024 * 1024
#: No batch may need more bytes than int32 offsets can say, 2 GiB - 1.
_INT32_MAX = 2**31 - 1
_LIMIT_OPTION = specs_of(ClientOptions)["max_decompressed_batch_bytes"].name

#: Batches of a run, and the bytes that end one: what is decoded together should be in the cache since it was checked.
_RUN_BATCHES = 4096
_RUN_BYTES = 512 * 1024
#: Room for what a run decompresses to, by a ratio of 16 at most; a larger batch makes it grow.
_SCRATCH_BYTES = 16 * _RUN_BYTES
#: Header columns have room for so many headers a row. More of them make smaller batches.
_HEADERS_PER_ROW = 4

_START = Batch._fields.index("start")
_END = Batch._fields.index("end")
_LAST_OFFSET = Batch._fields.index("last_offset")
_RECORD_COUNT = Batch._fields.index("record_count")

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Table = np.ndarray[Any, np.dtype[np.int64]]


class _Columns:
    """Arrow buffers that are being filled.

    Args:
        room: how far they may be.
        include_headers: whether there is a ``headers`` column.
    """

    def __init__(self, room: Capacity, *, include_headers: bool) -> None:
        self._room = room
        self._records = arrow.RecordBuffers(room)
        self._headers = arrow.HeaderBuffers(room) if include_headers else None
        self._filled = np.zeros(len(WriteCursor._fields), np.int64)

    @property
    def filled(self) -> WriteCursor:
        """How far they are."""
        return WriteCursor._make(self._filled.tolist())

    def append(self, source: Source, first: int, corruption: Table) -> int:
        """Append the records of a run from its member ``first`` on: the member that was not appended, if any."""
        return self._decode(source, first, self._filled, corruption, copying=True)

    def room_needed(self, source: Source, member: int, corruption: Table) -> Capacity:
        """The room for one member of a run; it has a corruption when that says so."""
        counted = np.zeros_like(self._filled)
        self._decode(source, member, counted, corruption, copying=False)
        needed = WriteCursor._make(counted.tolist())
        header_bytes = max(needed.header_key_bytes, needed.header_value_bytes)
        return Capacity(needed.rows, needed.key_bytes + needed.value_bytes, needed.headers, header_bytes)

    def _decode(self, source: Source, first: int, filled: Table, corruption: Table, *, copying: bool) -> int:
        header_columns = self._headers.columns if self._headers else arrow.NO_HEADERS
        return int(
            decode_run(source, self._records.columns, header_columns, self._room, first, copying, filled, corruption)
        )

    def arrays(self) -> list[pa.Array]:
        """The columns but the constant ones; to be called once, at the end."""
        filled = self.filled
        headers = [self._headers.array(filled)] if self._headers else []
        return self._records.arrays(filled) + headers


class _TooLarge(NamedTuple):
    """A batch that would need more memory than is allowed."""

    codec: int
    compressed_bytes: int
    declared_bytes: int


class _Refusal(NamedTuple):
    """Why the batch of an index row is not read: a sentence, or that it is too large."""

    row: int
    reason: str | _TooLarge


class _Response:
    """One response while it is decoded.

    Args:
        data: its bytes.
        index: its batch headers.
        wanted: what of it goes into the columns.
    """

    def __init__(self, data: Bytes, index: Table, wanted: OffsetWindow) -> None:
        self.data = data
        self.index = index
        self.wanted = wanted

    def batch(self, row: int) -> Batch:
        """A row of the index."""
        return Batch._make(self.index[row].tolist())

    def position_before(self, row: int) -> int:
        """The next offset wanted when the batches before a row are consumed."""
        lower, upper = self.wanted.lower, self.wanted.upper
        return max(lower, min(int(self.index[row - 1, _LAST_OFFSET]) + 1, upper)) if row else lower

    def room(self, run: Table, rows_max: int, bytes_max: int) -> Capacity:
        """What the records of a run and of all batches behind it need, as far as the limits allow.

        What is not decompressed yet is taken to be like the run. Where it is not, batches become smaller.
        """
        sizes = self.index[:, _END] - self.index[:, _START]
        first, last = int(run[0, 0]), int(run[-1, 0])
        run_bytes = int((run[:, 3] - run[:, 2]).sum())
        bytes_behind = int(sizes[last + 1 :].sum())
        if run[:, 1].any():
            bytes_behind = bytes_behind * run_bytes * 5 // (int(sizes[run[:, 0]].sum()) * 4)
        record_bytes = min(bytes_max, run_bytes + bytes_behind)
        rows = min(rows_max, int(np.maximum(self.index[first:, _RECORD_COUNT], 0).sum()))
        return Capacity(rows, record_bytes, min(rows_max * _HEADERS_PER_ROW, record_bytes // 2), record_bytes)


class RecordDecoder:
    """Decodes the responses of one range, in order; made once per task and range.

    Args:
        topic, partition: where the bytes are from; two of the output's columns, and in every error.
        from_offset, until_offset: the offsets ``[from_offset, until_offset)`` that are wanted.
        include_headers: whether the output has a ``headers`` column.
        read_committed: drop records of aborted transactions.
        check_crcs: verify each batch's CRC32C.
        batch_rows_max: most rows of an emitted batch.
        batch_bytes_max: most bytes of keys and values of an emitted batch; a larger record goes through alone.
        decompressed_bytes_max: most bytes a Kafka batch may decompress to, at most 2 GiB - 1.

    Attributes:
        position: the next offset wanted: one past the last Kafka batch that was consumed, whether its records were
            emitted or left out; never above ``until_offset``.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        from_offset: int,
        until_offset: int,
        *,
        include_headers: bool,
        read_committed: bool,
        check_crcs: bool = True,
        batch_rows_max: int = BATCH_ROWS_MAX,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        if not (0 < batch_rows_max <= _INT32_MAX and 0 < batch_bytes_max <= _INT32_MAX):
            raise ValueError(f"batch limits out of range: {batch_rows_max} rows, {batch_bytes_max} bytes")
        if not 0 < decompressed_bytes_max <= _INT32_MAX:
            raise ValueError(f"decompressed_bytes_max is {decompressed_bytes_max}, not in 1..{_INT32_MAX}")
        self.position = from_offset
        self._topic = topic
        self._partition = partition
        self._until_offset = until_offset
        self._include_headers = include_headers
        self._read_committed = read_committed
        self._crc32c = crc32c_address() if check_crcs else 0
        self._rows_max = batch_rows_max
        self._bytes_max = batch_bytes_max
        self._schema = arrow.schema(include_headers=include_headers)
        self._decompressed_bytes_max = decompressed_bytes_max
        self._scratch = decompress.Scratch(_SCRATCH_BYTES, decompressed_bytes_max)

    def decode(
        self, records: memoryview, index: BatchIndex, aborted: Sequence[tuple[int, int]]
    ) -> Iterator[pa.RecordBatch]:
        """The wanted records of one response, as Arrow batches that own their bytes.

        Args:
            records: the response's record bytes; left alone until the iterator is exhausted or closed. A batch
                that is cut off at the end is ignored, it will be fetched again.
            index: their batch headers.
            aborted: ``(producer id, first offset)`` of the transactions that the response lists as aborted.

        Yields:
            Batches of at least one row, in offset order; ``position`` follows them.

        Raises:
            MalformedBatchError: bytes that are not a record batch. No row of that batch was emitted, and all
                rows before it were.
            DecompressionLimitError: a batch decompresses to more than the limit; likewise.
        """
        wanted = OffsetWindow(self.position, self._until_offset, self._include_headers)
        response = _Response(readonly_bytes(records), index.batches, wanted)
        columns: _Columns | None = None
        walk = np.zeros(2, np.int64)
        for run, refusal in self._runs(response, aborted, walk):
            columns = yield from self._append(columns, response, run)
            if refusal is not None:
                yield from self._emit(columns, response.position_before(refusal.row))
                raise self._refused(response.batch(refusal.row), refusal.reason)
        self._scratch.clear()
        has_ended = int(walk[0]) < len(response.index)
        yield from self._emit(columns, self._until_offset if has_ended else response.position_before(int(walk[0])))
        if index.corruption[0] and self.position < self._until_offset:
            raise self._malformed(self.position, int(index.corruption[1]), describe(index.corruption))

    def _runs(
        self, response: _Response, aborted: Sequence[tuple[int, int]], walk: Table
    ) -> Iterator[tuple[Table, _Refusal | None]]:
        """Runs of batches, checked and decompressed, and why the batch behind the last one is none.

        ``walk`` is where the filter stands; see :func:`directkafka.kafka.records.record_batch.filter_batches`.
        """
        asked = FilterSpec(self.position, self._until_offset, self._read_committed, self._crc32c, _RUN_BYTES)
        transactions = aborted_transactions(aborted)
        run, corruption = np.empty((min(_RUN_BATCHES, len(response.index)), 4), np.int64), new_corruption()
        while count := filter_batches(response.data, response.index, asked, transactions, walk, run, corruption):
            yield from self._decompressed(response, run[:count])
            if corruption[0]:
                break
        if corruption[0]:
            yield run[:0], _Refusal(int(walk[0]), describe(corruption))

    def _decompressed(self, response: _Response, run: Table) -> Iterator[tuple[Table, _Refusal | None]]:
        """The run with all its records decompressed, in as many parts as the scratch buffer needs."""
        self._scratch.clear()
        kinds = run[:, 1].tolist()
        first = member = 0
        while member < len(run):
            if kinds[member] != SNAPPY:
                member = self._scratch.append_run(response.data, run, member)
                if member == len(run):
                    break
            row, codec, start, end = run[member].tolist()
            source = response.data[start:end]
            try:
                placed = self._scratch.append(codec, source)
                if placed is None:
                    yield run[first:member], None
                    first = member
                    placed = self._scratch.append_growing(codec, source)
            except decompress.CorruptDataError as error:
                yield run[first:member], _Refusal(row, str(error))
                return
            except decompress.TooLargeError as error:
                yield run[first:member], _Refusal(row, _TooLarge(codec, source.size, error.declared_bytes))
                return
            run[member, 2:] = placed
            member += 1
        yield run[first:], None

    def _append(
        self, columns: _Columns | None, response: _Response, run: Table
    ) -> Generator[pa.RecordBatch, None, _Columns | None]:
        """Append a run's records, and emit columns that are full: those to go on with."""
        if len(run) == 0:
            return columns
        source = Source(response.data, self._scratch.bytes, response.index, run, response.wanted)
        columns, corruption = (
            columns or self._new_columns(response.room(run, self._rows_max, self._bytes_max)),
            new_corruption(),
        )
        first = 0
        while (first := columns.append(source, first, corruption)) < len(run):
            if columns.filled.rows == 0 and not corruption[0]:
                # This batch alone is more than the limits allow.
                columns = self._new_columns(columns.room_needed(source, first, corruption))
                if not corruption[0]:
                    continue
            row = int(run[first, 0])
            yield from self._emit(columns, response.position_before(row))
            if corruption[0]:
                kind = (
                    KafkaMalformedRecordTimestampError if corruption[0] == Corruption.TIMESTAMP else MalformedBatchError
                )
                batch = response.batch(row)
                raise self._malformed(batch.base_offset, batch.start, describe(corruption), kind)
            columns = self._new_columns(response.room(run[first:], self._rows_max, self._bytes_max))
        return columns

    def _new_columns(self, room: Capacity) -> _Columns:
        return _Columns(room, include_headers=self._include_headers)

    def _emit(self, columns: _Columns | None, position: int) -> Iterator[pa.RecordBatch]:
        """Hand over what the columns hold. ``position`` moves with the last slice, not before."""
        batches = self._batches(columns) if columns is not None else []
        yield from batches[:-1]
        self.position = position
        yield from batches[-1:]

    def _batches(self, columns: _Columns) -> list[pa.RecordBatch]:
        if columns.filled.rows == 0:
            return []
        arrays = columns.arrays()
        slices = arrow.row_slices(arrow.ends_of(arrays[0]), arrow.ends_of(arrays[1]), self._rows_max, self._bytes_max)
        return [self._assemble([array.slice(first, count) for array in arrays], count) for first, count in slices]

    def _assemble(self, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
        topic = arrow.constant_column(self._topic, pa.string(), self._rows_max).slice(0, rows)
        partition = arrow.constant_column(self._partition, pa.int32(), self._rows_max).slice(0, rows)
        return pa.RecordBatch.from_arrays([*columns[:2], topic, partition, *columns[2:]], schema=self._schema)

    def _refused(self, batch: Batch, reason: str | _TooLarge) -> MalformedBatchError | DecompressionLimitError:
        if isinstance(reason, str):
            return self._malformed(batch.base_offset, batch.start, reason)
        # Whoever holds on to the error must not hold on to the memory.
        self._scratch.clear()
        declared = reason.declared_bytes
        return DecompressionLimitError(
            topic=self._topic,
            partition=self._partition,
            offset=batch.base_offset,
            codec=decompress.CODEC_NAMES[reason.codec],
            compressed_bytes=reason.compressed_bytes,
            decompressed=f"{declared} bytes, as it says itself" if declared else "more than is allowed",
            limit_bytes=self._decompressed_bytes_max,
            option=_LIMIT_OPTION,
        )

    def _malformed(
        self, offset: int, position: int, reason: str, kind: type[MalformedBatchError] = MalformedBatchError
    ) -> MalformedBatchError:
        return kind(topic=self._topic, partition=self._partition, offset=offset, position=position, reason=reason)
