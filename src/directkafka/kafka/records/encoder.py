"""Rows of Arrow columns to Kafka's record batches (magic 2), without a Python object per row.

Four steps per call, of which compiled kernels do the first, the second and the last:

1. rows are ordered by target, and within a target as they came;
2. each target's records are written one behind the other, cut into batches of at most ``batch.size`` bytes;
3. each batch is compressed as a whole, if it is to be;
4. batch headers are written in front, with the producer's identity, sequence numbers and CRC32C.

A batch is made once. Whoever sends it again sends the same bytes: its sequence number tells the broker that it is
the same (KIP-98).

Sources: see :mod:`directkafka.kafka.records.record_batch` and :mod:`directkafka.kafka.records.record`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from directkafka.errors.kafka import RecordRejectedError, RecordTooLargeError
from directkafka.kafka.compression.compress import Compress, compressor
from directkafka.kafka.kernels.c_functions import crc32c_address
from directkafka.kafka.records.encode_kernel import (
    TRANSACTIONAL,
    EncodedSpan,
    HeaderFields,
    Limits,
    Rows,
    encode_records,
    order_by_target,
    write_headers,
)
from directkafka.kafka.records.record_batch import HEADER_SIZE
from directkafka.kafka.records.rows import read_rows, room_needed
from directkafka.offsets import TopicPartition
from directkafka.options.producer import ProducerOptions

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int32s = np.ndarray[Any, np.dtype[np.int32]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Sequence numbers go round at Java's Integer.MAX_VALUE.
_SEQUENCES = 2**31
_START, _END = EncodedSpan._fields.index("start"), EncodedSpan._fields.index("end")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """Who writes: what a broker tells a producer's batches from another's by (KIP-98). Travels to executors.

    Attributes:
        producer_id, epoch: as InitProducerId gave them.
        transactional_id: the name of the producer whose transaction the records belong to; None outside of one.
            Its partitions must have been added to the transaction before (AddPartitionsToTxn).
    """

    producer_id: int
    epoch: int
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBatch:
    """One record batch, ready to be sent to its partition's leader.

    Attributes:
        target: the partition it is for.
        data: its bytes, header and all; read-only.
        records: how many records it holds.
        raw_bytes: what ``data`` would be long without compression.
        base_sequence: the first one's sequence number in this partition.
    """

    target: TopicPartition
    data: memoryview
    records: int
    raw_bytes: int
    base_sequence: int


class RecordEncoder:
    """Encodes rows for one producer, and counts its sequence numbers.

    Sequence numbers begin at 0 in each partition: an identity belongs to one encoder, and gets no second one.

    Args:
        options: sizes, codec and its level.
        identity: who writes.
    """

    def __init__(self, options: ProducerOptions, identity: ProducerIdentity) -> None:
        codec, self._compress = compressor(options)
        self._limits = Limits(batch=options.batch_size_bytes, single=options.request_bytes_max)
        self._sequences: dict[TopicPartition, int] = {}
        self._header_fields = HeaderFields(
            attributes=codec | (TRANSACTIONAL if identity.transactional_id is not None else 0),
            producer_id=identity.producer_id,
            epoch=identity.epoch,
            crc32c=crc32c_address(),
        )

    def encode(self, rows: pa.RecordBatch, targets: Sequence[TopicPartition], target_of: Int32s) -> list[EncodedBatch]:
        """The rows as record batches: by target, and within a target in the order of the rows.

        Args:
            rows: columns ``value`` and, if they are there, ``key`` (both binary or string, large or not, or null),
                ``headers`` (list of struct of ``key`` string and ``value`` binary) and ``timestamp``
                (timestamp of any unit, or int64 milliseconds since 1970; null and absent mean now). Others are
                left alone.
            targets: partitions that rows go to.
            target_of: for each row, the number of its target.

        Returns:
            Batches in the order they are to be sent in. They do not look into ``rows`` any more.

        Raises:
            RecordTooLargeError: a row is larger than ``max.request.size`` as a batch of its own; no sequence number
                was used.
            RecordRejectedError: a row has a header without key, or a timestamp before 1970; likewise.
            OptionError: a column is missing or of another type.
        """
        if rows.num_rows == 0:
            return []
        source = read_rows(rows, target_of)
        _refuse(source, targets)
        out = np.empty(room_needed(source), np.uint8)
        batches = self._encode_records(source, targets, out)
        raw_bytes = (batches[:, _END] - batches[:, _START]).tolist()
        if self._compress is not None:
            out = _compressed(out, batches, self._compress)
        sequences = self._take_sequences(batches, targets)
        write_headers(out, batches, sequences, self._header_fields)
        data = out.data.toreadonly()
        return [
            EncodedBatch(
                target=targets[target], data=data[start:end], records=records, raw_bytes=raw, base_sequence=sequence
            )
            for (target, start, end, records, _, _), raw, sequence in zip(
                batches.tolist(), raw_bytes, sequences.tolist(), strict=True
            )
        ]

    def _encode_records(self, source: Rows, targets: Sequence[TopicPartition], out: Bytes) -> Table:
        """The records' bytes, with room for headers; a table of :class:`EncodedSpan`."""
        count = source.targets.size
        order = np.empty(count, np.int64)
        order_by_target(source.targets, np.zeros(len(targets) + 1, np.int64), order)
        batches = np.empty((count, len(EncodedSpan._fields)), np.int64)
        refused = np.zeros(2, np.int64)
        batch_count = int(encode_records(source, order, self._limits, out, batches, refused))
        if batch_count < 0:
            row, size = refused.tolist()
            partition = targets[source.targets[row]]
            raise RecordTooLargeError(
                topic=partition.topic,
                partition=partition.partition,
                row=row,
                rows=count,
                size_bytes=size,
                size_bytes_max=self._limits.single,
            )
        return batches[:batch_count].copy()

    def _take_sequences(self, batches: Table, targets: Sequence[TopicPartition]) -> Int64s:
        """The number of each batch's first record in its partition; the partition goes on behind the last one."""
        taken = []
        for target, _, _, records, _, _ in batches.tolist():
            partition = targets[target]
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = (sequence + records) % _SEQUENCES
            taken.append(sequence)
        return np.array(taken, np.int64)


