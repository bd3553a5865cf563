"""A fetch request and its response, whose header is read in place: the record bytes behind it stay where they are.

Fetch without fetch sessions, one partition a request, into a reused buffer. In newer versions a request names its topic
by id alone (KIP-516), so a topic that was deleted and made again is never taken for the old one; without a known topic
id, an older version is spoken.

API key 1, versions 4 to 17. The response's layout (KIP-98, KIP-227,
KIP-392, KIP-482 for the compact forms from version 12 on, KIP-516 for topic ids from 13 on)::

    frame      int32 length · int32 correlation id · [12+: tagged fields]
    response   int32 throttle ms · [7+: int16 error · int32 session id] · array of topics · [12+: tagged fields]
    topic      [4-12: string name | 13+: uuid] · array of partitions · [12+: tagged fields]
    partition  int32 index · int16 error · int64 high watermark · int64 last stable offset
               [5+: int64 log start offset] · nullable array of (int64 producer id, int64 first offset)
               [11+: int32 preferred read replica] · nullable record bytes · [12+: tagged fields]

What comes after the record bytes is not read, and so neither are the tagged fields there (a diverging epoch is
sent only to followers; a new leader is looked up anyway). Every length is checked against the bytes that are
there before it is used. ``tests/unit/kafka/consumer/test_fetch_response.py`` compares every version with kafka-python's
own decoding.
"""

from __future__ import annotations

import struct
import time
import uuid
from dataclasses import dataclass

from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network.client import Channel
from directkafka.kafka.network.receive import ResponseError, receive
from directkafka.kafka.protocol.api_versions import FetchVersion
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.kafka.records.record_batch import BatchIndex

#: A response of one partition has few aborted transactions; more than this is not a response.
_ABORTED_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """One partition's answer.

    Attributes:
        correlation_id: of the request that is answered.
        throttle_ms: how long the broker asks us to wait, in milliseconds.
        error_code: Kafka's error code of the response or the partition; 0 is none.
        partition: partition number, or -1 when the response holds none.
        high_watermark, last_stable_offset, log_start_offset: of the partition; -1 where the broker knows none.
        aborted: ``(producer id, first offset)`` of the transactions that were aborted, as the broker lists them.
        preferred_read_replica: node id of the replica to read from (KIP-392), or -1.
        records_start, records_end: where the record bytes lie in the buffer.
    """

    correlation_id: int
    throttle_ms: int
    error_code: int
    partition: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] = ()
    preferred_read_replica: int = -1
    records_start: int = 0
    records_end: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is not a byte of records."""
        return self.records_start == self.records_end


@dataclass(slots=True, kw_only=True)
class FetchedRecords:
    """One response's record bytes, lent until ``RangeFetch.recycle``.

    Attributes:
        records: the bytes, from the first batch on; may end in the middle of a batch.
        index: their batch headers.
        aborted: ``(producer id, first offset)`` of aborted transactions.
        from_offset: the offset that was asked for; the first batch may begin before it.
        buffer: what the bytes lie in.
    """

    records: memoryview
    index: BatchIndex
    aborted: tuple[tuple[int, int], ...]
    from_offset: int
    buffer: bytearray


class _Cursor:
    """Reads big-endian values and refuses to pass the end."""

    __slots__ = ("buffer", "end", "flexible", "position")

    def __init__(self, buffer: memoryview, flexible: bool) -> None:
        self.buffer = buffer
        self.end = len(buffer)
        self.position = 0
        self.flexible = flexible

    def skip(self, length: int) -> int:
        """Move over ``length`` bytes and return where they begin."""
        start = self.position
        if length < 0 or length > self.end - start:
            raise ResponseError(f"a length of {length} at byte {start} of {self.end}")
        self.position = start + length
        return start

    def number(self, layout: struct.Struct) -> int:
        return int(layout.unpack_from(self.buffer, self.skip(layout.size))[0])

    def varint(self) -> int:
        """An unsigned varint of at most 5 bytes (KIP-482)."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.buffer[self.skip(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ResponseError(f"a varint of more than 5 bytes at byte {self.position - 5}")

    def length(self, plain: struct.Struct) -> int:
        """A nullable length: compact (one more than the length, 0 is null) or plain (-1 is null)."""
        return self.varint() - 1 if self.flexible else self.number(plain)

    def skip_tagged_fields(self) -> None:
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.skip(self.varint())


_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PAIR = struct.Struct(">qq")


