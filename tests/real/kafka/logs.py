"""Writing to real topics, and reading them with confluent-kafka, the independent oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AdminClient as ConfluentAdminClient,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
)
from tests.topics import make_topic
from tests.waiting import WAIT_S, until

from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import KafkaClient
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.read_policy import HEADERS, RECORD_COLUMNS

#: Offset, key, value, timestamp in milliseconds, timestamp type, headers.
Row = tuple[int, bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]] | None]


def options(servers: str, **params: object) -> ClientOptions:
    """Client options; underscores in names stand for dots."""
    named = {name.replace("_", "."): value for name, value in params.items()}
    return ClientOptions.from_kafka_params({"bootstrap.servers": servers, **named})


def produce(
    servers: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    batch_every: int = 100,
    timestamp_ms: int = 0,
    **settings: object,
) -> None:
    """Produce values with keys and now and then headers, a new record batch at least every ``batch_every``.

    A timestamp of 0 is the time of the call.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "on_delivery": _must_succeed, **settings})
    for number, value in enumerate(values):
        headers: list[tuple[str, Any]] = [("n", b"%d" % number), ("null", None)] if number % 3 == 0 else []
        key = None if number % 5 == 0 else b"key-%d" % number
        producer.produce(topic, value=value, key=key, headers=headers, partition=partition, timestamp=timestamp_ms)
        if number % batch_every == batch_every - 1:
            assert producer.flush(WAIT_S) == 0
    assert producer.flush(WAIT_S) == 0


def _must_succeed(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
    assert error is None, error


def transactional(servers: str, transactional_id: str) -> Producer:
    """A producer that is ready to begin a transaction, which may be left open for as long as the broker allows."""
    params = {"bootstrap.servers": servers, "transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
    producer = Producer({**params, "linger.ms": 5})
    producer.init_transactions(WAIT_S)
    return producer


def end_transaction(servers: str, topic: str, end: Callable[[], Any], partition: int = 0) -> None:
    """Call ``commit_transaction`` or ``abort_transaction``, and wait for the marker, which comes after the answer."""
    before = end_offset(servers, topic, partition)
    end()
    until(lambda: end_offset(servers, topic, partition) > before, "no marker")


def consume(servers: str, topic: str, *, isolation_level: str = "read_uncommitted", partition: int = 0) -> list[Row]:
    """All records of a partition, as confluent-kafka reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            # The end is told by an answer without records, which is there at once.
            "fetch.wait.max.ms": 0,
        }
    )
    consumer.list_topics(topic, WAIT_S)  # or it waits half a second before it looks for the leader
    consumer.assign([Place(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
    rows: list[Row] = []
    while True:
        message = consumer.poll(WAIT_S)
        assert message is not None, "no end of the partition"
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            break
        kind, timestamp_ms = message.timestamp()
        rows.append(
            (message.offset(), message.key(), message.value(), timestamp_ms, kind - 1, message.headers() or None)
        )
    consumer.close()
    return rows


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """What we read, in the oracle's form."""
    rows: list[Row] = []
    for batch in batches:
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        for row, micros in zip(batch.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
            headers = row.get("headers")
            rows.append(
                (
                    row["offset"],
                    row["key"],
                    row["value"],
                    micros // 1000,
                    row["timestampType"],
                    [(header["key"], header["value"]) for header in headers] if headers else None,
                )
            )
    return rows


def task_for(client: ClientOptions, topic: str, start: int, end: int, **fields: Any) -> RangeTask:
    """A task for a range of partition 0 (or ``partition``), planned as a driver does."""
    partition = fields.pop("partition", 0)
    asking = KafkaClient(client)
    try:
        admin, topic_partition = AdminClient(asking), TopicPartition(topic, partition)
        topics = admin.topics([topic])
        described, seen = topics[topic], admin.snapshot([topic_partition], topics).partitions[topic_partition]
    finally:
        asking.close()
    leader = described.leaders[partition]
    known: dict[str, Any] = {"topic_id": described.topic_id, "host": leader.host, "port": leader.port}
    known["leader_epoch"] = seen.leader_epoch
    known["columns"] = (*RECORD_COLUMNS, HEADERS)
    return RangeTask(range=OffsetRange(topic, partition, start, end), client=client, **{**known, **fields})


def read(task: RangeTask) -> list[Row]:
    """Every record of a range."""
    return rows_of(read_range(task))


def admin(servers: str) -> ConfluentAdminClient:
    """An administrator of confluent-kafka's; an answer comes only while somebody holds it."""
    return ConfluentAdminClient({"bootstrap.servers": servers})


def end_offset(servers: str, topic: str, partition: int = 0) -> int:
    """The high watermark, as confluent-kafka sees it."""
    administrator, topic_partition = admin(servers), Place(topic, partition)
    return int(
        administrator.list_offsets({topic_partition: OffsetSpec.latest()})[topic_partition].result(WAIT_S).offset
    )


def start_offset(servers: str, topic: str, partition: int = 0) -> int:
    """Where the log starts, as confluent-kafka sees it."""
    administrator, topic_partition = admin(servers), Place(topic, partition)
    return int(
        administrator.list_offsets({topic_partition: OffsetSpec.earliest()})[topic_partition].result(WAIT_S).offset
    )


def delete_records(servers: str, topic: str, before: int, partition: int = 0) -> None:
    """Move the log's start, and wait until it has moved."""
    administrator, topic_partition = admin(servers), Place(topic, partition, before)
    administrator.delete_records([topic_partition])[topic_partition].result(WAIT_S)
    until(lambda: start_offset(servers, topic, partition) == before, "the log's start did not move")


def delete_topic(servers: str, topic: str) -> None:
    """Delete a topic, and wait until no broker knows it any more."""
    administrator = admin(servers)
    administrator.delete_topics([topic])[topic].result(WAIT_S)
    until(lambda: topic not in administrator.list_topics(timeout=WAIT_S).topics, "the topic is still there")


def create_topic_again(
    servers: str, topic: str, partitions: int = 1, *, replicas: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic by a name of the test's choice, and wait until it has leaders."""
    make_topic(servers, topic, partitions, replicas=replicas, config=config)


def add_partitions(servers: str, topic: str, total: int) -> None:
    """Give a topic more partitions, and wait until they have leaders."""
    administrator = admin(servers)
    administrator.create_partitions([NewPartitions(topic, total)])[topic].result(WAIT_S)
    until(
        lambda: len(administrator.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == total,
        "the partitions did not come",
    )


def set_topic_config(servers: str, topic: str, config: Mapping[str, str]) -> None:
    """Set these settings of a topic; the others stay."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    administrator = admin(servers)
    administrator.incremental_alter_configs([resource])[resource].result(WAIT_S)


def offsets_of(rows: Sequence[Row]) -> list[int]:
    """Only the offsets."""
    return [row[0] for row in rows]


def within(rows: list[Row], start: int, end: int) -> list[Row]:
    """The rows at offsets ``[start, end)``."""
    return [row for row in rows if start <= row[0] < end]


def host_and_port(servers: str) -> tuple[str, int]:
    """Of the address of a single broker."""
    host, _, port = servers.partition(":")
    return host, int(port)


def forget_connections() -> None:
    """Close what this process keeps for the next task."""
    connection_pool.close_idle()
