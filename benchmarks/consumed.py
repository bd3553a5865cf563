"""Reading with confluent-kafka as fast as a Python user can: many messages a call."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer, Message, TopicPartition

__all__ = ["consumed"]

_CONSUMED_AT_ONCE = 10_000


def consumed(servers: str, topic: str, partition: int, start: int, end: int) -> Iterator[list[Message]]:
    """The messages of an offset range, in lists."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 256 * 1024,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, start)])
    left = end - start
    while left:
        messages = consumer.consume(min(left, _CONSUMED_AT_ONCE), timeout=30)
        assert messages, "no message within 30 s"
        left -= len(messages)
        yield messages
    consumer.close()
