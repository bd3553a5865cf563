"""A driver of the Kafka store without Spark.

It numbers records from 0, ten a batch, and gives each batch's rows to two tasks. A record's value has its number, its
batch, and the try of the batch that wrote it: so a reader can tell an aborted try from the committed one.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pyarrow as pa

from directkafka.fault_points import fault_point
from directkafka.sinks.kafka.sink import KafkaSink
from directkafka.sinks.kafka.store import KafkaStore
from directkafka.testing.store_driver import Job

BATCH = 10
PIPELINE = "numbers"
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
#: Of a driver's transactions, unless a test is about it: longer than any test stops one.
TIMEOUT_MS = 60_000


def rows_of(first: int, count: int, batch_id: int, attempt: str) -> pa.RecordBatch:
    """The records ``[first, first + count)`` of a try of a batch."""
    numbers = range(first, first + count)
    values = [json.dumps({"number": number, "batch": batch_id, "attempt": attempt}).encode() for number in numbers]
    return pa.record_batch([[str(number).encode() for number in numbers], values], schema=SCHEMA)


def drive(servers: str, prefix: str, topic: str, count: int, *, staged: bool, timeout_ms: int) -> None:
    """Fence, read, and commit batches until ``count`` records are written."""
    params = {"bootstrap.servers": servers, "transaction.timeout.ms": timeout_ms}
    sink = KafkaSink(params, topic, inline_bytes_max=-1 if staged else 1 << 20, name_prefix=prefix)
    with closing(KafkaStore(params, name_prefix=prefix)) as store, closing(sink.store):
        fault_point("fence.before")
        job = Job(store, PIPELINE)
        job.generation = store.fence(PIPELINE)
        fault_point("fence.done")
        job.last = store.read(PIPELINE)
        fault_point("ledger.read")
        sink.prepare(SCHEMA)
        if job.last is None:
            fault_point("origin.planned")
            job.last = store.commit(job.next_entry(0), previous=None)
            fault_point("origin.committed")
        while (first := job.last.progress[0].end) < count:
            entry = job.next_entry(BATCH)
            batch = job.batch(entry)
            fault_point("batch.planned")
            tasks = [
                [rows_of(start, BATCH // 2, entry.batch_id, batch.attempt)] for start in (first, first + BATCH // 2)
            ]
            writer = sink.task_writer(batch, SCHEMA)
            reports = job.finish(sink, batch, tasks, [writer(iter(task)) for task in tasks])
            fault_point("batch.written")
            job.last = store.commit(entry, previous=job.last, writes=[(sink, batch, reports)])
            print(json.dumps({"batch": entry.batch_id, "generation": job.generation}), flush=True)
            fault_point("batch.reported")


def value_of(record: Any) -> dict[str, Any]:
    """A record's value as the driver made it."""
    value: dict[str, Any] = json.loads(record.value)
    return value
