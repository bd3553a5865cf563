"""Captures record bytes from a real broker, and beside them what an independent client reads there.

    python tests/vectors/capture.py

writes ``NAME.records``, the ``records`` field of a Fetch response, and ``NAME.json``: the aborted transactions of
that response, and what confluent-kafka's consumer read from the same topic, the oracle. Records are produced by
confluent-kafka; where a name starts with ``java``, the broker has compressed them again with Java's codecs,
because the topic's ``compression.type`` tells it to.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse

from directkafka.testing import KafkaBroker

FOLDER = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FETCH_VERSION = 11
TIMESTAMP_MS = 1_357_034_400_000
DEADLINE_S = 60.0
HEX_BYTES_MAX = 1024

Produce = Callable[[str, str], None]
Settled = Callable[[dict[str, Any]], bool]


def main() -> None:
    """Capture every vector."""
    config = {"log.cleaner.backoff.ms": 100, "log.cleaner.enable": "true"}
    with KafkaBroker(config=config) as broker:
        for name, topic_config, produce, settle in vectors():
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            admin.create_topics([NewTopic(name, 1, 1, config=topic_config)])[name].result(DEADLINE_S)
            produce(broker.bootstrap_servers, name)
            deadline = time.monotonic() + DEADLINE_S
            while not settle(fetch(broker.bootstrap_servers, name, 0)):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{name} did not become what it shall be within {DEADLINE_S} s")
                time.sleep(0.2)
            write(broker.bootstrap_servers, name)


def vectors() -> Iterator[tuple[str, dict[str, str], Produce, Settled]]:
    """Name, topic configuration, who writes, and when it is done."""
    for codec in CODECS:
        yield f"librdkafka-{codec}", {}, plain(codec), is_stable
    for codec in CODECS[1:]:
        yield f"java-{codec}", {"compression.type": codec}, plain("none"), is_stable
    yield "log-append-time", {"message.timestamp.type": "LogAppendTime"}, plain("lz4"), is_stable
    yield "transactions", {}, transactions, is_stable
    cleaning = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    yield "compacted", cleaning, overwritten_keys, has_gaps


def is_stable(fetched: dict[str, Any]) -> bool:
    """Whether no transaction is open any more."""
    return bool(fetched["last_stable_offset"] == fetched["high_watermark"])


def has_gaps(fetched: dict[str, Any]) -> bool:
    """Whether the cleaner has run over the first batch, which holds all but the last records."""
    (count,) = struct.unpack_from(">i", fetched["records"], 57)
    return 0 < count < 30


def plain(codec: str) -> Produce:
    """Records with and without key, value and headers, in batches of several and of one."""

    def produce(servers: str, topic: str) -> None:
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
        for number in range(60):
            producer.produce(topic, timestamp=TIMESTAMP_MS + number * 997, **sample(number))
        producer.flush()
        producer.produce(topic, key=b"alone", value=bytes(range(256)) * 300, timestamp=TIMESTAMP_MS)
        producer.flush()

    return produce


def sample(number: int) -> dict[str, Any]:
    """One record of every combination, by its number."""
    keys = (b"key-%d" % number, None, b"", "Schlüssel".encode())
    values = (b"value %d " % number * (number % 7), None, b"", b"\x00\xff" * 40, b'{"carrier":"UA","flight":1545}')
    headers: tuple[list[tuple[str, bytes | None]], ...] = (
        [],
        [("trace", b"0123456789abcdef")],
        [("a", None), ("a", b""), ("größe", b"\x00")],
    )
    return {"key": keys[number % 4], "value": values[number % 5], "headers": headers[number % 3]}


def transactions(servers: str, topic: str) -> None:
    """Three producers: one commits, one aborts, one does both, with plain records in between.

    Timestamps are those of today: a marker bears the broker's own, and records of years ago beside it would make the
    broker roll a segment, of which a Fetch returns one at a time.
    """
    producers = {name: transactional(servers, f"{topic}-{name}") for name in ("commits", "aborts", "both")}
    outside = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for round_number in range(3):
        for name, producer in producers.items():
            producer.begin_transaction()
            for number in range(4):
                producer.produce(topic, value=f"{name} {round_number}.{number}".encode())
            producer.flush()
        outside.produce(topic, value=f"outside {round_number}".encode())
        outside.flush()
        for name, producer in producers.items():
            if name == "commits" or (name == "both" and round_number != 1):
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def transactional(servers: str, transactional_id: str) -> Producer:
    """A producer that is ready to begin a transaction."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions()
    return producer


