"""Rows of Arrow columns to Kafka's record batches (magic 2), without a Python object per row.

Three steps per call, the first and the last of which are compiled kernels:

1. rows are dealt to their targets, in the order they came, and each target's records are written one behind the
   other, cut into batches of at most ``batch.size`` bytes (:mod:`directkafka.kafka.record_layout`);
2. each batch is compressed as a whole (:mod:`directkafka.kafka.compress`), if it is to be;
3. batch headers are written in front, with the producer's identity, sequence numbers and CRC32C.

A batch is made once. Whoever sends it again sends the same bytes: its sequence number tells the broker that it is
the same (KIP-98).

Sources: see :mod:`directkafka.kafka.record_batch` and :mod:`directkafka.kafka.record_fields`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from directkafka.offsets import TopicPartition
from directkafka.options.producer import ProducerOptions

__all__ = ["NO_IDENTITY", "EncodedBatch", "ProducerIdentity", "RecordEncoder"]

Int32s = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """Who writes: what a broker tells a producer's batches from another's by (KIP-98). Travels to executors.

    Attributes:
        producer_id, epoch: as InitProducerId gave them; -1 for a producer without idempotence.
        transactional_id: the name of the producer whose transaction the records belong to; None outside of one.
            Its partitions must have been added to the transaction before (AddPartitionsToTxn).
    """

    producer_id: int
    epoch: int
    transactional_id: str | None = None


#: A producer that the broker does not know: records may be doubled when an answer does not come.
NO_IDENTITY = ProducerIdentity(producer_id=-1, epoch=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBatch:
    """One record batch, ready to be sent to its partition's leader.

    Attributes:
        target: the partition it is for.
        data: its bytes, header and all; read-only.
        records: how many records it holds.
        base_sequence: the first one's sequence number in this partition, -1 without identity.
    """

    target: TopicPartition
    data: memoryview
    records: int
    base_sequence: int


class RecordEncoder:
    """Encodes rows for one producer, and counts its sequence numbers.

    Sequence numbers begin at 0 in each partition: an identity belongs to one encoder, and gets no second one.

    Args:
        options: sizes, codec and its level.
        identity: who writes.
    """

    def __init__(self, options: ProducerOptions, identity: ProducerIdentity) -> None:
        raise NotImplementedError

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
            OptionError: a column of another type.
        """
        raise NotImplementedError
