"""A record batch of a few kilobytes that decompresses to a gigabyte: a broker takes it; a task says what it is."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.real.kafka.logs import options, task_for
from tests.record_encoder import CODECS, seal, sized, varint

from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.receive import receive
from directkafka.options.client import ClientOptions

pytestmark = pytest.mark.real

GIB = 2**30
WAIT_S = 120.0

#: Reads a task in a process of its own, and prints by how many bytes its peak size grew, and the error.
PROGRAM = """
import pickle, resource, sys
from directkafka.kafka.consumer.range_reader import read_range

task = pickle.load(sys.stdin.buffer)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(sum(batch.num_rows for batch in read_range(task)), "rows")
except Exception as error:
    print(type(error).__name__, error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def bomb(value_bytes: int) -> bytes:
    """A batch of one record of zeros, compressed with zstd piece by piece, so that it says nothing of its size."""
    zstd: Any = importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    compressor = zstd.ZstdCompressor()
    head = b"\x00" + varint(0) + varint(0) + sized(None) + varint(value_bytes)
    pieces = [compressor.compress(varint(len(head) + value_bytes + 1) + head)]
    piece = bytes(2**20)
    pieces += [compressor.compress(piece) for _ in range(value_bytes // len(piece))]
    pieces += [compressor.compress(varint(0)), compressor.flush()]
    now_ms = int(time.time() * 1000)
    return seal(
        0,
        b"".join(pieces),
        count=1,
        attributes=CODECS["zstd"],
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
    )


def send(client: ClientOptions, task: RangeTask, batch: bytes) -> None:
    """A Produce request with these bytes."""
    channel = connection_pool.borrow(client, task.host, task.port)
    topic = {"name": task.range.topic, "partition_data": [{"index": task.range.partition, "records": batch}]}
    asked, request = channel.encode_produce(transactional_id=None, acks=-1, timeout_ms=60_000, topic_data=[topic])
    channel.socket.settimeout(WAIT_S)
    channel.socket.sendall(request)
    buffer = bytearray()
    length = receive(channel, buffer, 2**20, time.monotonic() + WAIT_S)
    correlation_id, answer = channel.decode_produce(bytes(buffer[:length]))
    (partition,) = answer.responses[0].partition_responses
    assert (correlation_id, partition.error_code) == (asked, 0)
    connection_pool.release(client, channel)


def read_elsewhere(task: RangeTask) -> tuple[str, int]:
    """What a process that reads a task prints, and by how much its memory grew."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, input=pickle.dumps(task), capture_output=True, check=True, timeout=WAIT_S)
    printed, grown = done.stdout.decode().strip().rsplit("\n", 1)
    return printed, int(grown)


def test_a_gigabyte_of_zeros_is_an_error_and_no_gigabyte_of_memory(
    servers: str, create_topic: Callable[..., str]
) -> None:
    topic, client, batch = create_topic(), options(servers), bomb(GIB)
    assert len(batch) < 100_000
    send(client, task_for(client, topic, 0, 0), batch)
    printed, grown = read_elsewhere(task_for(client, topic, 0, 1))
    assert printed.startswith("DecompressionLimitError")
    for told in (f"topic {topic}, partition 0 at offset 0", f"{len(batch) - 61} bytes compressed with zstd"):
        assert told in printed
    assert "134217728 are allowed" in printed
    assert "max.decompressed.batch.bytes" in printed
    assert grown < 300_000_000


def test_a_batch_that_is_meant_to_be_large_is_read_when_the_limit_is_raised(
    servers: str, create_topic: Callable[..., str]
) -> None:
    topic, client = create_topic(), options(servers, max_decompressed_batch_bytes=200_000_000)
    send(client, task_for(client, topic, 0, 0), bomb(140 * 2**20))
    printed, grown = read_elsewhere(task_for(client, topic, 0, 1))
    assert printed == "1 rows"
    assert grown < 600_000_000