def parse_fetch_response(frame: memoryview, version: int) -> FetchResponse:
    """Read a response up to its record bytes.

    Args:
        frame: the response without its leading length.
        version: the version of the request that it answers.

    Raises:
        ResponseError: a length that does not fit, or more than one topic or partition.
    """
    cursor = _Cursor(frame, flexible=version >= FetchVersion.FLEXIBLE)
    correlation_id = cursor.number(_INT32)
    cursor.skip_tagged_fields()
    throttle_ms = cursor.number(_INT32)
    error_code: int = ErrorCode.NONE
    if version >= FetchVersion.SESSION:
        error_code = cursor.number(_INT16)
        cursor.skip(_INT32.size)
    topics = cursor.length(_INT32)
    if error_code != ErrorCode.NONE or topics <= 0:
        return FetchResponse(correlation_id=correlation_id, throttle_ms=throttle_ms, error_code=error_code)
    _skip_topic_name(cursor, version)
    partitions = cursor.length(_INT32)
    if topics != 1 or partitions != 1:
        raise ResponseError(f"asked for one partition, got {topics} topics and {partitions} partitions")
    return _parse_partition(cursor, version, correlation_id, throttle_ms)


def _skip_topic_name(cursor: _Cursor, version: int) -> None:
    cursor.skip(16 if version >= FetchVersion.TOPIC_ID else cursor.length(_INT16))


def _parse_partition(cursor: _Cursor, version: int, correlation_id: int, throttle_ms: int) -> FetchResponse:
    partition = cursor.number(_INT32)
    error_code = cursor.number(_INT16)
    high_watermark = cursor.number(_INT64)
    last_stable_offset = cursor.number(_INT64)
    log_start_offset = cursor.number(_INT64) if version >= FetchVersion.LOG_START_OFFSET else -1
    aborted = _parse_aborted(cursor)
    preferred_read_replica = cursor.number(_INT32) if version >= FetchVersion.PREFERRED_READ_REPLICA else -1
    records_length = max(0, cursor.length(_INT32))
    records_start = cursor.skip(records_length)
    return FetchResponse(
        correlation_id=correlation_id,
        throttle_ms=throttle_ms,
        error_code=error_code,
        partition=partition,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted=aborted,
        preferred_read_replica=preferred_read_replica,
        records_start=records_start,
        records_end=records_start + records_length,
    )


def _parse_aborted(cursor: _Cursor) -> tuple[tuple[int, int], ...]:
    count = cursor.length(_INT32)
    if count > min(_ABORTED_MAX, (cursor.end - cursor.position) // _PAIR.size):
        raise ResponseError(f"{count} aborted transactions at byte {cursor.position} of {cursor.end}")
    aborted = []
    for _ in range(max(0, count)):
        aborted.append(_PAIR.unpack_from(cursor.buffer, cursor.skip(_PAIR.size)))
        cursor.skip_tagged_fields()
    return tuple(aborted)


_NO_TOPIC_ID = str(uuid.UUID(int=0))


def send_fetch(
    channel: Channel, task: RangeTask, position: int, *, bytes_max: int, buffer: bytearray, timeout_ms: int, rack: str
) -> FetchResponse:
    """Fetch from a position on.

    Args:
        channel: the partition's leader, or a replica that it refers to.
        task: which partition, and how to ask.
        position: the first offset wanted.
        bytes_max: about how many bytes of records to send; a first batch that is larger comes whole (KIP-74).
        buffer: receives the response, and grows if it must; nobody else may hold a view of it.
        timeout_ms: longest time until the whole response is there.
        rack: where we are, for the leader to refer to a replica that is near (KIP-392); empty for no such referral.

    Returns:
        Where the response's parts lie in ``buffer``.

    Raises:
        OSError: the connection is lost, or the response is not there in time.
        ResponseError: the answer is not one to this request; the channel is of no more use.
    """
    offset_range, client = task.range, task.client
    version = channel.fetch_version if task.topic_id else min(channel.fetch_version, FetchVersion.TOPIC_ID - 1)
    partition = {"partition": offset_range.partition, "fetch_offset": position, "partition_max_bytes": bytes_max}
    correlation_id, request = channel.encode_fetch(
        version,
        replica_id=-1,
        # An answer without records shall come before the time is over: it says more than silence.
        max_wait_ms=min(client.fetch_max_wait_ms, timeout_ms // 2),
        min_bytes=client.fetch_min_bytes,
        max_bytes=bytes_max,
        isolation_level=int(client.isolation_level == "read_committed"),
        topics=[{"topic": offset_range.topic, "topic_id": task.topic_id or _NO_TOPIC_ID, "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id=rack,
    )
    deadline = time.monotonic() + timeout_ms / 1000
    channel.socket.settimeout(timeout_ms / 1000)
    channel.socket.sendall(request)
    length = receive(channel, buffer, client.fetch_max_bytes, deadline)
    # Released whatever happens: a view that an error's traceback holds would forbid the buffer to grow.
    with memoryview(buffer) as whole, whole[:length] as frame:
        response = parse_fetch_response(frame, version)
    if response.correlation_id != correlation_id or response.partition not in (-1, offset_range.partition):
        raise ResponseError(
            f"asked with correlation id {correlation_id} for partition {offset_range.partition}, got "
            f"{response.correlation_id} and {response.partition}"
        )
    return response
