"""Record bytes of fetch responses to Arrow: the decoder of one range.

The life of a response: its batch headers are indexed; a batch is dropped unseen when it is a control batch, of an
aborted transaction, or outside the wanted offsets; the others get their CRC32C checked, are decompressed into a
scratch buffer that is used over and over, and are gathered until a group has enough rows or bytes. A group is
checked as a whole, then written into Arrow buffers of exactly the size it needs.

An Arrow batch therefore consists of whole Kafka batches, and a malformed one is found before any row of it is
emitted. Only a Kafka batch that exceeds the limits by itself is handed out in several slices.

Aborted transactions are followed as Java's consumer does (``CompletedFetch.java``): a response comes with the
transactions that were aborted in its range; a producer's id is in the aborted set from the transaction's first
offset to its abort marker, and transactional batches of an id in the set are dropped.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import google_crc32c
import numpy as np
import pyarrow as pa

from directkafka.errors import MalformedBatchError
from directkafka.kafka import arrow, codecs
from directkafka.kafka.record_batch import HEADER_SIZE, Batch, index_batches, readonly_bytes
from directkafka.kafka.record_columns import Member, Source, Totals, Wanted
from directkafka.kafka.record_fault import describe, new_fault
from directkafka.kafka.records import control_record_type, copy_headers, copy_records, measure

__all__ = ["AbortedTransactions", "RecordDecoder"]

BATCH_ROWS_MAX = 65_536
BATCH_BYTES_MAX = 8 * 1024 * 1024
#: Most bytes a Kafka batch may decompress to. No batch may need more than int32 offsets can say, 2 GiB - 1.
DECOMPRESSED_BYTES_MAX = 1024 * 1024 * 1024
_INT32_MAX = 2**31 - 1

_CODEC_MASK = 0x07
_TRANSACTIONAL = 1 << 4
_CONTROL = 1 << 5
_CRC_FROM = 21
_ABORT = 0
_NO_MARKER = -1

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Table = np.ndarray[Any, np.dtype[np.int64]]
Fault = np.ndarray[Any, np.dtype[np.int64]]


class AbortedTransactions:
    """Which producers' transactional batches are to be dropped, while walking a response in offset order.

    Args:
        aborted: ``(producer id, first offset)`` of each, as the response lists them.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._waiting)
        self._producer_ids: set[int] = set()

    def advance(self, last_offset: int) -> None:
        """Enter the transactions that begin at or before this offset."""
        while self._waiting and self._waiting[0][0] <= last_offset:
            self._producer_ids.add(heapq.heappop(self._waiting)[1])

    def end(self, producer_id: int) -> None:
        """The producer's abort marker was met."""
        self._producer_ids.discard(producer_id)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producer_ids


