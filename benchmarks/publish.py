"""Fill a topic with JSON records of about 90 bytes, with an independent client (librdkafka)."""

from __future__ import annotations

import random

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

#: Size of a record's value.
RECORD_BYTES = 87


def publish(servers: str, topic: str, count: int, *, codec: str, partitions: int) -> None:
    """Make the topic and produce `count` records, spread evenly."""
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(30)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": codec,
            "linger.ms": 50,
            "batch.size": 64 * 1024,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    chance = random.Random(1)
    for number in range(count):
        value = b'{"id":%010d,"carrier":"UA","origin":"EWR","distance":%05d,"note":"%016x"}' % (
            number,
            chance.randrange(100, 5000),
            chance.getrandbits(64),
        )
        value = value[:-1].ljust(RECORD_BYTES - 1) + b"}"
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 50_000 == 0:
            producer.poll(0)
    producer.flush()
