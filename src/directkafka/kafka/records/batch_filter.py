"""The filter of record batches: a compiled walk over the index that finds wanted ones, before any is decompressed.

Of each batch that begins before the wanted end, codec and CRC32C are checked before anything else is believed.
Left out are control batches, batches before the wanted offsets and those of aborted transactions.

Aborted transactions are followed as Java's consumer does (``CompletedFetch.java``): a response comes with the
transactions that were aborted in its range; a producer is aborting from the transaction's first offset to its abort
marker, and its transactional batches in between are left out.
"""

# ruff: noqa: PLR0917 - a kernel takes its arrays as single arguments
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types

from directkafka.kafka.compression.decompress import CODEC_NAMES
from directkafka.kafka.kernels.c_functions import crc32c
from directkafka.kafka.kernels.compile import BYTES_IN, BYTES_OUT, INT64, INT64S, TABLE, helper, kernel, unwrapped
from directkafka.kafka.records.batch_header import HEADER_SIZE, Batch, batch_at
from directkafka.kafka.records.record import Corruption, control_record_type, report

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]

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
def _place(producers: Any, producer_id: int) -> int:
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
        found = crc32c(crc32c_at, data, batch.start + _CRC_FROM, batch.end)
        if found != batch.crc:
            report(corruption, Corruption.CHECKSUM, batch.start, found, batch.crc)
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
    place = _place(aborted.producers, batch.producer_id)
    if batch.attributes & _CONTROL:
        if _is_abort(data, batch, corruption) and place >= 0:
            aborted.aborting[place] = 0
        return False
    return batch.attributes & _TRANSACTIONAL != 0 and place >= 0 and aborted.aborting[place] != 0


@kernel(INT64(BYTES_IN, TABLE, _ASKED_TYPE, _ABORTED_TYPE, INT64S, TABLE, INT64S))
def filter_batches(
    records: Bytes, batches: Table, asked: FilterSpec, aborted: Aborted, walk: Int64s, run: Table, corruption: Int64s
) -> int:
    """Check the next batches of a response, and collect those that are wanted into a run.

    Args:
        records: the response's bytes, read-only.
        batches: what :func:`directkafka.kafka.records.batch_header.index_batches` returned.
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
