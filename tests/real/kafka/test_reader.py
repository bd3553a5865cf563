"""Ranges read from a real broker are exactly what confluent-kafka reads there."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.real.kafka.logs import (
    Row,
    consume,
    create_topic_again,
    delete_records,
    delete_topic,
    end_offset,
    offsets_of,
    options,
    produce,
    read,
    task_for,
    transactional,
    until,
)
from tests.real.kafka.proxy import KafkaProxy, advertise
from tests.vectors.capture import overwritten_keys

from directkafka.errors import BrokerResponseError, DataLossError, FetchTimeoutError, MalformedBatchError
from directkafka.kafka import channels, fetch
from directkafka.kafka.fetch_response import parse_fetch_response
from directkafka.kafka.range_task import RangeTask
from directkafka.kafka.reader import read_range
from directkafka.offsets import OffsetRange
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]

WAIT_S = 30.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(autouse=True)
def no_idle_channels() -> Iterator[None]:
    """Connections of one test do not reach the next."""
    yield
    for _, channel in channels._idle:
        channel.close()
    channels._idle.clear()


@pytest.fixture
def servers(kafka_broker: KafkaBroker) -> str:
    return kafka_broker.bootstrap_servers


@pytest.fixture
def hundred(servers: str, create_topic: CreateTopic) -> str:
    """A topic of 100 records in ten batches of ten."""
    name = create_topic()
    produce(servers, name, [b"value %d" % number for number in range(100)], batch_every=10)
    return name


def within(rows: list[Row], start: int, end: int) -> list[Row]:
    return [row for row in rows if start <= row[0] < end]


def fetch_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("fetch ")]


def host_and_port(servers: str) -> tuple[str, int]:
    host, _, port = servers.partition(":")
    return host, int(port)


# Exact ranges.


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_as_confluent_kafka_reads_it(servers: str, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic()
    values = [None if number % 7 == 0 else b"v%d " % number * (number % 50) for number in range(1_000)]
    produce(servers, topic, values, batch_every=300, **{"compression.type": codec})
    expected = consume(servers, topic)
    assert len(expected) == 1_000
    assert read(task_for(options(servers), topic, 0, 1_000)) == expected


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 100), (0, 1), (99, 100), (15, 85), (10, 20), (19, 21), (50, 50), (0, 0), (100, 100)],
)
def test_a_range_is_read_exactly_wherever_it_cuts_the_batches(servers: str, hundred: str, start: int, end: int) -> None:
    assert read(task_for(options(servers), hundred, start, end)) == within(consume(servers, hundred), start, end)


def test_ranges_that_tile_a_log_read_each_record_once(servers: str, hundred: str) -> None:
    client = options(servers)
    bounds = [0, 7, 7, 20, 33, 60, 61, 100]
    parts = [read(task_for(client, hundred, *pair)) for pair in itertools.pairwise(bounds)]
    assert [row for part in parts for row in part] == consume(servers, hundred)


@pytest.mark.parametrize("size", [1, 700, 50_000])
def test_small_fetch_sizes_change_nothing(servers: str, create_topic: CreateTopic, size: int) -> None:
    topic = create_topic()
    produce(servers, topic, [os.urandom(400) for _ in range(500)], batch_every=50)
    client = options(servers, max_partition_fetch_bytes=size)
    assert read(task_for(client, topic, 0, 500)) == consume(servers, topic)


def test_a_topic_is_read_by_name_where_its_id_is_not_known(servers: str, hundred: str) -> None:
    assert offsets_of(read(task_for(options(servers), hundred, 0, 100, topic_id=""))) == list(range(100))


def test_a_leader_that_is_not_known_is_looked_up(servers: str, hundred: str) -> None:
    assert offsets_of(read(task_for(options(servers), hundred, 0, 100, host="", port=0))) == list(range(100))


def test_a_leader_that_is_gone_is_looked_up(servers: str, hundred: str) -> None:
    assert offsets_of(read(task_for(options(servers), hundred, 0, 100, host="127.0.0.1", port=1))) == list(range(100))


def test_a_range_waits_for_records_that_come_while_it_is_read(servers: str, hundred: str) -> None:
    """The empty answers in between are much smaller than the records that follow: the buffer must be free to grow."""
    reader = read_range(task_for(options(servers, fetch_max_wait_ms=50), hundred, 90, 102))
    first = next(reader)
    assert first.column("offset").to_pylist() == list(range(90, 100))
    rest: list[Any] = []
    thread = threading.Thread(target=lambda: rest.extend(reader))
    thread.start()
    produce(servers, hundred, [os.urandom(300_000), os.urandom(300_000)])
    thread.join(WAIT_S)
    assert [offset for batch in rest for offset in batch.column("offset").to_pylist()] == [100, 101]


# Connections and memory.


def test_many_small_ranges_share_one_connection(servers: str, hundred: str) -> None:
    client = options(servers)
    tasks = [task_for(client, hundred, start, start + 2) for start in range(0, 100, 2)]
    used = set()
    for task in tasks:
        assert offsets_of(read(task)) == [task.range.from_offset, task.range.from_offset + 1]
        ((_, idle),) = channels._idle
        used.add(idle.socket.getsockname())
    assert len(used) == 1


def test_a_connection_that_the_broker_closed_is_not_used_again(servers: str, hundred: str) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        task = task_for(options(servers), hundred, 0, 10, port=proxy.port)
        assert len(read(task)) == 10
        ((_, idle),) = channels._idle
        proxy.cut()
        until(lambda: not idle.is_quiet(), "the end of the connection did not arrive")
        assert len(read(task)) == 10
        assert proxy.connections == 2


def test_a_long_range_takes_no_more_than_its_buffers(
    servers: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 MB through buffers of at most 300 kB: the reader is slow, so the thread would run ahead if it could."""
    topic = create_topic()
    produce(servers, topic, [os.urandom(10_000) for _ in range(2_000)], batch_every=20)
    lent: set[int] = set()
    sizes: list[int] = []
    accept = fetch.RangeFetch._accept

    def accepted(self: fetch.RangeFetch, response: Any, buffer: bytearray) -> Any:
        lent.add(id(buffer))
        sizes.append(len(buffer))
        return accept(self, response, buffer)

    monkeypatch.setattr(fetch.RangeFetch, "_accept", accepted)
    monkeypatch.setattr(channels, "_buffers", [])
    received = 0
    for batch in read_range(task_for(options(servers, max_partition_fetch_bytes=250_000), topic, 0, 2_000)):
        received += batch.num_rows
    assert received == 2_000
    assert len(lent) <= fetch.BUFFERS
    assert max(sizes[1:]) <= 1_300_000
    assert len(sizes) > 40


