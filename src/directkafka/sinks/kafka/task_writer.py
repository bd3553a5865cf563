"""Task writers of a Kafka sink: the first job's hands over few rows or counts many, the second job's writes them.

First job: a task holds its rows while they are few, and hands them to the driver inside its report. A task with more
rows reports how many they are and where they go. Second job, only if some task had more: every row goes to the one task
that writes to its target, inside the transaction that the driver has opened meanwhile.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from directkafka.fault_points import fault_point
from directkafka.kafka.producer.producer import Producer
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.kafka.transactions.attempt_fencing import TransactionClaims
from directkafka.offsets import TopicPartition
from directkafka.options.producer import TransactionOptions
from directkafka.payloads.encode import ColumnEncoding, encoded
from directkafka.sinks.api import TARGET, TaskReport
from directkafka.sinks.kafka.rows import (
    TOPIC,
    Destinations,
    TargetRouter,
    destinations_of,
    destinations_to_payload,
    merge_destinations,
)
from directkafka.sinks.staging import buffer, report_inline


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTaskWriter:
    """One task's part of the first job.

    Attributes:
        topic: the sink's topic; None: a column names it.
        inline_bytes_max: up to this many bytes of Arrow data travel inside the report.
        topic_from: that column.
        encodings: what values and keys become that are no bytes.
    """

    topic: str | None
    inline_bytes_max: int
    topic_from: str = TOPIC
    encodings: tuple[ColumnEncoding, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's rows; nothing is written."""
        # As they are written: a struct may be a fraction of its JSON.
        rows = buffer(encoded(batches, self.encodings), bytes_max=self.inline_bytes_max).batches
        return report_inline(rows) if isinstance(rows, tuple) else self._count(rows)

    def _count(self, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        rows = 0
        destinations: Destinations = {}
        for batch in batches:
            rows += batch.num_rows
            destinations = merge_destinations((destinations, destinations_of(batch, self.topic, self.topic_from)))
        return TaskReport(
            rows=rows, attempt=uuid.uuid4().hex, staged=True, payload=destinations_to_payload(destinations)
        )


@dataclass(frozen=True, slots=True)
class EncodingRouter:
    """A router in front of which values and keys become bytes: by them it finds the partitions; picklable.

    Attributes:
        router: the router.
        encodings: what columns become.
    """

    router: TargetRouter
    encodings: tuple[ColumnEncoding, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as they are written, with the column :data:`~directkafka.sinks.api.TARGET`."""
        return self.router(encoded(batches, self.encodings))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaShareWriter:
    """One task's part of the second job: all rows of some targets, to which no other task writes.

    Attributes:
        options: connection and sizes.
        identity: the transaction's producer.
        targets: all target partitions; the column ``directkafka_target`` holds a row's index among them.
        writer_count: number of tasks that share the targets: target t is written by task ``t % writer_count``.
        claims: by which a task attempt claims its share before it writes.
    """

    options: TransactionOptions
    identity: ProducerIdentity
    targets: Sequence[TopicPartition]
    writer_count: int
    claims: TransactionClaims

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write the task's rows, and wait until they are acknowledged.

        Raises:
            SecondAttemptError: another attempt has claimed these rows; this one has written nothing.
            KafkaError: the transaction must be aborted.
        """
        coming = (batch for batch in batches if batch.num_rows)
        first = next(coming, None)
        if first is None:
            return self._report(0, 0)
        self.claims.claim_writing(first.column(TARGET)[0].as_py() % self.writer_count)
        rows = 0
        with Producer(self.options.client, self.options.producer, self.identity) as producer:
            for batch in itertools.chain((first,), coming):
                rows += batch.num_rows
                producer.write(batch, self.targets, np.asarray(batch.column(TARGET)))
            acknowledged_count = sum(producer.flush().values())
        fault_point("task.flushed")
        return self._report(rows, acknowledged_count)

    def _report(self, rows: int, acknowledged_count: int) -> TaskReport:
        payload = json.dumps(
            {"producer_id": self.identity.producer_id, "epoch": self.identity.epoch, "acknowledged": acknowledged_count}
        )
        return TaskReport(rows=rows, attempt=uuid.uuid4().hex, staged=True, payload=payload.encode())


def acknowledged(report: TaskReport, identity: ProducerIdentity) -> int:
    """How many rows of a task's share the brokers acknowledged in this transaction; 0 if it wrote in another one."""
    payload = json.loads(report.payload)
    is_ours = (payload.get("producer_id"), payload.get("epoch")) == (identity.producer_id, identity.epoch)
    return int(payload["acknowledged"]) if is_ours else 0
