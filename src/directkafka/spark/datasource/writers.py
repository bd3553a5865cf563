"""Writers of the format ``directkafka``: at least once, as Spark's own sink.

Nothing is committed at the end: a task's rows are there when the task is done, and stay when the job fails. For rows
and progress in one transaction there is the Kafka sink of a pipeline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from directkafka.errors.transport import Notes
from directkafka.options.producer import SinkOptions
from directkafka.payloads.encode import ColumnEncoding

log = logging.getLogger("directkafka.sink")


@dataclass(frozen=True, slots=True)
class _CommitMessage(WriterCommitMessage):
    """What a task tells the driver: how many rows are acknowledged."""

    rows: int


def _write(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], notes: Notes, encodings: Sequence[ColumnEncoding]
) -> _CommitMessage:
    # Processes that only plan do not pay for the kernels.
    from directkafka.spark.datasource.write_task import write_rows

    return _CommitMessage(write_rows(options, batches, notes, encodings))


def _count(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(message.rows for message in messages if isinstance(message, _CommitMessage))


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame's rows once."""

    def __init__(self, options: SinkOptions, notes: Notes, encodings: Sequence[ColumnEncoding] = ()) -> None:
        self._options = options
        self._encodings = encodings
        self._notes = notes

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """The rows of one task, on an executor."""
        return _write(self._options, iterator, self._notes, self._encodings)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: the rows are there."""
        log.info("%d rows written", _count(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: what is written stays."""
        log.warning("the write failed; %d rows of tasks that were done stay written", _count(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a query's batches."""

    def __init__(self, options: SinkOptions, notes: Notes, encodings: Sequence[ColumnEncoding] = ()) -> None:
        self._options = options
        self._encodings = encodings
        self._notes = notes

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """The rows of one task, on an executor."""
        return _write(self._options, iterator, self._notes, self._encodings)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing: the rows are there."""
        log.info("batch %d: %d rows written", batchId, _count(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: what is written stays, and is written again when the query goes on."""
        log.warning("batch %d failed; %d rows of tasks that were done stay written", batchId, _count(messages))
