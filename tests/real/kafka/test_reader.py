"""Ranges read from a real broker are exactly what confluent-kafka reads there."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.real.kafka.logs import consume, host_and_port, offsets_of, options, produce, read, task_for, within
from tests.real.kafka.proxy import KafkaProxy
from tests.waiting import until

from directkafka.kafka.consumer import range_reader
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.network import connection_pool

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]

ROOT = Path(__file__).parents[3]
WAIT_S = 90.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def fetch_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("fetch ")]


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
        ((_, idle),) = connection_pool._idle
        used.add(idle.socket.getsockname())
    assert len(used) == 1


def test_a_connection_that_the_broker_closed_is_not_used_again(servers: str, hundred: str) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        task = task_for(options(servers), hundred, 0, 10, port=proxy.port)
        assert len(read(task)) == 10
        ((_, idle),) = connection_pool._idle
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
    accept = range_reader.RangeFetch._accept

    def accepted(self: range_reader.RangeFetch, response: Any, buffer: bytearray) -> Any:
        lent.add(id(buffer))
        sizes.append(len(buffer))
        return accept(self, response, buffer)

    monkeypatch.setattr(range_reader.RangeFetch, "_accept", accepted)
    monkeypatch.setattr(connection_pool, "_buffers", [])
    received = 0
    for batch in read_range(task_for(options(servers, max_partition_fetch_bytes=250_000), topic, 0, 2_000)):
        received += batch.num_rows
    assert received == 2_000
    assert len(lent) <= range_reader.BUFFERS
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
        assert all(channel.is_quiet() for _, channel in connection_pool._idle)
    assert offsets_of(read(task_for(client, topic, 0, 1_000))) == list(range(1_000))


def test_a_reader_that_is_thrown_away_leaves_no_thread(servers: str, hundred: str) -> None:
    reader = read_range(task_for(options(servers, fetch_max_wait_ms=60_000), hundred, 0, 200))
    next(reader)
    del reader
    gc.collect()
    assert fetch_threads() == []


#: A process that forks. In the child nothing is idle, and a range is read over a connection of its own. It is a process
#: of its own: in a fork of the tests' process librdkafka would wait for threads that only the parent has.
FORKS = """
import os, sys
from directkafka.kafka.network import connection_pool
from tests.real.kafka.logs import options, read, task_for
servers, topic = sys.argv[1:]
task = task_for(options(servers), topic, 0, 100)
assert len(read(task)) == 100
((_, idle),) = connection_pool._idle
child = os.fork()
assert child or not connection_pool._idle
assert len(read(task)) == 100
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert idle.is_quiet()
    assert len(read(task)) == 100
    assert connection_pool._idle[0][1] is idle
"""


def test_a_forked_process_leaves_its_parents_connections_alone(servers: str, hundred: str) -> None:
    command = [sys.executable, "-c", FORKS, servers, hundred]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    forked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert forked.returncode == 0, forked.stderr
