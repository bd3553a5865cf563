"""Record batches (message format v2, magic 2): their headers, and which batches are wanted, as kernels over bytes.

A fetch response's ``records`` field is a run of batches, the last of which may be cut off::

    0   base offset            int64      23  last offset delta    int32
    8   length of what follows int32      27  base timestamp (ms)  int64
    12  partition leader epoch int32      35  max timestamp (ms)   int64
    16  magic                  int8       43  producer id          int64
    17  CRC32C of 21..end      uint32     51  producer epoch       int16
    21  attributes             int16      53  base sequence        int32
                                          57  number of records    int32
    61  records, compressed as a whole by the codec in attributes bits 0..2

    attributes: bit 3 LogAppendTime, bit 4 transactional, bit 5 control, bit 6 the base timestamp is a delete
    horizon (record timestamps are still relative to it)

The work is done in three steps: :func:`index_batches` reads the headers, :func:`filter_batches` checks the batches and
leaves out those that hold nothing wanted, before any is decompressed; ``decode_kernel`` reads the other ones' records.

Of each batch that begins before the wanted end, codec and CRC32C are checked before anything else is believed.
Left out are control batches, batches before the wanted offsets and those of aborted transactions. These are followed
as Java's consumer does (``CompletedFetch.java``): a response comes with the transactions that were aborted in its
range; a producer is aborting from the transaction's first offset to its abort marker, and its transactional batches in
between are left out.

Gaps between offsets are normal (compaction, transaction markers). Ignored: producer epoch, sequence numbers. A batch
of magic 0 or 1 has its magic byte at the same place, and is refused by it.

Sources: https://kafka.apache.org/documentation/#recordbatch, KIP-98, KIP-534 (delete horizon), Kafka's
``DefaultRecordBatch.java``.
"""

# ruff: noqa: PLR0917 - a kernel takes its arrays as single arguments
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types

from directkafka.kafka.compression.decompress import CODEC_NAMES
from directkafka.kafka.kernels.c_functions import crc32c
from directkafka.kafka.kernels.compile import (
    BYTES_IN,
    BYTES_OUT,
    INT64,
    INT64S,
    TABLE,
    helper,
    kernel,
    unwrapped,
    wide,
)
from directkafka.kafka.records.record import Corruption, control_record_type, new_corruption, report

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Bytes before a batch's first record.
HEADER_SIZE = 61
_LENGTH_END = 12
_MAGIC_END = 17
_INT64_MAX = 9223372036854775807


class Batch(NamedTuple):
    """One batch header: a row of what :func:`index_batches` returns, for Python and the kernels alike.

    ``start`` and ``end`` are byte positions in the response; the rest is as the header says, ``last_offset`` being
    the sum of base offset and last offset delta. Timestamps are in milliseconds.
    """

    start: int
    end: int
    base_offset: int
    last_offset: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int
    leader_epoch: int


@helper
def batch_at(batches: Any, row: int) -> Batch:
    """A row of the index as a named tuple, inside kernels."""
    return Batch(
        batches[row, 0], batches[row, 1], batches[row, 2], batches[row, 3], batches[row, 4],
        batches[row, 5], batches[row, 6], batches[row, 7], batches[row, 8], batches[row, 9], batches[row, 10],
    )  # fmt: skip


@helper
def _uint32(data: Any, position: int) -> int:
    high = wide(data[position]) << 24 | wide(data[position + 1]) << 16
    return high | wide(data[position + 2]) << 8 | wide(data[position + 3])


@helper
def _int32(data: Any, position: int) -> int:
    value = _uint32(data, position)
    return value - ((value & 0x80000000) << 1)


@helper
def _int64(data: Any, position: int) -> int:
    return _uint32(data, position) << 32 | _uint32(data, position + 4)


@helper
def _batch_end(data: Any, start: int, data_end: int, last_offset: int, corruption: Any) -> Any:
    """Check the batch header at ``start``: where its batch ends, 0 when that is cut off, -1 on a corruption."""
    size = data_end - start
    if size < _MAGIC_END:
        return 0
    magic, length = data[start + 16], _int32(data, start + 8)
    if magic != 2:
        return report(corruption, Corruption.MAGIC, start, magic, 0)
    if length < HEADER_SIZE - _LENGTH_END:
        return report(corruption, Corruption.BATCH_LENGTH, start, length, 0)
    if length > size - _LENGTH_END:
        return 0
    base, last_delta = _int64(data, start), _int32(data, start + 23)
    end = start + _LENGTH_END + length
    if base < 0 or last_delta < 0 or base > _INT64_MAX - 1 - last_delta:
        end = report(corruption, Corruption.OFFSETS, start, base, last_delta)
    elif base <= last_offset:
        end = report(corruption, Corruption.ORDER, start, base, last_offset)
    return end


