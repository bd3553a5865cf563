"""The servers of a soak, and the producer that never stops."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from directkafka.testing import EmbeddedPostgres, KafkaBroker

__all__ = ["BROKERS", "COPIES", "PARTITIONS", "TOPIC", "NumberProducer", "World", "read_topic"]

BROKERS = 3
PARTITIONS = 4
TOPIC = "numbers"
#: Where the pipeline writes them.
COPIES = "copies"

#: Everything that is acknowledged survives the loss of one broker.
_SAFE = {
    "default.replication.factor": BROKERS,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": BROKERS,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": BROKERS,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 4,
}

#: How long a client waits for a cluster whose brokers are being killed, in seconds.
_PATIENCE_S = 180


@dataclass(frozen=True)
class World:
    """Brokers and database.

    Attributes:
        kafka: three brokers.
        postgres: the server.
        dsn: of the pipeline's database.
        folder: for files of the pipeline.
    """

    kafka: KafkaBroker
    postgres: EmbeddedPostgres
    dsn: str
    folder: Path

    @classmethod
    @contextlib.contextmanager
    def running(cls, folder: Path) -> Iterator[World]:
        """Start all servers; they end with the block."""
        with KafkaBroker(BROKERS, config=_SAFE) as kafka, EmbeddedPostgres() as postgres:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            topics = [NewTopic(name, PARTITIONS, BROKERS) for name in (TOPIC, COPIES)]
            for future in admin.create_topics(topics).values():
                future.result(60)
            yield cls(kafka, postgres, postgres.create_database("soak"), folder)


class NumberProducer:
    """Writes rising numbers, so many a second, until it is told to stop; idempotent, so none comes twice.

    Args:
        servers: the brokers.
        per_second: how many.
    """

    def __init__(self, servers: str, *, per_second: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "log_level": 2,
                "message.timeout.ms": _PATIENCE_S * 1000,
            }
        )
        self._pause_s = 0.1
        self._step = max(1, round(per_second * self._pause_s))
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self.count = 0
        self.refused: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Write what is still on its way, and stop."""
        if not self._enough.is_set():
            self._enough.set()
            self._thread.join()
            self._producer.flush(_PATIENCE_S)

    def _run(self) -> None:
        while not self._enough.wait(self._pause_s):
            for _ in range(self._step):
                self._write()
            self._producer.poll(0)

    def _write(self) -> None:
        number, self.count = self.count, self.count + 1
        with contextlib.suppress(
            BufferError
        ):  # full while brokers are away; the number is then simply not in the topic
            self._producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS, on_delivery=self._told)

    def _told(self, error: object, _message: object) -> None:
        if error is not None:
            self.refused.append(str(error))


def read_topic(servers: str, topic: str) -> Iterator[tuple[int, int, bytes]]:
    """Partition, offset and value of every committed record, as confluent-kafka reads them."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "soak-audit", "enable.auto.commit": False,
         "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 2}
    )  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        open_partitions = set(partitions)
        while open_partitions:
            message = consumer.poll(60)
            if message is None:
                raise RuntimeError(f"{topic}: no answer for partitions {sorted(open_partitions)} in 60 s")
            if (error := message.error()) is None:
                yield message.partition() or 0, message.offset() or 0, message.value() or b""
            elif error.name() == "_PARTITION_EOF":
                open_partitions.discard(message.partition() or 0)
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
