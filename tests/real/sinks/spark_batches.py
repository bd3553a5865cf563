"""Spark's own rows into a sink, batch by batch, without Kafka."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from directkafka.pipeline.execution.write_task import WriteTask, reports_of
from directkafka.sinks.api import LedgerEntry
from directkafka.testing.store_driver import Job


def commit_frame(job: Job, sink: Any, frame: DataFrame) -> LedgerEntry:
    """One batch: the sink's tasks consume the frame's rows on Spark's executors, and the store commits them."""
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    sink.check(schema)
    sink.prepare(schema)
    entry = job.next_entry()
    batch = job.batch(entry)
    writer = sink.task_writer(batch, schema)
    report_table = frame.mapInArrow(WriteTask(writer), "report binary").toArrow()
    job.last = job.store.commit(entry, previous=job.last, writes=[(sink, batch, reports_of(report_table))])
    return job.last