def test_a_reader_that_closes_early_leaves_no_thread_and_no_half_read_connection(
    servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    produce(servers, topic, [os.urandom(10_000) for _ in range(1_000)], batch_every=20)
    client = options(servers, max_partition_fetch_bytes=50_000)
    for _ in range(5):
        reader = read_range(task_for(client, topic, 0, 1_000))
        next(reader)
        reader.close()  # type: ignore[attr-defined]
        assert fetch_threads() == []
        assert all(channel.is_quiet() for _, channel in channels._idle)
    assert offsets_of(read(task_for(client, topic, 0, 1_000))) == list(range(1_000))


def test_a_reader_that_is_thrown_away_leaves_no_thread(servers: str, hundred: str) -> None:
    reader = read_range(task_for(options(servers, fetch_max_wait_ms=60_000), hundred, 0, 200))
    next(reader)
    del reader
    gc.collect()
    assert fetch_threads() == []


def test_a_forked_process_leaves_its_parents_connections_alone(servers: str, hundred: str) -> None:
    task = task_for(options(servers), hundred, 0, 100)
    assert len(read(task)) == 100
    ((_, idle),) = channels._idle
    child = os.fork()
    if child == 0:
        # In the child: nothing is idle, and a range is read over a connection of its own.
        ok = not channels._idle and len(read(task)) == 100
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert idle.is_quiet()
    assert len(read(task)) == 100
    assert channels._idle[0][1] is idle


# Transactions and gaps.


@pytest.fixture
def transactions(servers: str, create_topic: CreateTopic) -> Iterator[str]:
    """Committed, aborted and plain records between each other, and a transaction that is still open."""
    topic = create_topic()
    producers = {name: transactional(servers, f"{topic}-{name}") for name in ("commits", "aborts", "open")}
    for round_number in range(3):
        for name in ("commits", "aborts"):
            producers[name].begin_transaction()
            for number in range(5):
                producers[name].produce(topic, value=f"{name} {round_number}.{number}".encode())
            producers[name].flush()
        produce(servers, topic, [b"plain %d" % round_number])
        producers["commits"].commit_transaction()
        producers["aborts"].abort_transaction()
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


def test_a_range_that_ends_with_markers_is_read_to_its_end(servers: str, create_topic: CreateTopic) -> None:
    topic = create_topic()
    producer = transactional(servers, topic)
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(topic, value=b"aborted")
        producer.flush()
        producer.abort_transaction()
    client = options(servers, isolation_level="read_committed")
    end = end_offset(servers, topic)
    assert end == 6
    assert read(task_for(client, topic, 0, end)) == []
    assert read(task_for(client, topic, 5, end)) == []


@pytest.mark.slow
def test_the_gaps_of_a_compacted_topic_are_no_loss() -> None:
    with KafkaBroker(config={"log.cleaner.backoff.ms": 100, "log.cleaner.enable": "true"}) as broker:
        servers = broker.bootstrap_servers
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
        create_topic_again(servers, "compacted", config=config)
        overwritten_keys(servers, "compacted")
        end = end_offset(servers, "compacted")
        until(lambda: len(consume(servers, "compacted")) < end / 2, "the cleaner did not run")
        expected = consume(servers, "compacted")
        task = task_for(options(servers), "compacted", 0, end)
        assert read(task) == expected
        gap = next(one for one in range(end) if one not in offsets_of(expected))
        assert read(replace(task, range=OffsetRange("compacted", 0, gap, gap + 1))) == []


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


def test_a_topic_that_is_gone_ends_in_a_timeout_that_says_so(servers: str, hundred: str) -> None:
    task = task_for(options(servers), hundred, 0, 50, poll_timeout_ms=1_000)
    delete_topic(servers, hundred)
    with pytest.raises(FetchTimeoutError, match=f"the topic {hundred} is not there"):
        read(task)


# Brokers that misbehave.


def through(proxy: KafkaProxy, client_servers: str, topic: str, **fields: Any) -> RangeTask:
    return task_for(options(client_servers, **fields.pop("params", {})), topic, 0, 100, port=proxy.port, **fields)


def test_a_broker_that_never_answers_ends_in_a_timeout_in_bounded_time(servers: str, hundred: str) -> None:
    """It accepts, and shakes hands, and then says nothing to the fetch."""
    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        known = task_for(options(servers), hundred, 0, 100, poll_timeout_ms=1_000)
        silent = replace(known, port=proxy.port, client=options(address))
        assert len(read(silent)) == 100
        proxy.change = lambda _: None
        begun = time.monotonic()
        with pytest.raises(FetchTimeoutError, match=address):
            read(silent)
        assert time.monotonic() - begun < 6.0


def test_a_flipped_byte_is_named_with_topic_partition_and_offset(servers: str, hundred: str) -> None:

    def flip(response: bytes) -> bytes:
        at = response.find(b"value 55")
        return response if at < 0 else response[:at] + b"V" + response[at + 1 :]

    with (
        KafkaProxy(*host_and_port(servers), change=flip) as proxy,
        pytest.raises(MalformedBatchError, match="CRC32C") as caught,
    ):
        read(through(proxy, servers, hundred))
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (hundred, 0, 50)


def test_a_flipped_byte_passes_when_checksums_are_not_wanted(servers: str, hundred: str) -> None:
    with KafkaProxy(*host_and_port(servers), change=lambda one: one.replace(b"value 55", b"Value 55")) as proxy:
        rows = read(through(proxy, servers, hundred, params={"check_crcs": False}))
    assert rows[55][2] == b"Value 55"


def test_a_batch_header_that_is_none_is_an_error_that_says_so(servers: str, hundred: str) -> None:

    def old_format(response: bytes) -> bytes:
        if b"value 0" not in response:
            return response
        magic_at = parse_fetch_response(memoryview(response), 17).records_start + 16
        return response[:magic_at] + b"\x01" + response[magic_at + 1 :]

    with (
        KafkaProxy(*host_and_port(servers), change=old_format) as proxy,
        pytest.raises(MalformedBatchError, match="magic byte is 1"),
    ):
        read(through(proxy, servers, hundred))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda response: response[:20], id="cut off"),
        pytest.param(lambda response: b"\xff" * len(response), id="all ones"),
        pytest.param(lambda response: bytes(4) + response[4:], id="another correlation id"),
    ],
)
def test_an_answer_that_is_none_is_asked_for_again_elsewhere(
    servers: str, hundred: str, wrong: Callable[[bytes], bytes]
) -> None:
    """The leader is looked up again, which leads past the proxy."""

    def change(response: bytes) -> bytes:
        return wrong(response) if b"value 0" in response else response

    with KafkaProxy(*host_and_port(servers), change=change) as proxy:
        assert offsets_of(read(through(proxy, servers, hundred))) == list(range(100))


