"""The task of reading one range, and one fetch request of it with its response, into a reused buffer.

Fetch without fetch sessions, one partition a request. In newer versions a request names its topic by id alone
(KIP-516), so a topic that was deleted and made again is never taken for the old one; without a known topic id, an
older version is spoken.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from directkafka.kafka.consumer.fetch_response import FetchResponse, parse_fetch_response
from directkafka.kafka.network.client import Channel
from directkafka.kafka.network.receive import ResponseError, receive
from directkafka.kafka.protocol.api_versions import FetchVersion
from directkafka.offsets import OffsetRange
from directkafka.options.client import ClientOptions
from directkafka.options.read_policy import HEADERS, RECORD_COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTask:
    """Everything an executor needs to read one range; small and picklable.

    Attributes:
        range: the offsets to read.
        topic_id: the topic's UUID as text when the range was planned, or empty.
        host, port: the partition's leader when the range was planned.
        client: addresses, security, timeouts, sizes.
        columns: names of the output's columns, in order.
        fail_on_data_loss: whether a lost range is an error.
        poll_timeout_ms: longest time without progress, in milliseconds.
        leader_epoch: the partition's leader epoch when the range was planned, or -1. All its records were written
            under this epoch or an earlier one; what bears a later one was written after the log had been cut.
    """

    range: OffsetRange
    topic_id: str
    host: str
    port: int
    client: ClientOptions
    columns: tuple[str, ...] = RECORD_COLUMNS
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    leader_epoch: int = -1

    @property
    def include_headers(self) -> bool:
        """Whether there is a column ``headers``."""
        return HEADERS in self.columns


_NO_TOPIC_ID = str(uuid.UUID(int=0))


def ask(
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
    one, client = task.range, task.client
    version = channel.fetch_version if task.topic_id else min(channel.fetch_version, FetchVersion.TOPIC_ID - 1)
    partition = {"partition": one.partition, "fetch_offset": position, "partition_max_bytes": bytes_max}
    correlation_id, request = channel.encode_fetch(
        version,
        replica_id=-1,
        # An answer without records shall come before the time is over: it says more than silence.
        max_wait_ms=min(client.fetch_max_wait_ms, timeout_ms // 2),
        min_bytes=client.fetch_min_bytes,
        max_bytes=bytes_max,
        isolation_level=int(client.isolation_level == "read_committed"),
        topics=[{"topic": one.topic, "topic_id": task.topic_id or _NO_TOPIC_ID, "partitions": [partition]}],
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
    if response.correlation_id != correlation_id or response.partition not in (-1, one.partition):
        raise ResponseError(
            f"asked with correlation id {correlation_id} for partition {one.partition}, got "
            f"{response.correlation_id} and {response.partition}"
        )
    return response
