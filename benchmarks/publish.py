"""Fill topics, with an independent client (librdkafka)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

__all__ = ["RECORD_BYTES", "create_topic", "publish", "publish_transactions", "publish_values"]

#: Size of a small record's value.
RECORD_BYTES = 87

HEADERS = [("trace", b"0123456789abcdef"), ("source", b"orders")]

_CHUNK = 5_000
_CHUNK_BYTES = 4 * 1024 * 1024
_QUEUED_MAX = 200_000
#: Values that are made once and sent over and over, so that publishing takes no longer than reading.
_VALUES = 20_000
_VALUES_BYTES = 32 * 1024 * 1024

_LINGERING = {
    "linger.ms": 50,
    "batch.size": 64 * 1024,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 256 * 1024,
    "message.max.bytes": 2 * 1024 * 1024,
    "log_level": 3,
}


def publish(
    servers: str,
    topic: str,
    count: int,
    *,
    codec: str,
    partitions: int,
    value_bytes: int = RECORD_BYTES,
    headers: bool = False,
) -> None:
    """Make the topic and produce ``count`` records of JSON, spread evenly over the partitions."""
    create_topic(servers, topic, partitions)
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, **_LINGERING})
    chunk_size = min(_CHUNK, _CHUNK_BYTES // value_bytes)
    for number, chunk in enumerate(_chunks(_values(value_bytes), count, chunk_size)):
        messages = (
            [{"value": value, "headers": HEADERS} for value in chunk]
            if headers
            else [{"value": value} for value in chunk]
        )
        while len(producer) > min(_QUEUED_MAX, _VALUES_BYTES // value_bytes):
            producer.poll(0.01)
        sent = producer.produce_batch(topic, messages, partition=number % partitions)
        assert sent == len(messages), f"{len(messages) - sent} records found no room in the queue"
    _flush(producer)


def publish_transactions(
    servers: str, topic: str, transactions: int, *, records_each: int, aborted_every: int = 0, producers: int = 1
) -> int:
    """Make a topic of one partition, and fill it by transactions of several producers.

    Args:
        transactions: how many.
        records_each: records of each transaction.
        aborted_every: every so many transactions one is aborted; 0 for none.
        producers: how many work at the same time.

    Returns:
        Number of records in committed transactions.
    """
    create_topic(servers, topic, 1)
    values = _values(RECORD_BYTES)[:records_each]

    def work(worker: int) -> int:
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "log_level": 3,
                "transactional.id": f"{topic}-{worker}",
                "compression.type": "lz4",
                "linger.ms": 0,
            }
        )
        producer.init_transactions(30)
        committed = 0
        for number in range(worker, transactions, producers):
            producer.begin_transaction()
            producer.produce_batch(topic, [{"value": value} for value in values], partition=0)
            if aborted_every and number % aborted_every == 0:
                # What is not sent when the transaction is aborted would never be in the log.
                producer.flush()
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                committed += len(values)
        return committed

    with ThreadPoolExecutor(producers) as pool:
        return sum(pool.map(work, range(producers)))


def publish_values(servers: str, topic: str, values: Iterable[bytes], *, partitions: int) -> None:
    """Make the topic and produce these values, dealt to the partitions in turn."""
    create_topic(servers, topic, partitions)
    producer = Producer({"bootstrap.servers": servers, "compression.type": "lz4", **_LINGERING})
    for number, value in enumerate(values):
        if len(producer) > _QUEUED_MAX:
            producer.poll(0.01)
        producer.produce(topic, value, partition=number % partitions)
    _flush(producer)


def create_topic(servers: str, topic: str, partitions: int) -> None:
    """Make a topic that takes large batches."""
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = NewTopic(topic, partitions, 1, config={"max.message.bytes": str(4 * 1024 * 1024)})
    for made in admin.create_topics([wanted]).values():
        made.result(30)


def _values(size: int) -> list[bytes]:
    """JSON texts of this size, padded with a text of hexadecimal digits; half of it is random."""
    chance = random.Random(1)
    return [_value(size, number, chance) for number in range(max(100, min(_VALUES, _VALUES_BYTES // size)))]


def _value(size: int, number: int, chance: random.Random) -> bytes:
    start = b'{"id":%010d,"carrier":"UA","origin":"EWR","distance":%05d,"note":"' % (
        number,
        chance.randrange(100, 5000),
    )
    room = size - len(start) - 2
    if room < 32:
        return (start + b"%016x" % chance.getrandbits(64))[: size - 2].ljust(size - 2) + b'"}'
    return start + chance.randbytes(room // 4).hex().encode().ljust(room, b".") + b'"}'


def _chunks(values: Sequence[bytes], count: int, chunk_size: int) -> Iterator[list[bytes]]:
    first = 0
    for left in range(count, 0, -chunk_size):
        size = min(chunk_size, left)
        chunk = [values[(first + index) % len(values)] for index in range(size)]
        first += size
        yield chunk


def _flush(producer: Producer) -> None:
    left = producer.flush(120)
    assert left == 0, f"{left} records were not taken by the broker within 120 s"