def test_a_connection_that_breaks_again_and_again_is_made_again(servers: str, create_topic: CreateTopic) -> None:
    topic = create_topic()
    produce(servers, topic, [os.urandom(10_000) for _ in range(300)], batch_every=20)
    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        # Every connection goes through the proxy, which cuts them all at every third response with records.
        as_proxy, with_records = advertise(servers, address), itertools.count(1)

        def change(response: bytes) -> bytes:
            if len(response) > 10_000 and next(with_records) % 3 == 0:
                proxy.cut()
            return as_proxy(response) or b""

        proxy.change = change
        client = options(address, max_partition_fetch_bytes=100_000, retry_backoff_ms=10)
        known = task_for(options(servers), topic, 0, 300)
        assert offsets_of(read(replace(known, port=proxy.port, client=client))) == list(range(300))
        assert next(with_records) > 6
        assert proxy.connections > 4


def test_an_error_that_no_retry_helps_is_raised_as_the_broker_names_it(servers: str, hundred: str) -> None:

    def refuse(response: bytes) -> bytes:
        at = response.find(b"value 0")
        # TOPIC_AUTHORIZATION_FAILED as the error of the whole response, after correlation id, tags and throttle.
        return response if at < 0 else response[:9] + (29).to_bytes(2, "big") + response[11:]

    with (
        KafkaProxy(*host_and_port(servers), change=refuse) as proxy,
        pytest.raises(BrokerResponseError, match="TOPIC_AUTHORIZATION_FAILED") as caught,
    ):
        read(through(proxy, servers, hundred))
    assert caught.value.code == 29


