"""One fetch request and its response over a channel: what goes out, and bytes into a reused buffer.

API key 1 (Fetch) without fetch sessions, one partition a request. From version 13 on a request names its topic by
id alone (KIP-516), so a topic that was deleted and made again is never taken for the old one; without a known
topic id, version 12 is the highest.
"""

from __future__ import annotations

import uuid

from directkafka.kafka.client import Channel
from directkafka.kafka.fetch_response import FetchResponse, ResponseError, parse_fetch_response
from directkafka.kafka.range_task import RangeTask

__all__ = ["ask"]

_VERSION_BY_NAME_MAX = 12
_NO_TOPIC_ID = str(uuid.UUID(int=0))


def ask(
    channel: Channel, task: RangeTask, position: int, bytes_max: int, buffer: bytearray
) -> tuple[memoryview, FetchResponse]:
    """Fetch from a position on.

    Args:
        channel: the partition's leader.
        task: which partition, and how to ask.
        position: the first offset wanted.
        bytes_max: about how many bytes of records to send; a first batch that is larger comes whole (KIP-74).
        buffer: receives the response, and grows if it must.

    Returns:
        The response's bytes in ``buffer``, and where its parts lie in them.

    Raises:
        OSError: the connection is lost, or no answer came within ``request.timeout.ms``.
        ResponseError: the answer is not one to this request; the channel is of no more use.
    """
    one, client = task.range, task.client
    version = channel.fetch_version if task.topic_id else min(channel.fetch_version, _VERSION_BY_NAME_MAX)
    partition = {"partition": one.partition, "fetch_offset": position, "partition_max_bytes": bytes_max}
    correlation_id, request = channel.encode_fetch(
        version,
        replica_id=-1,
        max_wait_ms=client.fetch_max_wait_ms,
        min_bytes=client.fetch_min_bytes,
        max_bytes=bytes_max,
        isolation_level=int(client.isolation_level == "read_committed"),
        topics=[{"topic": one.topic, "topic_id": task.topic_id or _NO_TOPIC_ID, "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id=client.client_rack,
    )
    channel.socket.sendall(request)
    frame = _receive(channel, buffer, client.fetch_max_bytes)
    response = parse_fetch_response(frame, version)
    if response.correlation_id != correlation_id or response.partition not in (-1, one.partition):
        raise ResponseError(
            f"asked with correlation id {correlation_id} for partition {one.partition}, got "
            f"{response.correlation_id} and {response.partition}"
        )
    return frame, response


def _receive(channel: Channel, buffer: bytearray, bytes_max: int) -> memoryview:
    """One response without its length, in the buffer, which grows as bytes arrive.

    A batch larger than what was asked for is sent whole (KIP-74), so the limit is a sanity check of the length
    and not the size of the answer.
    """
    head = bytearray(4)
    _receive_into(channel, memoryview(head))
    length = int.from_bytes(head, "big", signed=True)
    limit = max(4 * bytes_max, 256 * 1024 * 1024)
    if not 8 <= length <= limit:
        raise ResponseError(f"a response of {length} bytes; between 8 and {limit} can be")
    received = 0
    while received < length:
        if len(buffer) < length:
            # Grown in steps, so that a length that lies does not take memory before its bytes are there.
            buffer.extend(bytes(min(length, max(2 * len(buffer), 1 << 20)) - len(buffer)))
        with memoryview(buffer) as view:
            part = min(length, len(buffer))
            _receive_into(channel, view[received:part])
        received = part
    return memoryview(buffer)[:length]


def _receive_into(channel: Channel, view: memoryview) -> None:
    while view:
        count = channel.socket.recv_into(view)
        if count == 0:
            raise ConnectionResetError(f"the broker {channel.host}:{channel.port} closed the connection")
        view = view[count:]
