"""Offsets without a visible record: transactions that were aborted or are open, markers, compaction, loss."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.real.kafka.compacted import TOPIC, compacted_topic
from tests.real.kafka.logs import (
    consume,
    create_topic_again,
    delete_records,
    delete_topic,
    end_offset,
    end_transaction,
    offsets_of,
    options,
    produce,
    read,
    task_for,
    transactional,
    within,
)
from tests.waiting import WAIT_S, until

from directkafka.errors import DataLossError, FetchTimeoutError
from directkafka.kafka.consumer import fetch, partition_connection, range_reader
from directkafka.kafka.consumer.fetch import FetchResponse
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network.client import Channel
from directkafka.offsets import OffsetRange
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]

# Transactions and gaps.


@pytest.fixture(scope="module")
def transactions(kafka_broker: KafkaBroker) -> Iterator[str]:
    """Committed, aborted and plain records between each other, and a transaction that is still open."""
    servers, topic = kafka_broker.bootstrap_servers, f"transactions-{uuid.uuid4().hex}"
    create_topic_again(servers, topic)
    producers = {name: transactional(servers, f"{topic}-{name}") for name in ("commits", "aborts", "open")}
    for round_number in range(3):
        for name in ("commits", "aborts"):
            producers[name].begin_transaction()
            for number in range(5):
                producers[name].produce(topic, value=f"{name} {round_number}.{number}".encode())
            producers[name].flush()
        produce(servers, topic, [b"plain %d" % round_number])
        end_transaction(servers, topic, producers["commits"].commit_transaction)
        end_transaction(servers, topic, producers["aborts"].abort_transaction)
    producers["open"].begin_transaction()
    producers["open"].produce(topic, value=b"open")
    producers["open"].flush()
    produce(servers, topic, [b"after"])
    yield topic
    producers["open"].abort_transaction()


def test_read_committed_leaves_out_what_was_aborted(servers: str, transactions: str) -> None:
    expected = consume(servers, transactions, isolation_level="read_committed")
    assert {row[2].split()[0] for row in expected if row[2]} == {b"commits", b"plain"}
    client = options(servers, isolation_level="read_committed")
    stable_end = end_offset(servers, transactions) - 2
    assert read(task_for(client, transactions, 0, stable_end)) == expected


def test_read_uncommitted_has_everything_but_the_markers(servers: str, transactions: str) -> None:
    expected = consume(servers, transactions)
    assert {row[2].split()[0] for row in expected if row[2]} == {b"commits", b"aborts", b"plain", b"open", b"after"}
    assert read(task_for(options(servers), transactions, 0, end_offset(servers, transactions))) == expected


@pytest.mark.parametrize("start", range(0, 36, 5))
def test_a_transaction_that_began_before_the_range_is_still_left_out(
    servers: str, transactions: str, start: int
) -> None:
    expected = consume(servers, transactions, isolation_level="read_committed")
    client = options(servers, isolation_level="read_committed", max_partition_fetch_bytes=200)
    assert read(task_for(client, transactions, start, 39)) == within(expected, start, 39)


def test_an_open_transaction_ends_what_can_be_read_committed(servers: str, transactions: str) -> None:
    end = end_offset(servers, transactions)
    client = options(servers, isolation_level="read_committed", fetch_max_wait_ms=50)
    with pytest.raises(FetchTimeoutError, match=f"last stable offset {end - 2}") as caught:
        read(task_for(client, transactions, 0, end, poll_timeout_ms=1_000))
    assert caught.value.offset == end - 2


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The position of every fetch request."""
    positions: list[int] = []

    def counted(channel: Channel, task: RangeTask, position: int, **named: Any) -> FetchResponse:
        positions.append(position)
        return fetch.send_fetch(channel, task, position, **named)

    monkeypatch.setattr(range_reader, "send_fetch", counted)
    return positions


def test_a_range_that_ends_with_markers_is_read_to_its_end(
    servers: str, create_topic: CreateTopic, requests: list[int]
) -> None:
    topic = create_topic()
    producer = transactional(servers, topic)
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(topic, value=b"aborted")
        producer.flush()
        end_transaction(servers, topic, producer.abort_transaction)
    client = options(servers, isolation_level="read_committed")
    end = end_offset(servers, topic)
    assert end == 6
    assert read(task_for(client, topic, 0, end)) == []
    assert read(task_for(client, topic, 5, end)) == []
    # One marker, one aborted record; also for those who read what is not committed.
    assert read(task_for(client, topic, 1, 2)) == []
    assert read(task_for(client, topic, 2, 3)) == []
    assert read(task_for(options(servers), topic, 1, 2)) == []
    assert requests == [0, 5, 1, 2, 1]


@pytest.mark.slow
def test_the_gaps_of_a_compacted_topic_are_no_loss(requests: list[int]) -> None:
    with compacted_topic() as (servers, end):
        expected = consume(servers, TOPIC)
        task = task_for(options(servers), TOPIC, 0, end)
        assert read(task) == expected
        gap = next(offset for offset in range(end) if offset not in offsets_of(expected))
        requests.clear()
        assert read(replace(task, range=OffsetRange(TOPIC, 0, gap, gap + 1))) == []
        assert requests == [gap]