def overwritten_keys(servers: str, topic: str) -> None:
    """Every third key stays, the others are written again: the cleaner leaves gaps inside the batches."""
    producer = Producer({"bootstrap.servers": servers, "compression.type": "lz4", "linger.ms": 50})
    for number in range(60):
        key = b"stays-%d" % number if number % 3 == 0 else b"goes"
        producer.produce(topic, key=key, value=b"value %d" % number * 20, timestamp=TIMESTAMP_MS)
    producer.flush()
    # Each of these is younger by more than segment.ms than the record before: it begins a segment, and the cleaner
    # takes all segments but the last.
    for number in range(1, 4):
        producer.produce(topic, key=b"goes", value=b"last %d" % number, timestamp=TIMESTAMP_MS + number * 60_000)
        producer.flush()


def write(servers: str, name: str) -> None:
    """Write the two files of one vector."""
    fetched = fetch(servers, name, 0)
    document = {
        "kafka": "4.3.0",
        "confluent_kafka": confluent_kafka.__version__,
        "aborted": fetched["aborted"],
        "end": fetched["high_watermark"],
        "read_uncommitted": consume(servers, name, "read_uncommitted"),
    }
    if fetched["aborted"]:
        document["read_committed"] = consume(servers, name, "read_committed")
    (FOLDER / f"{name}.records").write_bytes(fetched["records"])
    (FOLDER / f"{name}.json").write_text(json.dumps(document) + "\n")
    print(f"{name}: {len(fetched['records'])} bytes, {len(document['read_uncommitted'])} records")


def fetch(servers: str, topic: str, offset: int) -> dict[str, Any]:
    """One Fetch under read_committed, whose response lists the aborted transactions."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 24,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 24,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )
    request.API_VERSION = FETCH_VERSION
    request.with_header(correlation_id=1, client_id="capture")
    host, port = servers.split(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
        connection.sendall(request.encode(framed=True, header=True))
        frame = receive(connection, struct.unpack(">i", receive(connection, 4))[0])
    answer = FetchResponse.decode(frame, version=FETCH_VERSION, header=True).responses[0].partitions[0]
    assert answer.error_code == 0, answer
    return {
        "records": bytes(answer.records or b""),
        "high_watermark": answer.high_watermark,
        "last_stable_offset": answer.last_stable_offset,
        "aborted": [
            [transaction.producer_id, transaction.first_offset] for transaction in answer.aborted_transactions or ()
        ],
    }


def receive(connection: socket.socket, count: int) -> bytes:
    """Exactly this many bytes."""
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionError("the broker hung up")
        parts += part
    return bytes(parts)


def consume(servers: str, topic: str, isolation_level: str) -> list[dict[str, Any]]:
    """All records of the topic as confluent-kafka reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "capture",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records = []
    while True:
        message = consumer.poll(DEADLINE_S)
        assert message is not None, "no end of the partition"
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            break
        records.append(as_json(message))
    consumer.close()
    return records


def as_json(message: confluent_kafka.Message) -> dict[str, Any]:
    """One record; bytes as hex."""
    timestamp_type, timestamp_ms = message.timestamp()
    return {
        "offset": message.offset(),
        "timestamp_ms": timestamp_ms,
        "timestamp_type": {confluent_kafka.TIMESTAMP_CREATE_TIME: 0, confluent_kafka.TIMESTAMP_LOG_APPEND_TIME: 1}[
            timestamp_type
        ],
        "key": as_hex(message.key()),
        "value": as_hex(message.value()),
        "headers": [[name, as_hex(value)] for name, value in message.headers() or ()] or None,
    }


def as_hex(data: bytes | None) -> str | None:
    """Hex digits, or None for null; of long ones the digest."""
    if data is None:
        return None
    return data.hex() if len(data) <= HEX_BYTES_MAX else "sha256:" + hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main()
