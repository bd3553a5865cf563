"""Fetching one range: a thread receives responses into reused buffers, ahead of whoever decodes them.

The thread asks for ``[position, ...)``, receives the response, finds from the batch headers where the next
request must start, hands the buffer over and asks again at once. At most :data:`BUFFERS` responses are in
memory, however long the range is. Receiving releases the GIL, and so does the decoding kernel: the two overlap.

What the thread decides by itself:

- a lost connection or a new leader: look the leader up, connect, ask again for the same position, with backoff,
  until ``poll_timeout_ms`` passed without progress;
- an offset that the log no longer has: data loss, an error or a jump (``fail_on_data_loss``).
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import tenacity

from directkafka.errors import (
    BrokerResponseError,
    BrokerUnreachableError,
    DataLossError,
    FetchTimeoutError,
    KafkaError,
    MalformedBatchError,
)
from directkafka.kafka import channels
from directkafka.kafka.client import Channel, KafkaClient, error_name, is_retriable
from directkafka.kafka.exchange import ask
from directkafka.kafka.fetch_response import FetchResponse, ResponseError
from directkafka.kafka.metadata import Metadata
from directkafka.kafka.range_task import RangeTask
from directkafka.kafka.record_batch import next_offset

__all__ = ["BUFFERS", "FetchedRecords", "RangeFetch"]

log = logging.getLogger(__name__)

#: One being received, one being decoded, one waiting in between.
BUFFERS = 3

_BYTES_FIRST_MAX = 1024 * 1024
_OFFSET_OUT_OF_RANGE = 1
_UNKNOWN_TOPIC_ID = 100
_INCONSISTENT_TOPIC_ID = 103
_STALE_LEADER = frozenset({3, 5, 6, 9, 56, 74, 75, 78})


@dataclass(slots=True, kw_only=True)
class FetchedRecords:
    """One response's record bytes, lent until :meth:`RangeFetch.recycle`.

    Attributes:
        records: the bytes, from the first batch on; may end in the middle of a batch.
        aborted: ``(producer id, first offset)`` of aborted transactions.
        buffer: what the bytes lie in.
    """

    records: memoryview
    aborted: tuple[tuple[int, int], ...]
    buffer: bytearray


class RangeFetch:
    """The responses of one range, in order, as an iterator.

    Args:
        task: the range and how to read it.

    Iterating raises the first error the thread met. :meth:`close` must be called at the end.
    """

    def __init__(self, task: RangeTask) -> None:
        self._task = task
        self._position = task.range.from_offset
        self._address = (task.host, task.port)
        self._channel: Channel | None = None
        self._bytes_per_offset = 0.0
        self._bytes_max = min(_BYTES_FIRST_MAX, task.client.max_partition_fetch_bytes)
        self._free: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        self._full: queue.SimpleQueue[FetchedRecords | BaseException | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_any(
                tenacity.stop_after_delay(task.poll_timeout_ms / 1000),
                tenacity.stop_when_event_set(self._stopping),
            ),
            wait=tenacity.wait_random_exponential(multiplier=task.client.retry_backoff_ms / 1000, max=1.0),
            retry=tenacity.retry_if_exception_type(_TryAgain),
            retry_error_callback=self._give_up,
            sleep=tenacity.sleep_using_event(self._stopping),
        )
        self._thread = threading.Thread(target=self._run, name=f"fetch {task.range}", daemon=True)
        self._started = False

    def __iter__(self) -> Iterator[FetchedRecords]:
        self._started = True
        self._thread.start()
        while (item := self._full.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def recycle(self, fetched: FetchedRecords) -> None:
        """Give a response's buffer back; its bytes may be overwritten from now on."""
        fetched.records.release()
        self._free.put(fetched.buffer)

    def close(self) -> None:
        """Stop the thread and give the connection back, or drop it when an answer is on its way."""
        self._stopping.set()
        self._free.put(None)
        if self._started:
            channel = self._channel
            if channel is not None and self._thread.is_alive():
                channel.close()
            self._thread.join()

    def _run(self) -> None:
        try:
            self._lend_buffers()
            while self._position < self._task.range.until_offset:
                buffer = self._free.get()
                if buffer is None or self._stopping.is_set():
                    return
                fetched = self._fetch(buffer)
                if fetched is not None:
                    self._full.put(fetched)
                else:
                    self._free.put(buffer)
            self._keep_channel()
            self._full.put(None)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the reader raises it
            self._full.put(error)
        finally:
            self._drop_channel()

    @property
    def position(self) -> int:
        """The next offset to ask for; past the range's end once all of it is received or known to be lost."""
        return self._position

    def _lend_buffers(self) -> None:
        """Start with the buffers that the last range left with the connection; they have their size already."""
        if self._address[0]:
            with contextlib.suppress(BrokerUnreachableError):
                self._open_channel()
        kept = self._channel.buffers if self._channel is not None else []
        for _ in range(BUFFERS):
            self._free.put(kept.pop() if kept else bytearray())

    def _keep_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is None:
            return
        channel.buffers = [buffer for buffer in self._drain_free() if buffer is not None]
        channels.give_back(self._task.client, channel)

    def _drain_free(self) -> list[bytearray | None]:
        drained = []
        while not self._free.empty():
            drained.append(self._free.get())
        return drained

    def _fetch(self, buffer: bytearray) -> FetchedRecords | None:
        """Records from the position on, and the position moved over them; waits until there are some.

        Returns:
            None when what is left of the range is lost and that is no error, or when the reader has closed.

        Raises:
            FetchTimeoutError: no progress within the limit.
            DataLossError: the position is not in the log any more.
        """
        try:
            return self._fetch_once(buffer)
        except _TryAgain:
            return self._retrying(self._fetch_once, buffer)

    def _give_up(self, state: tenacity.RetryCallState) -> None:
        if self._stopping.is_set():
            return
        assert state.outcome is not None
        cause = state.outcome.exception()
        raise FetchTimeoutError(
            topic=self._task.range.topic,
            partition=self._task.range.partition,
            offset=self._position,
            until_offset=self._task.range.until_offset,
            timeout_ms=self._task.poll_timeout_ms,
            cause=str(cause),
        ) from cause

    def _fetch_once(self, buffer: bytearray) -> FetchedRecords | None:
        try:
            self._open_channel()
            assert self._channel is not None, "just opened"
            frame, response = ask(self._channel, self._task, self._position, self._bytes_max, buffer)
        except (OSError, ResponseError, BrokerUnreachableError) as error:
            self._forget_leader()
            raise _TryAgain(f"{type(error).__name__}: {error}") from error
        if response.throttle_ms:
            self._stopping.wait(response.throttle_ms / 1000)
        if response.error_code:
            self._react(response)
            return None
        return self._accept(frame, response, buffer)

    def _accept(self, frame: memoryview, response: FetchResponse, buffer: bytearray) -> FetchedRecords:
        records = frame[response.records_start : response.records_end]
        following = next_offset(records)
        if following is None or following <= self._position:
            if records:
                raise MalformedBatchError(
                    topic=self._task.range.topic,
                    partition=self._task.range.partition,
                    offset=self._position,
                    position=0,
                    reason=f"{len(records)} bytes of records hold no complete batch that goes on from this offset",
                )
            # An empty answer within the high watermark: a new leader that still learns it, or a slow log.
            raise _TryAgain(
                f"the broker has no records at offset {self._position} (high watermark "
                f"{response.high_watermark}, last stable offset {response.last_stable_offset})"
            )
        self._learn_size(len(records), following - self._position)
        self._position = following
        return FetchedRecords(records=records, aborted=response.aborted, buffer=buffer)

    def _learn_size(self, byte_count: int, offset_count: int) -> None:
        """Ask for as much as the rest of the range needs, by what the last response needed for each offset."""
        rest = self._task.range.until_offset - self._position - offset_count
        expected = int(rest * byte_count / offset_count * 1.1) + 64 * 1024
        self._bytes_max = max(64 * 1024, min(self._task.client.max_partition_fetch_bytes, expected))

    def _react(self, response: FetchResponse) -> None:
        """Act on an error code: raise, try again elsewhere, or move the position over what is lost."""
        code = response.error_code
        if code == _OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(response)
            return
        if code in (_UNKNOWN_TOPIC_ID, _INCONSISTENT_TOPIC_ID) or code in _STALE_LEADER or is_retriable(code):
            self._forget_leader()
            raise _TryAgain(f"the broker answered {error_name(code)}")
        raise BrokerResponseError(
            api="Fetch",
            code=code,
            name=error_name(code),
            retriable=False,
            subject=f"topic {self._task.range.topic}, partition {self._task.range.partition}",
        )

    def _on_out_of_range(self, response: FetchResponse) -> None:
        one = self._task.range
        earliest = response.log_start_offset
        if self._position < earliest:
            lost_until = min(earliest, one.until_offset)
            detail = f"the log starts at offset {earliest} now: the records were deleted by retention"
        else:
            lost_until = one.until_offset
            detail = f"the log ends at offset {response.high_watermark} now: it was truncated or made again"
        loss = DataLossError(
            condition="COULD_NOT_READ_OFFSET_RANGE",
            topic=one.topic,
            partition=one.partition,
            lost_from=self._position,
            lost_until=lost_until,
            detail=detail,
        )
        if self._task.fail_on_data_loss:
            raise loss
        log.warning("%s", loss)
        self._position = lost_until
        if self._position < one.until_offset:
            raise _TryAgain("went on after lost offsets")

    def _open_channel(self) -> None:
        if self._channel is not None and time.monotonic() < self._channel.expires_at:
            return
        self._drop_channel()
        if not self._address[0]:
            self._address = self._look_up_leader()
        self._channel = channels.borrow(self._task.client, *self._address)

    def _drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _forget_leader(self) -> None:
        self._drop_channel()
        self._address = ("", 0)

    def _look_up_leader(self) -> tuple[str, int]:
        one = self._task.range
        client = KafkaClient(self._task.client)
        try:
            topics = Metadata(client, retries=0).topics([one.topic])
        except KafkaError as error:
            raise _TryAgain(str(error)) from error
        finally:
            client.close()
        topic = topics.get(one.topic)
        if topic is not None and self._task.topic_id and topic.topic_id != self._task.topic_id:
            raise DataLossError(
                condition="PARTITION_OFFSET_CHANGED",
                topic=one.topic,
                partition=one.partition,
                lost_from=self._position,
                lost_until=one.until_offset,
                detail=f"the topic was deleted and made again (topic id {self._task.topic_id}, now {topic.topic_id})",
            )
        leader = topic.leaders.get(one.partition) if topic is not None else None
        if leader is None or leader.node_id is None:
            raise _TryAgain(f"{one.topic_partition} has no leader")
        return leader.host, leader.port


class _TryAgain(Exception):  # noqa: N818 - control flow inside this module
    """The same position is worth another try; its text is the reason if it was the last."""
