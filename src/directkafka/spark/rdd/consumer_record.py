"""The Kafka record as a Python object, for RDDs and direct streams.

This is the only place that makes an object for each record, and an RDD without an ``arrow_handler`` uses it;
``arrow_handler`` and DataFrames work on Arrow batches. Executors import this module without ``pyspark.sql``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import pyarrow as pa


class ConsumerRecord(NamedTuple):
    """A record as a consumer gets it.

    Attributes:
        topic: the topic's name.
        partition: number of the partition.
        offset: place in the partition.
        timestamp_ms: milliseconds since 1970, UTC; -1 when the record has none.
        timestamp_type: 0 when the producer gave the timestamp, 1 when the broker did.
        key, value: bytes, or None.
        headers: name and value of each, in the record's order; a name may come more than once.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def consumer_records(batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
    """The rows of a record batch as objects.

    Args:
        batch: the seven columns of a record and ``headers``, as
            :func:`~directkafka.kafka.consumer.range_reader.read_range` gives them: all rows of one topic.
    """
    columns = {name: batch.column(name) for name in batch.schema.names}
    fields = (
        _texts(columns["topic"]),
        _numbers(columns["partition"]),
        _numbers(columns["offset"]),
        _milliseconds(columns["timestamp"]),
        _numbers(columns["timestampType"]),
        _objects(columns["key"]),
        _objects(columns["value"]),
        _headers(columns["headers"]),
    )
    return map(ConsumerRecord._make, zip(*fields, strict=False))


def _texts(column: pa.Array) -> Iterable[str]:
    # A range is of one topic.
    return repeat(column[0].as_py()) if len(column) else ()


def _numbers(column: pa.Array) -> list[int]:
    return column.to_numpy().tolist()  # type: ignore[no-any-return]


def _milliseconds(column: pa.Array) -> list[int]:
    return (column.view(pa.int64()).to_numpy() // 1000).tolist()  # type: ignore[no-any-return]


def _objects(column: pa.Array) -> list[bytes | None]:
    # In one go in C++: to_pylist makes a scalar object for each value first, which takes five times as long.
    return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def _headers(column: pa.Array) -> Iterable[tuple[tuple[str, bytes | None], ...]]:
    if column.null_count == len(column):
        return repeat(())
    pairs = column.flatten()
    names = _objects(pairs.field("key"))
    named: list[Any] = list(zip(names, _objects(pairs.field("value")), strict=True))
    ends = column.offsets.to_numpy() - column.offsets[0].as_py()
    return [tuple(named[start:end]) for start, end in pairwise(ends.tolist())]