def _refuse(source: Rows, targets: Sequence[TopicPartition]) -> None:
    """What Kafka's producer takes in no record: a header without key, a negative timestamp.

    Raises:
        RecordRejectedError: the first row of that kind.
    """
    reason, row = "", -1
    if int(source.timestamps_ms.min()) < 0:
        row = int((source.timestamps_ms < 0).argmax())
        reason = f"its timestamp is {source.timestamps_ms[row]} ms, and Kafka has none before 1970"
    elif source.header_keys.lengths.size and int(source.header_keys.lengths.min()) < 0:
        row = _row_without_header_key(source)
        reason = "one of its headers has no key"
    if row >= 0:
        partition = targets[source.targets[row]]
        rows = source.targets.size
        raise RecordRejectedError(
            topic=partition.topic, partition=partition.partition, row=row, rows=rows, reason=reason
        )


def _row_without_header_key(source: Rows) -> int:
    """The first such row, or -1: headers that belong to no row may have any key."""
    null_before = np.concatenate([[0], np.cumsum(source.header_keys.lengths < 0)])
    firsts = source.first_headers
    has_null = null_before[firsts + source.header_counts] > null_before[firsts]
    return int(has_null.argmax()) if has_null.any() else -1


def _compressed(out: Bytes, batches: Table, compress: Compress) -> Bytes:
    """The batches with their records compressed, in new bytes; the table says where they are now."""
    # The libraries want read-only bytes, or do not mind.
    source = out.data.toreadonly()
    packed = [np.frombuffer(compress(source[start + HEADER_SIZE : end]), np.uint8)
              for start, end in batches[:, [_START, _END]].tolist()]  # fmt: skip
    sizes = np.array([batch.size + HEADER_SIZE for batch in packed], np.int64)
    ends = np.cumsum(sizes)
    batches[:, _END] = ends
    batches[:, _START] = ends - sizes
    compressed = np.empty(int(ends[-1]), np.uint8)
    for batch, end in zip(packed, ends.tolist(), strict=True):
        compressed[end - batch.size : end] = batch
    return compressed