@kernel(INT64(BYTES_IN, TABLE, INT64S))
def _walk(records: Any, index: Any, corruption: Any) -> int:
    """Read the batch headers, into the index as far as that has rows; the number of complete batches."""
    data = unwrapped(records)
    count = start = 0
    last_offset = -1
    while True:
        end = _batch_end(data, start, records.shape[0], last_offset, corruption)
        if end <= 0:
            return count
        base = _int64(data, start)
        last_offset = base + _int32(data, start + 23)
        if count < index.shape[0]:
            index[count, 0] = start
            index[count, 1] = end
            index[count, 2] = base
            index[count, 3] = last_offset
            index[count, 4] = _uint32(data, start + 17)
            index[count, 5] = _uint32(data, start + 21) >> 16
            index[count, 6] = _int64(data, start + 27)
            index[count, 7] = _int64(data, start + 35)
            index[count, 8] = _int64(data, start + 43)
            index[count, 9] = _int32(data, start + 57)
            index[count, 10] = _int32(data, start + 12)
        count += 1
        start = end


_NO_INDEX = np.empty((0, len(Batch._fields)), np.int64)


_FIELDS = {name: column for column, name in enumerate(Batch._fields)}


class BatchIndex(NamedTuple):
    """The batch headers of a response, read once by who receives it.

    Attributes:
        batches: one row per complete batch up to the first corrupt one, columns as in :class:`Batch`. Offsets rise
            from row to row.
        corruption: what is wrong with the header behind those, see :class:`Corruption`; zeros where nothing is, and a
            batch is cut off or the bytes end.
    """

    batches: Table
    corruption: Int64s

    @property
    def next_offset(self) -> int:
        """One past the last offset of the last complete batch, the offset to fetch next; 0 without one."""
        return int(self.batches[-1, _FIELDS["last_offset"]]) + 1 if len(self.batches) else 0

    def before_epoch(self, leader_epoch: int, until_offset: int) -> tuple[BatchIndex, int | None]:
        """The batches before the first one of a later leader epoch than this, and where that one begins.

        Args:
            leader_epoch: the last one that is expected; -1 for any.
            until_offset: from here on a later epoch is nothing special.

        Returns:
            All of it and None where there is no such batch.
        """
        epochs, bases = (self.batches[:, _FIELDS[name]] for name in ("leader_epoch", "base_offset"))
        is_later = (epochs > leader_epoch) & (bases < until_offset)
        if leader_epoch < 0 or not is_later.any():
            return self, None
        row = int(is_later.argmax())
        return BatchIndex(self.batches[:row], new_corruption()), int(self.batches[row, _FIELDS["start"]])


def index_batches(data: Bytes) -> BatchIndex:
    """Read the batch headers of a response's bytes, which are read-only."""
    # Counting first costs less than a table that grows: a kernel that allocates takes seconds longer to compile.
    corruption = new_corruption()
    index = np.empty((int(_walk(data, _NO_INDEX, corruption)), len(Batch._fields)), np.int64)
    _walk(data, index, corruption)
    return BatchIndex(index, corruption)


def readonly_bytes(buffer: Any) -> np.ndarray[Any, Any]:
    """A read-only view over a buffer's bytes, as the kernels and google_crc32c take them; nothing is copied."""
    view = np.frombuffer(buffer, np.uint8)
    view.setflags(write=False)
    return view


_CODEC_MASK = 0x07
_CODEC_MAX = max(CODEC_NAMES)
_TRANSACTIONAL = 1 << 4
_CONTROL = 1 << 5
_CRC_FROM = 21
_ABORT = 0


class FilterSpec(NamedTuple):
    """What the filter looks for.

    Attributes:
        lower, upper: the wanted offsets, ``[lower, upper)``.
        read_committed: whether records of aborted transactions are left out.
        crc32c: the address of the checksum's C function; 0 leaves checksums alone.
        run_bytes: a run ends with the batch that brings it to this size.
    """

    lower: int
    upper: int
    read_committed: bool
    crc32c: int
    run_bytes: int


class Aborted(NamedTuple):
    """The aborted transactions of a response, and which of their producers are aborting just now.

    Attributes:
        first_offsets: where the transactions begin, ascending.
        numbers: for each, its producer's place in ``producers``.
        producers: the ids of their producers, ascending.
        aborting: for each producer, 1 between the first offset and the abort marker. Kernels write here.
    """

    first_offsets: Int64s
    numbers: Int64s
    producers: Int64s
    aborting: Bytes


_tuple_type: Any = types.NamedTuple
_ASKED_TYPE = _tuple_type([INT64, INT64, types.boolean, INT64, INT64], FilterSpec)
_ABORTED_TYPE = _tuple_type([INT64S, INT64S, INT64S, BYTES_OUT], Aborted)


_NONE = np.zeros(0, np.int64)
_NOTHING_ABORTED = Aborted(_NONE, _NONE, _NONE, np.zeros(0, np.uint8))


