"""Every version of Fetch that we speak, on a real broker's bytes: the header as kafka-python reads it, and the rows."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from tests.real.kafka.logs import (
    Row,
    consume,
    create_topic_again,
    delete_records,
    end_transaction,
    options,
    produce,
    read,
    task_for,
    transactional,
)
from tests.unit.kafka.consumer.test_fetch_response import VERSIONS, assert_read_as_they_do, parsed

from directkafka.kafka.consumer.fetch import send_fetch
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import Channel, open_channel
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def eventful(kafka_broker: KafkaBroker) -> str:
    """Plain records, an aborted transaction, a committed one; the first ten records are deleted."""
    servers, topic = kafka_broker.bootstrap_servers, f"eventful-{uuid.uuid4().hex}"
    create_topic_again(servers, topic)
    produce(servers, topic, [b"plain %d" % number for number in range(30)], batch_every=10)
    producer = transactional(servers, topic)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, value=b"in a transaction")
        producer.flush()
        end_transaction(servers, topic, end)
    delete_records(servers, topic, 10)
    return topic


@pytest.fixture(scope="module")
def expected(kafka_broker: KafkaBroker, eventful: str) -> list[Row]:
    """What confluent-kafka reads."""
    rows = consume(kafka_broker.bootstrap_servers, eventful, isolation_level="read_committed")
    assert len(rows) == 21
    return rows


def planned(servers: str, topic: str, version: int) -> RangeTask:
    task = task_for(options(servers, isolation_level="read_committed", fetch_max_wait_ms=10), topic, 10, 34)
    return task if version >= 13 else replace(task, topic_id="")


def frame_of(task: RangeTask, version: int, position: int) -> bytes:
    """A response without its length, as the broker sent it."""
    channel = open_channel(task.client, task.host, task.port)
    own = channel.socket
    try:
        assert channel.fetch_version == VERSIONS[-1]
        channel.fetch_version = version
        received: dict[str, Any] = {}
        buffer = bytearray()
        channel.socket = _Recording(own, received)  # type: ignore[assignment]
        send_fetch(channel, task, position, bytes_max=1_000_000, buffer=buffer, timeout_ms=5_000, rack="")
        return bytes(buffer[: int.from_bytes(received["head"], "big")])
    finally:
        channel.socket = own
        channel.close()


class _Recording:
    """A socket that remembers the first four bytes it received."""

    def __init__(self, socket: Any, received: dict[str, Any]) -> None:
        self._socket = socket
        self._received = received

    def recv_into(self, snapshot: memoryview) -> int:
        count: int = self._socket.recv_into(snapshot)
        self._received.setdefault("head", bytes(snapshot[:count]))
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_s_answer_is_read_as_kafka_python_reads_it(servers: str, eventful: str, version: int) -> None:
    task = planned(servers, eventful, version)
    frame = frame_of(task, version, 10)
    assert_read_as_they_do(frame, version)
    response, records = parsed(frame, version)
    assert (response.error_code, response.partition, response.last_stable_offset) == (0, 0, 34)
    assert [first for _, first in response.aborted] == [30]
    assert response.log_start_offset == (10 if version >= 5 else -1)
    assert b"plain 29" in records


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("position", "code"), [(34, 0), (5, 1), (100, 1)])
def test_an_answer_without_records_is_read_as_kafka_python_reads_it(
    servers: str, eventful: str, version: int, position: int, code: int
) -> None:
    frame = frame_of(planned(servers, eventful, version), version, position)
    assert_read_as_they_do(frame, version)
    response, records = parsed(frame, version)
    assert (response.error_code, records) == (code, b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_range_is_read_the_same_over_every_version(
    servers: str, eventful: str, expected: list[Row], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:

    def older(*arguments: Any, **named: Any) -> Channel:
        channel = open_channel(*arguments, **named)
        channel.fetch_version = version
        return channel

    monkeypatch.setattr(connection_pool, "open_channel", older)
    assert read(planned(servers, eventful, version)) == expected
