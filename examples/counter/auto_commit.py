"""Counter-example: a consumer with ``enable.auto.commit``, and Spark behind it. Loses.

Offsets are committed because records were fetched, by a thread that knows nothing of what becomes of them. See
README.md in this folder.
"""

from __future__ import annotations

import os
import time

from confluent_kafka import Consumer, Message, TopicPartition
from setting import crash_if_asked, spark_session


def fetched(consumer: Consumer) -> list[Message]:
    """What there is for the group once the consumer has its partitions: nothing, where the group has had it all."""
    messages: list[Message] = []
    while (batch := consumer.consume(num_messages=100, timeout=2)) or not consumer.assignment():
        messages += batch
    return messages


def wait_for_auto_commit(consumer: Consumer, messages: list[Message]) -> None:
    """A transform that takes its time; meanwhile the consumer's own thread commits."""
    places = {(message.topic(), message.partition()) for message in messages}
    while any(
        committed.offset < 0
        for committed in consumer.committed([TopicPartition(*partition) for partition in places], timeout=10)
    ):
        time.sleep(0.1)


if __name__ == "__main__":
    spark = spark_session()
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA"],
            "group.id": os.environ["OUTPUT"],
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": 6_000,  # the killed run's consumer is missed sooner
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([os.environ["TOPIC"]])
    if messages := fetched(consumer):
        wait_for_auto_commit(consumer, messages)
        crash_if_asked(1)  # nothing is written, and the group is past it
        rows = spark.createDataFrame([(message.value(),) for message in messages], "value binary")
        writer = rows.write.format("directkafka").option("kafka.bootstrap.servers", os.environ["KAFKA"])
        writer.option("topic", os.environ["OUTPUT"]).mode("append").save()
    consumer.close()