# Brokers that die.


def test_a_broker_that_restarts_in_mid_range_costs_nothing_but_time() -> None:
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        create_topic_again(servers, "flights")
        produce(servers, "flights", [os.urandom(10_000) for _ in range(500)], batch_every=10, acks="all")
        expected = consume(servers, "flights")
        reader = read_range(task_for(options(servers, max_partition_fetch_bytes=20_000), "flights", 0, 500))
        rows = [next(reader)]
        broker.kill()
        broker.restart()
        rows += reader
        read_offsets = [offset for batch in rows for offset in batch.column("offset").to_pylist()]
        assert read_offsets == offsets_of(expected)


@pytest.mark.slow
def test_a_leader_that_dies_in_mid_range_is_replaced_and_the_range_completes() -> None:
    with KafkaBroker(3) as broker:
        servers = broker.bootstrap_servers
        create_topic_again(servers, "flights", replicas=3)
        produce(servers, "flights", [os.urandom(10_000) for _ in range(500)], batch_every=10, acks="all")
        expected = consume(servers, "flights")
        task = task_for(options(servers, max_partition_fetch_bytes=20_000), "flights", 0, 500)
        leader = 1 + [one.rpartition(":")[2] for one in servers.split(",")].index(str(task.port))
        reader = read_range(task)
        batches = [next(reader)]
        broker.kill(leader)
        batches += reader
        assert offsets_of(_rows(batches)) == offsets_of(expected)


@pytest.mark.slow
def test_a_leader_that_refers_to_a_nearer_replica_is_followed() -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with KafkaBroker(3, config={"replica.selector.class": selector}) as broker:
        servers = broker.bootstrap_servers
        create_topic_again(servers, "flights", replicas=3)
        produce(servers, "flights", [b"value"] * 100, batch_every=10, acks="all")
        client = options(servers, client_rack="nowhere")
        assert len(read(task_for(client, "flights", 0, 100))) == 100


def _rows(batches: list[Any]) -> list[Row]:
    return [(offset, None, None, 0, 0, None) for batch in batches for offset in batch.column("offset").to_pylist()]
