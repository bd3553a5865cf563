"""One batch through a sink and its store, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from directkafka.errors import SchemaMismatchError
from directkafka.sinks.api import Sink
from directkafka.testing.store_driver import Job


def run(job: Job, sink: Sink, *tasks: pa.Table) -> None:
    """One batch of one task per table."""
    schema = tasks[0].schema
    sink.prepare(schema)
    entry = job.next_entry()
    batch = job.batch(entry)
    writer = sink.task_writer(batch, schema)
    reports = [writer(iter(table.to_batches(max_chunksize=1000))) for table in tasks]
    job.last = job.store.commit(entry, previous=job.last, writes=[(sink, batch, reports)])


def run_all(job: Job, sinks: Sequence[Sink], rows: pa.Table) -> None:
    """One batch of one task for each sink, all in one transaction."""
    for sink in sinks:
        sink.prepare(rows.schema)
    entry = job.next_entry()
    batch = job.batch(entry)
    writes = [(sink, batch, [sink.task_writer(batch, rows.schema)(iter(rows.to_batches()))]) for sink in sinks]
    job.last = job.store.commit(entry, previous=job.last, writes=writes)


def problems_of(sink: Sink, **types: pa.DataType) -> str:
    """What the sink says of a DataFrame with these columns."""
    with pytest.raises(SchemaMismatchError) as caught:
        sink.prepare(pa.schema(types))
    return caught.value.detail
