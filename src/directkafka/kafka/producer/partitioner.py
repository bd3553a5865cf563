"""Topics and partitions for rows, by option, by column, by key, or in turn, without an object per row.

As in Spark and Java, a topic that is given for all counts before the column ``topic``, a partition that the row
names before its key, and a key's partition is that of Java's default partitioner. Unlike there, rows without key go
round robin.

``partition = (murmur2(key) & 0x7fffffff) % partitions``, murmur2 being the 32-bit MurmurHash2 with Kafka's seed over
the key's bytes. An empty key is a key.

Sources: Kafka's ``Utils.murmur2`` and ``toPositive``, ``BuiltInPartitioner.partitionForKey``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numba import types

from directkafka.errors.data_loss import KafkaNullTopicInDataError
from directkafka.errors.kafka import RecordRejectedError
from directkafka.kafka.kernels.compile import BYTES_IN, INT32S, INT64S, helper, kernel, unwrapped, wide
from directkafka.kafka.records.rows import spans_of
from directkafka.offsets import TopicPartition

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int32s = np.ndarray[Any, np.dtype[np.int32]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


@helper
def _times(number: int) -> int:
    """The product with MurmurHash2's multiplier, of 32 bits."""
    return (number * _MULTIPLIER) & _MASK


@helper
def _murmur2(data: Any, start: int, length: int) -> int:
    """The hash, as a number of 32 bits without sign."""
    digest = (_SEED ^ length) & _MASK
    at, end = start, start + (length & ~3)
    while at < end:
        word = wide(data[at]) | wide(data[at + 1]) << 8 | wide(data[at + 2]) << 16 | wide(data[at + 3]) << 24
        word = _times(word)
        digest = _times(digest) ^ _times(word ^ (word >> 24))
        at += 4
    rest = length & 3
    if rest == 3:
        digest ^= wide(data[end + 2]) << 16
    if rest >= 2:
        digest ^= wide(data[end + 1]) << 8
    if rest >= 1:
        digest = _times(digest ^ wide(data[end]))
    digest = _times(digest ^ (digest >> 13))
    return digest ^ (digest >> 15)


@kernel(types.void(BYTES_IN, INT64S, INT64S, INT32S))
def _hash_keys(data: Bytes, starts: Int64s, lengths: Int64s, hashes: Int32s) -> None:
    source = unwrapped(data)
    for row in range(starts.shape[0]):
        length = lengths[row]
        hashes[row] = _murmur2(source, starts[row], length) & _POSITIVE if length >= 0 else -1


def key_hashes(keys: pa.Array) -> Int32s:
    """The positive murmur2 hash of each key, -1 for null.

    Args:
        keys: binary or string, large or not, or null.

    Raises:
        OptionError: keys of another type.
    """
    spans = spans_of(keys, "key")
    hashes = np.empty(len(keys), np.int32)
    _hash_keys(spans.data, spans.starts, spans.lengths, hashes)
    return hashes


def partitions_of(rows: pa.RecordBatch, partition_counts: Int32s | int, first: int = 0) -> tuple[Int32s, int]:
    """The partition of each row: the one that it names, else that of its key, else one partition after the other.

    Args:
        rows: columns ``key`` (binary or string, large or not, or null) and ``partition`` (int32), as far as they are
            there.
        partition_counts: number of the topic's partitions, of all rows or of each; at least 1.
        first: where the turns begin.

    Returns:
        The partitions, and what to add to ``first`` for the next rows. A partition that a row names may be none of its
        topic's.

    Raises:
        OptionError: keys of another type.
    """
    count, names = rows.num_rows, rows.schema.names
    given = rows.column("partition") if "partition" in names else pa.nulls(count, pa.int32())
    if given.null_count == 0:
        return np.asarray(given), 0
    hashes = key_hashes(rows.column("key")) if "key" in names else np.full(count, -1, np.int32)
    keyless = np.flatnonzero(hashes < 0)
    hashes[keyless] = (first + np.arange(keyless.size)) & _POSITIVE
    partitions: Int32s = hashes % np.asarray(partition_counts, np.int32)
    if given.null_count < count:
        partitions = np.where(np.asarray(given.is_valid()), np.asarray(given.fill_null(0)), partitions)
    return partitions, keyless.size


#: The number of partitions of each of these topics.
CountPartitions = Callable[[Collection[str]], Mapping[str, int]]


class Router:
    """Says where the rows of one task go.

    Args:
        topic: where all rows go; None for where their column says.
        count_partitions: asked once for each topic.
        first: how many rows without key there were before.
    """

    def __init__(self, topic: str | None, count_partitions: CountPartitions, first: int = 0) -> None:
        self._topic = topic
        self._count_partitions = count_partitions
        self._in_turn = first
        self._counts: dict[str, int] = {}

    def route(self, rows: pa.RecordBatch) -> tuple[list[TopicPartition], Int32s]:
        """All partitions of the rows' topics, and for each row the number of its own among them.

        Args:
            rows: columns ``key`` (binary or string), ``topic`` (string) and ``partition`` (int32), as far as they
                are there.

        Raises:
            KafkaNullTopicInDataError: a row without topic.
            RecordRejectedError: a row whose partition its topic does not have.
            OptionError: a column of another type.
        """
        topics, topic_of = self._topics(rows)
        missing = [name for name in topics if name not in self._counts]
        if missing:
            self._counts.update(self._count_partitions(missing))
        counts = np.array([self._counts[name] for name in topics], np.int32)
        partitions, in_turn = partitions_of(rows, counts[topic_of], self._in_turn)
        self._in_turn += in_turn
        _refuse_unknown(partitions, counts[topic_of], topics, topic_of)
        bases = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)
        places = [TopicPartition(name, number) for name in topics for number in range(self._counts[name])]
        return places, bases[topic_of] + partitions

    def _topics(self, rows: pa.RecordBatch) -> tuple[list[str], Int32s]:
        """The topics, and for each row the number of its own."""
        if self._topic is not None:
            return [self._topic], np.zeros(rows.num_rows, np.int32)
        column = rows.column("topic")
        if column.null_count:
            row = column.is_null().index(True).as_py()
            reason = f"row {row} of {rows.num_rows} has none; give every row a topic, or the option for all"
            raise KafkaNullTopicInDataError(option="topic", reason=reason)
        dictionary_array = column.dictionary_encode()
        return dictionary_array.dictionary.to_pylist(), np.asarray(dictionary_array.indices, np.int32)


def _refuse_unknown(partitions: Int32s, counts: Int32s, topics: list[str], topic_of: Int32s) -> None:
    wrong = (partitions < 0) | (partitions >= counts)
    if not wrong.any():
        return
    row = int(wrong.argmax())
    raise RecordRejectedError(
        topic=topics[topic_of[row]],
        partition=int(partitions[row]),
        row=row,
        rows=partitions.size,
        reason=f"the topic has partitions 0 to {counts[row] - 1}",
    )
