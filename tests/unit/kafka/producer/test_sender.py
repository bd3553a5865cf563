"""What becomes of an answer of a broker's that cannot be believed, and of a wait that nobody ends."""

from __future__ import annotations

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.kafka.network import connection_pool
from directkafka.kafka.producer import sender
from directkafka.kafka.producer.accumulator import RecordAccumulator
from directkafka.kafka.producer.partition_queues import PartitionQueues, ProducerBatch
from directkafka.kafka.producer.sender import Sender
from directkafka.kafka.records.encoder import EncodedBatch, ProducerIdentity
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.producer import ProducerOptions

ADDRESS = ("b", 9092)
PARTITIONS = [TopicPartition("flights", 0), TopicPartition("flights", 1)]


class Channel:
    """Answers one request with what it is given."""

    produce_version, expires_at = 11, float("inf")

    def __init__(self, named: list[TopicPartition]) -> None:
        self._named = named
        self.socket: Any = SimpleNamespace(settimeout=lambda _: None, sendall=lambda _: None)

    def encode_produce(self, **_: object) -> tuple[int, bytes]:
        return 7, b""

    def decode_produce(self, _: bytes) -> tuple[int, Any]:
        partitions = [
            SimpleNamespace(index=partition.partition, error_code=0, error_message=None, base_offset=40)
            for partition in self._named
        ]
        return 7, SimpleNamespace(responses=[SimpleNamespace(name="flights", partition_responses=partitions)])

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


class Box(RecordAccumulator):
    """A desk that notes what it is told, and closes when a request was answered."""

    def __init__(self) -> None:
        queues = PartitionQueues(delivery_timeout_s=100.0, backoff_s=0.1, leaders=dict.fromkeys(PARTITIONS, ADDRESS))
        super().__init__(queues, 100_000)
        data = memoryview(bytes(10))
        self.put(
            EncodedBatch(target=target, data=data, records=1, raw_bytes=10, base_sequence=0) for target in PARTITIONS
        )
        self.acknowledged: list[TopicPartition] = []
        self.base_offsets: list[int] = []
        self.given_back: dict[TopicPartition, str] = {}
        self.failure: BaseException | None = None

    def acknowledge(self, sending: ProducerBatch) -> None:
        self.acknowledged.append(sending.batch.target)
        self.base_offsets.append(sending.base_offset)

    def requeue(self, sendings: Any, reason: str, *, leader_is_stale: bool = True) -> None:
        self.given_back |= {sending.batch.target: reason for sending in sendings}
        self.close()

    def fail(self, error: BaseException) -> None:
        self.failure = error
        super().fail(error)


def answered(monkeypatch: pytest.MonkeyPatch, named: list[TopicPartition]) -> Box:
    return sent(monkeypatch, lambda *_: Channel(named))


def sent(monkeypatch: pytest.MonkeyPatch, borrow: Callable[..., Channel]) -> Box:
    monkeypatch.setattr(connection_pool, "borrow", borrow)
    monkeypatch.setattr(connection_pool, "release", lambda *_: None)
    monkeypatch.setattr(sender, "receive", lambda *_: 0)
    accumulator, client = Box(), ClientOptions(bootstrap_servers=("b:9092",))
    identity = ProducerIdentity(producer_id=1, epoch=0)
    line = Sender(ADDRESS, accumulator, client, ProducerOptions(), identity)
    line.join()
    return accumulator


@pytest.mark.parametrize(
    "named",
    [[PARTITIONS[0], TopicPartition("flights", 9)], [PARTITIONS[0], PARTITIONS[0]], [TopicPartition("flights", -1)]],
)
def test_an_answer_about_others_than_were_asked_is_not_believed_and_all_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, named: list[TopicPartition]
) -> None:
    accumulator = answered(monkeypatch, named)
    assert (accumulator.acknowledged, accumulator.failure) == ([], None)
    assert set(accumulator.given_back) == set(PARTITIONS)
    assert "not asked about or named twice" in accumulator.given_back[PARTITIONS[0]]


def test_what_could_not_even_be_sent_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def borrow(*_: object) -> Channel:
        raise OSError(errno.EMFILE, "too many open files")

    accumulator = sent(monkeypatch, borrow)
    assert set(accumulator.given_back) == set(PARTITIONS)
    assert "too many open files" in accumulator.given_back[PARTITIONS[0]]


def test_what_an_answer_leaves_out_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    accumulator = answered(monkeypatch, PARTITIONS[:1])
    assert accumulator.acknowledged == PARTITIONS[:1]
    assert accumulator.base_offsets == [40]
    assert list(accumulator.given_back) == PARTITIONS[1:]


def test_a_producer_that_is_closed_while_somebody_waits_for_it_does_not_say_that_all_is_written() -> None:
    """Not with an assert: ``python -O`` leaves those out."""
    accumulator = Box()
    accumulator.close()
    with pytest.raises(RuntimeError, match="closed while 20 bytes were not acknowledged"):
        accumulator.wait_below(1)
