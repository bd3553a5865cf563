"""Kafka as the contract suite sees it, and the checks that every test of the Kafka sink ends with."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient as ConfluentAdminClient
from tests.open_transactions import open_transactions
from tests.topics import make_topic

from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.network.client import KafkaClient
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.sinks.api import BatchAttempt, SecondPhase, TaskReport
from directkafka.sinks.kafka.sink import KafkaSink
from directkafka.sinks.kafka.store import KafkaStore
from directkafka.sinks.wrapped_sink import WrappedSink
from directkafka.testing.store_driver import SCHEMA

PARTITIONS = 3
WAIT_S = 60.0


class KeyedRows(WrappedSink):
    """A Kafka sink for the suite's rows: the id as key, both columns as JSON in the value."""

    _inner: KafkaSink

    def __init__(self, inner: KafkaSink, table: str) -> None:
        super().__init__(inner)
        self.table = table

    def check(self, schema: pa.Schema) -> None:
        self._inner.check(_as_records(pa.Table.from_batches([], schema)).schema if schema == SCHEMA else schema)

    def prepare(self, schema: pa.Schema) -> None:
        self.check(schema)

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> AsRecords:
        return AsRecords(self._inner.task_writer(batch, schema, task_count=task_count))

    def second_phase(
        self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport], *, writers_max: int
    ) -> SecondPhase:
        phase = self._inner.second_phase(transaction, batch, reports, writers_max=writers_max)
        return replace(phase, router=AsRecords(phase.router))


@dataclass(frozen=True)
class AsRecords:
    """What the transform does in a pipeline: the suite's rows made into key and value."""

    inner: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Any:
        return self.inner(_as_records(pa.table(batch)).to_batches()[0] for batch in batches if batch.num_rows)


def _as_records(rows: pa.Table) -> pa.Table:
    keys = [str(number).encode() for number in rows.column("id").to_pylist()]
    values = [json.dumps(list(row.values())).encode() for row in rows.to_pylist()]
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


@dataclass
class KafkaHarness:
    servers: str
    prefix: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex[:8]}")
    params: dict[str, object] = field(default_factory=dict)
    opened: list[KafkaStore] = field(default_factory=list)

    def open_store(self, **options: Any) -> KafkaStore:
        store = KafkaStore(self.kafka_params(), name_prefix=self.prefix, resolve_timeout_s=10.0, **options)
        self.opened.append(store)
        return store

    def close(self) -> None:
        for store in self.opened:
            store.close()

    def kafka_params(self) -> dict[str, object]:
        return {"bootstrap.servers": self.servers, "transaction.timeout.ms": 30_000, **self.params}

    def sink(
        self,
        table: str,
        *,
        mode: Literal["append", "ignore", "merge"] = "append",
        staged: bool = False,
    ) -> KeyedRows:
        assert mode == "append", "records are only ever appended"
        topic = self.make_topic(table)
        sink = KafkaSink(
            self.kafka_params(), topic, inline_bytes_max=-1 if staged else 1 << 20, name_prefix=self.prefix
        )
        self.opened.append(sink.store)
        return KeyedRows(sink, topic)

    def make_topic(self, table: str) -> str:
        topic = f"{self.prefix}-{table}"
        admin = ConfluentAdminClient({"bootstrap.servers": self.servers})
        if topic not in admin.list_topics(timeout=WAIT_S).topics:
            make_topic(self.servers, topic, PARTITIONS)
        return topic

    def rows(self, sink: KeyedRows) -> list[tuple[Any, ...]]:
        wait_until_stable(self.servers, sink.name)
        return sorted(tuple(json.loads(record.value)) for record in read_committed(self.servers, sink.name))

    def stable_values(self, sink: KeyedRows) -> list[tuple[Any, ...]]:
        """What a reader sees now, whatever is open."""
        return sorted(tuple(json.loads(record.value)) for record in read_committed(self.servers, sink.name))

    def leftovers(self) -> list[str]:
        return still_open(self.servers, self.prefix)


def still_open(servers: str, prefix: str) -> list[str]:
    """Transactions that stay open; one that is being ended, as after an EndTxn just answered, is waited for."""
    with closing(KafkaClient(ClientOptions(bootstrap_servers=tuple(servers.split(","))))) as client:
        deadline = time.monotonic() + WAIT_S
        while True:
            transactions = open_transactions(client, prefix)
            if all(transaction.state == "Ongoing" for transaction in transactions) or time.monotonic() > deadline:
                return [str(transaction) for transaction in transactions]
            time.sleep(0.02)


def wait_until_stable(servers: str, topic: str) -> None:
    """Until the last stable offset is the high watermark: EndTxn is answered before its markers are written."""
    with closing(KafkaClient(ClientOptions(bootstrap_servers=tuple(servers.split(","))))) as client:
        stable = AdminClient(client, isolation_level="read_committed")
        every = AdminClient(client, isolation_level="read_uncommitted")
        places = [TopicPartition(topic, partition) for partition in every.topics([topic])[topic].leaders]
        deadline = time.monotonic() + WAIT_S
        while True:
            wanted = dict.fromkeys(places, -1)
            ends, stable_ends = every.offsets_at(wanted), stable.offsets_at(wanted)
            if ends == stable_ends:
                return
            assert time.monotonic() < deadline, f"last stable offsets {stable_ends} stay below {ends}"
            time.sleep(0.02)


class Record(NamedTuple):
    """A record as another client sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


def committed_consumer(servers: str, topic: str) -> Consumer:
    """A confluent-kafka consumer of all committed records of a topic, which says where each partition ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "oracle",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
        }
    )
    partitions = consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
    consumer.assign([Place(topic, partition, 0) for partition in partitions])
    return consumer


def poll(consumer: Consumer, timeout_s: float) -> Record | int | None:
    """The next record; a partition's number at its end; None when nothing came."""
    message = consumer.poll(timeout_s)
    if message is None:
        return None
    error, partition, offset = message.error(), message.partition(), message.offset()
    assert partition is not None
    if error is not None:
        assert error.code() == KafkaError._PARTITION_EOF, error
        return partition
    assert offset is not None
    key, value = message.key(), message.value()
    headers = tuple(message.headers() or ())
    return Record(partition, offset, key if isinstance(key, bytes) else None, bytes(value or b""), headers)  # type: ignore[arg-type]


def read_committed(servers: str, topic: str) -> list[Record]:
    """Every committed record, once no transaction is open in the topic."""
    with closing(committed_consumer(servers, topic)) as consumer:
        records: list[Record] = []
        ended: set[int] = set()
        deadline = time.monotonic() + WAIT_S
        while len(ended) < len(consumer.assignment()):
            assert time.monotonic() < deadline, f"only the ends of {ended} came"
            match poll(consumer, 0.5):
                case Record() as record:
                    records.append(record)
                case int(partition):
                    ended.add(partition)
    return records