class _Group:
    """Batches of one response whose records will share Arrow buffers.

    Args:
        data: the response's bytes.
        scratch: where compressed batches are decompressed to.
        rows_max, bytes_max: limits of a group; one that has a single batch may exceed them.
    """

    def __init__(self, data: Bytes, scratch: codecs.Scratch, rows_max: int, bytes_max: int) -> None:
        self._data = data
        self._scratch = scratch
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._rows = 0
        self._bytes = 0
        self._refused: Member | None = None
        self.members: list[Member] = []
        scratch.clear()

    def try_add(self, row: int, batch: Batch) -> bool:
        """Add a batch, the index's ``row``; False when the group must be emitted first."""
        start, end = batch.start + HEADER_SIZE, batch.end
        codec = batch.attributes & _CODEC_MASK
        if codec == codecs.NO_COMPRESSION:
            member = Member(row, 0, start, end)
        else:
            placed = self._scratch.append(codec, self._data[start:end])
            if placed is None:
                self._refused = None
                return False
            member = Member(row, 1, *placed)
        rows, size = self._rows + batch.record_count, self._bytes + member.end - member.start
        if self.members and (rows > self._rows_max or size > self._bytes_max):
            self._refused = member
            return False
        self.members.append(member)
        self._rows, self._bytes = rows, size
        return True

    def start_with(self, row: int, batch: Batch) -> None:
        """Begin anew with the batch that :meth:`try_add` has just refused, whatever its size."""
        self.members.clear()
        member = self._refused
        if member is None:
            codec = batch.attributes & _CODEC_MASK
            source = self._data[batch.start + HEADER_SIZE : batch.end]
            member = Member(row, 1, *self._scratch.append_growing(codec, source))
        elif member.in_scratch:
            member = Member(row, 1, *self._scratch.keep_only(member.start, member.end))
        else:
            self._scratch.clear()
        self.members.append(member)
        self._rows, self._bytes = batch.record_count, member.end - member.start


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
        self._check_crcs = check_crcs
        self._rows_max = batch_rows_max
        self._bytes_max = batch_bytes_max
        self._schema = arrow.schema(include_headers=include_headers)
        self._scratch = codecs.Scratch(batch_bytes_max, decompressed_bytes_max)

    def decode(self, records: memoryview, aborted: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """The wanted records of one response, as Arrow batches that own their bytes.

        Args:
            records: the response's record bytes; left alone until the iterator is exhausted or closed. A batch
                that is cut off at the end is ignored, it will be fetched again.
            aborted: ``(producer id, first offset)`` of the transactions that the response lists as aborted.

        Yields:
            Batches of at least one row, in offset order; ``position`` follows them.

        Raises:
            MalformedBatchError: bytes that are not a record batch. No row of that batch was emitted.
        """
        data = readonly_bytes(records)
        fault = new_fault()
        index = index_batches(data, fault)
        transactions = AbortedTransactions(aborted)
        group = _Group(data, self._scratch, self._rows_max, self._bytes_max)
        reached = self.position
        for row, batch in enumerate(map(Batch._make, index.tolist())):
            if batch.base_offset >= self._until_offset:
                reached = self._until_offset
                break
            self._check(data, batch)
            if not self._is_left_out(data, batch, transactions):
                try:
                    if not group.try_add(row, batch):
                        yield from self._emit(data, index, group, reached)
                        group.start_with(row, batch)
                except codecs.CorruptDataError as error:
                    raise self._malformed(batch, str(error)) from None
            reached = max(reached, min(batch.last_offset + 1, self._until_offset))
        yield from self._emit(data, index, group, reached)
        if fault[0] and self.position < self._until_offset:
            self._refuse_header(fault)

    def _check(self, data: Bytes, batch: Batch) -> None:
        """Codec and checksum, before anything else of the batch is believed."""
        if batch.attributes & _CODEC_MASK not in codecs.CODEC_NAMES:
            raise self._malformed(batch, f"codec {batch.attributes & _CODEC_MASK} is none of {codecs.CODEC_NAMES}")
        if self._check_crcs:
            found = google_crc32c.value(data[batch.start + _CRC_FROM : batch.end])
            if found != batch.crc:
                raise self._malformed(batch, f"its CRC32C is {found:#010x}, the header says {batch.crc:#010x}")

    def _is_left_out(self, data: Bytes, batch: Batch, transactions: AbortedTransactions) -> bool:
        """Whether the batch holds nothing that is wanted; its marker or producer moves the transactions on."""
        if self._read_committed and batch.producer_id >= 0:
            transactions.advance(batch.last_offset)
            if batch.attributes & _CONTROL:
                if self._control_type(data, batch) == _ABORT:
                    transactions.end(batch.producer_id)
            elif batch.attributes & _TRANSACTIONAL and batch.producer_id in transactions:
                return True
        return bool(batch.attributes & _CONTROL) or batch.last_offset < self.position

    def _control_type(self, data: Bytes, batch: Batch) -> int:
        """The type of the control batch's marker.

        The broker never compresses markers, and Java's consumer leaves a control batch without records alone.
        """
        if batch.record_count == 0:
            return _NO_MARKER
        if batch.attributes & _CODEC_MASK:
            raise self._malformed(batch, "a control batch is compressed")
        found = control_record_type(data, batch.start + HEADER_SIZE, batch.end, new_fault())
        if found < 0:
            raise self._malformed(batch, "a control batch's first record has no key of version and type")
        return int(found)

    def _emit(self, data: Bytes, index: Table, group: _Group, reached: int) -> Iterator[pa.RecordBatch]:
        """Check and write out a group. ``position`` moves when the last slice is handed over, not before."""
        batches = self._write(data, index, group) if group.members else []
        yield from batches[:-1]
        self.position = reached
        yield from batches[-1:]

    def _write(self, data: Bytes, index: Table, group: _Group) -> list[pa.RecordBatch]:
        members = np.array(group.members, np.int64)
        wanted = Wanted(self.position, self._until_offset, self._include_headers)
        source = Source(data, self._scratch.bytes, index, members, wanted)
        counted, fault = np.zeros(len(Totals._fields), np.int64), new_fault()
        if not measure(source, counted, fault):
            batch = Batch._make(index[group.members[fault[5]].index_row].tolist())
            raise self._malformed(batch, describe(fault))
        totals = Totals._make(counted.tolist())
        if totals.rows == 0:
            return []
        buffers = arrow.RecordBuffers(totals)
        copy_records(source, buffers.columns, buffers.nulls, fault)
        columns = [*buffers.key_and_value(), *buffers.offset_and_timestamps()]
        if self._include_headers:
            header_buffers = arrow.HeaderBuffers(totals)
            copy_headers(source, header_buffers.columns, header_buffers.nulls, fault)
            columns.append(header_buffers.array())
        slices = arrow.row_slices(buffers.keys.ends, buffers.values.ends, self._rows_max, self._bytes_max)
        return [self._assemble([column.slice(first, count) for column in columns], count) for first, count in slices]

    def _assemble(self, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
        topic = arrow.constant_column(self._topic, pa.string(), self._rows_max).slice(0, rows)
        partition = arrow.constant_column(self._partition, pa.int32(), self._rows_max).slice(0, rows)
        return pa.RecordBatch.from_arrays([*columns[:2], topic, partition, *columns[2:]], schema=self._schema)

    def _refuse_header(self, fault: Fault) -> NoReturn:
        raise MalformedBatchError(
            topic=self._topic,
            partition=self._partition,
            offset=self.position,
            position=int(fault[1]),
            reason=describe(fault),
        )

    def _malformed(self, batch: Batch, reason: str) -> MalformedBatchError:
        return MalformedBatchError(
            topic=self._topic,
            partition=self._partition,
            offset=batch.base_offset,
            position=batch.start,
            reason=reason,
        )
