"""Spark's own floor: a Python source that hands over Arrow batches which are ready, and does nothing else.

No Python source can be faster. The batches have the columns and sizes of those that the same topic gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from directkafka.kafka.records.arrow import schema as arrow_schema
from directkafka.kafka.records.decoder import BATCH_BYTES_MAX, BATCH_ROWS_MAX
from directkafka.options.read_policy import RECORD_COLUMNS
from directkafka.spark.schema import record_schema

__all__ = ["ReadyBatches", "ready_batches"]


class ReadyBatches(DataSource):
    """Options: ``records`` in all, ``partitions``, ``valueBytes``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "ready"

    def schema(self) -> str:
        """That of Kafka records."""
        return record_schema(RECORD_COLUMNS)

    def reader(self, schema: Any) -> DataSourceReader:
        """The only reader there is."""
        return _Reader(*(int(self.options[name]) for name in ("records", "partitions", "valueBytes")))


class _Reader(DataSourceReader):
    def __init__(self, records: int, partitions: int, value_bytes: int) -> None:
        self._records, self._partitions, self._value_bytes = records, partitions, value_bytes

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return ready_batches(self._records // self._partitions, self._value_bytes)


def ready_batches(records: int, value_bytes: int) -> Iterator[pa.RecordBatch]:
    """So many records, of which nothing is read and nothing made but the first batch's."""
    rows = max(1, min(BATCH_ROWS_MAX, BATCH_BYTES_MAX // value_bytes))
    ready = _batch(rows, value_bytes)
    for start in range(0, records, rows):
        yield ready.slice(0, min(rows, records - start))


@cache
def _batch(rows: int, value_bytes: int) -> pa.RecordBatch:
    value = (b"0123456789abcdef" * (value_bytes // 16 + 1))[:value_bytes]
    columns = {
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array([value] * rows, pa.binary()),
        "topic": pa.array(["ready"] * rows, pa.string()),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([1_700_000_000_000_000] * rows, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns, schema=arrow_schema(include_headers=False))