def aborted_transactions(aborted: Sequence[tuple[int, int]]) -> Aborted:
    """What :func:`filter_batches` needs of the transactions that a response lists as aborted.

    Args:
        aborted: ``(producer id, first offset)`` of each.
    """
    if not aborted:
        return _NOTHING_ABORTED
    producer_ids, first_offsets = np.array(aborted, np.int64).reshape(-1, 2).T
    order = np.argsort(first_offsets, kind="stable")
    producers, numbers = np.unique(producer_ids[order], return_inverse=True)
    return Aborted(first_offsets[order], numbers.astype(np.int64), producers, np.zeros(producers.size, np.uint8))


@helper
def _advance(aborted: Aborted, entered: int, last_offset: int) -> int:
    """Enter the transactions that begin at or before this offset: how many are entered."""
    while entered < aborted.first_offsets.size and aborted.first_offsets[entered] <= last_offset:
        aborted.aborting[aborted.numbers[entered]] = 1
        entered += 1
    return entered


@helper
def _index_of(producers: Any, producer_id: int) -> int:
    """The place of a producer id, by bisection, or -1 when nothing of it was aborted."""
    low, high = 0, producers.size
    while low < high:
        middle = (low + high) // 2
        if producers[middle] < producer_id:
            low = middle + 1
        else:
            high = middle
    return low if low < producers.size and producers[low] == producer_id else -1


@helper
def _is_intact(data: Any, batch: Batch, crc32c_at: int, corruption: Any) -> bool:
    """Codec and checksum, before anything else of the batch is believed."""
    if batch.attributes & _CODEC_MASK > _CODEC_MAX:
        report(corruption, Corruption.CODEC, batch.start, batch.attributes & _CODEC_MASK, 0)
        return False
    if crc32c_at:
        checksum = crc32c(crc32c_at, data, batch.start + _CRC_FROM, batch.end)
        if checksum != batch.crc:
            report(corruption, Corruption.CHECKSUM, batch.start, checksum, batch.crc)
            return False
    return True


@helper
def _is_abort(data: Any, batch: Batch, corruption: Any) -> bool:
    """Whether a control batch is an abort marker; reports one that cannot be read.

    The broker never compresses markers, and Java's consumer leaves a control batch without records alone.
    """
    if batch.record_count == 0:
        return False
    if batch.attributes & _CODEC_MASK:
        report(corruption, Corruption.CONTROL_COMPRESSED, batch.start, 0, 0)
        return False
    kind = control_record_type(data, batch.start + HEADER_SIZE, batch.end, corruption)
    if kind < 0:
        report(corruption, Corruption.CONTROL_KEY, batch.start, 0, 0)
    return kind == _ABORT


@helper
def _is_aborted(data: Any, batch: Batch, aborted: Aborted, corruption: Any) -> bool:
    """Whether a batch's records were aborted; an abort marker ends its producer's transaction."""
    producer_index = _index_of(aborted.producers, batch.producer_id)
    if batch.attributes & _CONTROL:
        if _is_abort(data, batch, corruption) and producer_index >= 0:
            aborted.aborting[producer_index] = 0
        return False
    return batch.attributes & _TRANSACTIONAL != 0 and producer_index >= 0 and aborted.aborting[producer_index] != 0


@kernel(INT64(BYTES_IN, TABLE, _ASKED_TYPE, _ABORTED_TYPE, INT64S, TABLE, INT64S))
def filter_batches(
    records: Bytes, batches: Table, asked: FilterSpec, aborted: Aborted, walk: Int64s, run: Table, corruption: Int64s
) -> int:
    """Check the next batches of a response, and collect those that are wanted into a run.

    Args:
        records: the response's bytes, read-only.
        batches: what :func:`index_batches` returned.
        asked: what is wanted.
        aborted: the response's aborted transactions.
        walk: in and out: the index's row to go on with, and the number of aborted transactions that began before
            it; zeros to begin with. A row that is not below the index's says that the walk is over.
        run: out, columns as in :class:`directkafka.kafka.records.record_columns.BatchSlice`.
        corruption: out, see :mod:`directkafka.kafka.records.record`; zeros on entry. The walk has stopped before the
            batch that has it.

    Returns:
        Number of batches in the run; 0 when the walk is over.
    """
    data, problem = unwrapped(records), unwrapped(corruption)
    row, entered = walk[0], walk[1]
    count = size = 0
    while row < batches.shape[0] and count < run.shape[0] and size < asked.run_bytes:
        batch = batch_at(batches, row)
        if batch.base_offset >= asked.upper or not _is_intact(data, batch, asked.crc32c, problem):
            break
        left_out = batch.attributes & _CONTROL != 0 or batch.last_offset < asked.lower
        if asked.read_committed and batch.producer_id >= 0:
            entered = _advance(aborted, entered, batch.last_offset)
            left_out = _is_aborted(data, batch, aborted, problem) or left_out
        if problem[0] != 0:
            break
        if not left_out:
            run[count, 0] = row
            run[count, 1] = batch.attributes & _CODEC_MASK
            run[count, 2] = batch.start + HEADER_SIZE
            run[count, 3] = batch.end
            count += 1
            size += batch.end - batch.start
        row += 1
    walk[0], walk[1] = row, entered
    return count