@pytest.mark.slow
def test_a_range_that_compaction_has_emptied_up_to_the_last_stable_offset_ends_with_one_request(
    requests: list[int],
) -> None:
    """A key and its deletion, both gone, and behind them an open transaction: the broker answers with no records.

    A deletion goes in a second pass over its segment; a replica that lost its checkpoint makes one.
    """
    settings = {"log.cleaner.backoff.ms": 100, "log.initial.task.delay.ms": 100}
    with KafkaBroker(config=settings) as broker:
        servers = broker.bootstrap_servers
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
        create_topic_again(servers, "emptied", config={**config, "delete.retention.ms": "0"})
        producer = Producer({"bootstrap.servers": servers})
        for value in (b"value", None):
            producer.produce("emptied", key=b"key", value=value, timestamp=1_000)
        assert producer.flush(WAIT_S) == 0
        still_open = transactional(servers, "open")
        still_open.begin_transaction()
        still_open.produce("emptied", key=b"another", value=b"open")
        still_open.flush()
        until(lambda: offsets_of(consume(servers, "emptied")) == [1, 2], "the cleaner did not run")
        broker.kill()
        (broker.folder / "node-1" / "data" / "cleaner-offset-checkpoint").unlink()
        broker.restart()
        until(lambda: offsets_of(consume(servers, "emptied")) == [2], "the cleaner did not run again")
        client = options(servers, isolation_level="read_committed")
        assert read(task_for(client, "emptied", 0, 2)) == []
        assert read(task_for(client, "emptied", 1, 2)) == []
        assert requests == [0, 1]


# What is lost.


def test_records_deleted_before_the_range_is_read_are_a_loss_with_its_numbers(servers: str, hundred: str) -> None:
    task = task_for(options(servers), hundred, 10, 100)
    delete_records(servers, hundred, 40)
    with pytest.raises(DataLossError) as caught:
        read(task)
    loss = caught.value
    assert (loss.condition, loss.topic, loss.partition) == ("COULD_NOT_READ_OFFSET_RANGE", hundred, 0)
    assert (loss.lost_from, loss.lost_until) == (10, 40)
    assert "starts at offset 40" in str(loss)


def test_without_failing_on_data_loss_the_rest_of_the_range_is_read(
    servers: str, hundred: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = task_for(options(servers), hundred, 10, 100, fail_on_data_loss=False)
    delete_records(servers, hundred, 45)
    assert offsets_of(read(task)) == list(range(45, 100))
    assert "offsets [10, 45)" in caplog.text


def test_a_range_that_is_lost_as_a_whole_reads_nothing_when_that_is_allowed(servers: str, hundred: str) -> None:
    task = task_for(options(servers), hundred, 10, 30, fail_on_data_loss=False)
    delete_records(servers, hundred, 45)
    assert read(task) == []


def test_a_range_behind_the_end_of_the_log_is_a_loss(servers: str, hundred: str) -> None:
    with pytest.raises(DataLossError, match="the log ends at offset 100") as caught:
        read(task_for(options(servers), hundred, 150, 200))
    assert (caught.value.lost_from, caught.value.lost_until) == (150, 200)


def test_a_range_that_goes_past_the_end_of_the_log_ends_in_a_timeout(servers: str, hundred: str) -> None:
    begun = time.monotonic()
    with pytest.raises(FetchTimeoutError, match="no records at offset 100") as caught:
        read(task_for(options(servers), hundred, 50, 120, poll_timeout_ms=1_000))
    assert time.monotonic() - begun < 5.0
    error = caught.value
    assert (error.topic, error.offset, error.until_offset, error.timeout_ms) == (hundred, 100, 120, 1_000)


def test_a_topic_that_was_made_again_is_never_taken_for_the_old_one(servers: str, hundred: str) -> None:
    task = task_for(options(servers), hundred, 0, 50)
    delete_topic(servers, hundred)
    create_topic_again(servers, hundred)
    produce(servers, hundred, [b"new"] * 60)
    with pytest.raises(DataLossError, match="deleted and made again") as caught:
        read(task)
    assert caught.value.condition == "TOPIC_RECREATED"
    assert read(task_for(options(servers), hundred, 0, 1, topic_id=task.topic_id, fail_on_data_loss=False)) == []


def test_a_topic_that_is_gone_is_a_loss_of_the_range(
    servers: str, hundred: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_connection, "_MISSING_S", 1.0)
    task = task_for(options(servers), hundred, 0, 50)
    delete_topic(servers, hundred)
    with pytest.raises(DataLossError, match="the topic was deleted") as caught:
        read(task)
    assert caught.value.condition == "COULD_NOT_READ_OFFSET_RANGE"
    assert (caught.value.lost_from, caught.value.lost_until) == (0, 50)
    assert read(replace(task, fail_on_data_loss=False)) == []


def test_a_topic_that_is_not_seen_in_the_time_there_is_ends_in_a_timeout_that_says_so(
    servers: str, hundred: str
) -> None:
    task = task_for(options(servers), hundred, 0, 50, poll_timeout_ms=700)
    delete_topic(servers, hundred)
    with pytest.raises(FetchTimeoutError, match=f"the topic {hundred} is not there"):
        read(task)
