"""Dead letters of records that were set apart: read again as they came, by the driver, and written for the sink.

There are few of them, and no transform sees them, so they need no job of Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from directkafka.errors import DirectKafkaError, RowRejectedError, TransformError
from directkafka.errors.registry import UnencodableRowError
from directkafka.errors.streams import MalformedPayloadError
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount
from directkafka.pipeline.execution.native.dead_letters import DeadLettersOfBatch
from directkafka.pipeline.execution.native.task import JsonTextsWriter
from directkafka.pipeline.execution.output_writer import OutputWriter
from directkafka.pipeline.isolation.ranges import RecordPlace, alone, first_place
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.databases import is_json

#: Much longer ones, with the whole plan of a query in them, would be larger than most records.
_REASON_CHARACTERS_MAX = 4_000


def reason_of(error: DirectKafkaError) -> str:
    """What a dead letter says of a failure: the class of the error, and its text."""
    match error:
        case (
            TransformError(cause=text)
            | RowRejectedError(detail=text)
            | MalformedPayloadError(reason=text)
            | UnencodableRowError(reason=text)
        ):
            told = text
        case _:
            told = str(error)
    # Made of a record's bytes, it may have what no database takes.
    told = told.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    return f"{type(error).__name__}: {told}"[:_REASON_CHARACTERS_MAX]


def write_dead_letters(
    writer: OutputWriter,
    dead_letters: DeadLettersOfBatch,
    name: BatchAttempt,
    tasks: Sequence[RangeTask],
    reasons: Mapping[RecordPlace, str],
) -> tuple[TaskReport, list[tuple[str, ReadCount]]]:
    """Write a dead letter for each of some records.

    Args:
        writer: of the sink of dead letters.
        dead_letters: what they are made of.
        name: the try of the batch.
        tasks: the ranges of the batch, in which the records lie.
        reasons: the records, and why.

    Returns:
        The report of the sink's writer, and how much was read, by topic.

    Raises:
        DirectKafkaError: a record cannot be read, or the sink refuses it.
    """
    # Not above: a driver that sets no record apart does not load the kernels that read.
    from directkafka.kafka.consumer.range_reader import read_range

    read: list[tuple[str, ReadCount]] = []

    def rows() -> list[pa.RecordBatch]:
        batches = []
        for task in alone(tasks, reasons):
            count = ReadCount()
            as_it_came = replace(task, payloads=(), columns=dead_letters.columns)
            for batch in read_range(as_it_came, count):
                reason = pa.repeat(reasons[first_place([task])], len(batch))
                batches.append(_cast(dead_letters.of_records(batch, reason), writer.schema))
            read.append((task.range.topic, count))
        return batches

    write = writer.sink.task_writer(name, writer.schema, task_count=1)
    write = JsonTextsWriter(write, writer.schema) if any(map(is_json, writer.schema)) else write
    return write(iter(rows())), read


def _cast(dead_letters: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns as the sink was prepared for them; JSON is made of nested ones by its writer."""
    columns = {field.name: dead_letters.column(field.name) for field in schema}
    columns |= {field.name: columns[field.name].cast(field.type) for field in schema if not is_json(field)}
    return pa.record_batch(columns)
