"""The reader of one range: a thread receives responses into reused buffers, ahead of whoever decodes them.

The thread asks for ``[position, ...)``, receives the response, finds from the batch headers where the next
request must start, hands the buffer over and asks again at once. At most :data:`BUFFERS` responses are in
memory, however long the range is. Receiving releases the GIL, and so does the decoding kernel: the two overlap.

What the thread decides by itself:

- a lost connection or a new leader: look the leader up, connect, ask again for the same position, with backoff,
  until ``poll_timeout_ms`` passed without progress;
- a leader that refers to another replica (``client.rack``, KIP-392): go on there, and back to the leader for good
  when that replica dies, refuses, or has nothing to give;
- an answer without records: ask the leader why. Compaction may have left nothing there, which is moved over;
- offsets that the log no longer has, a topic that was deleted or made again, a log that was cut since the range was
  planned (KIP-320): data loss, an error or a jump (``fail_on_data_loss``).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import tenacity

from directkafka.errors import DataLossError, FetchTimeoutError, MalformedBatchError, RangeNotReadError
from directkafka.errors.data_loss import CouldNotReadOffsetRangeError
from directkafka.kafka.consumer.fetch import FetchedRecords, FetchResponse, send_fetch
from directkafka.kafka.consumer.partition_connection import PartitionConnection, TopicGone, TryAgain
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import raise_for
from directkafka.kafka.network.receive import ResponseError
from directkafka.kafka.protocol.error_codes import ErrorCode, error_name, is_retriable
from directkafka.kafka.records.decoder import RecordDecoder
from directkafka.kafka.records.record import describe
from directkafka.kafka.records.record_batch import index_batches, readonly_bytes
from directkafka.options.client import ClientOptions

log = logging.getLogger(__name__)

#: One being received, one being decoded. A third one, waiting in between, makes a read slower, not faster: it drives
#: the others out of the processor's cache.
BUFFERS = 2

_BYTES_FIRST_MAX = 1024 * 1024
_BYTES_SPARE = 64 * 1024
_BACKOFF_MAX_S = 1.0
#: The shortest try: with less time left, silence would not say anything about the broker.
_TRY_MS_MIN = 200


def read_range(task: RangeTask, read: ReadCount | None = None) -> Iterator[pa.RecordBatch]:
    """Read exactly the records of one range, in order.

    Memory is bounded by the fetch buffers and one output batch, however long the range is. A generator that is
    closed early stops its fetch.

    Args:
        task: the range, where its leader was, and how to read.
        read: is added up to while the range is read.

    Yields:
        Record batches of the task's columns, see :mod:`directkafka.kafka.records.arrow`.

    Raises:
        DataLossError: offsets of the range are not in the log any more.
        FetchTimeoutError: no progress within the task's limit.
        MalformedBatchError: bytes that are not records.
        DecompressionLimitError: a record batch decompresses to more than ``max.decompressed.batch.bytes``.
        RangeNotReadError: the range ended early; cannot happen unless this library is wrong.
    """
    if task.range.count() == 0:
        return
    decoder = RecordDecoder(
        task.range.topic,
        task.range.partition,
        task.range.from_offset,
        task.range.until_offset,
        include_headers=task.include_headers,
        read_committed=task.client.isolation_level == "read_committed",
        check_crcs=task.client.check_crcs,
        decompressed_bytes_max=task.client.max_decompressed_batch_bytes,
    )
    fetch, columns, read = RangeFetch(task), list(task.record_columns), read or ReadCount()
    try:
        for fetched in fetch:
            # Past offsets that are lost: the batch that is cut by the log's new start may still hold some of them.
            decoder.position = max(decoder.position, fetched.from_offset)
            read.byte_count += len(fetched.records)
            for batch in decoder.decode(fetched.records, fetched.index, fetched.aborted):
                read.record_count += batch.num_rows
                # Columns are shared, not copied; and what is not selected is not sent to Spark.
                yield batch.select(columns)
            # The thread has gone on from its own reading of the batch headers: the decoder must agree with it.
            if decoder.position < min(fetched.index.next_offset, task.range.until_offset):
                raise RangeNotReadError(ranges=(str(task.range),))
            fetch.recycle(fetched)
    finally:
        fetch.close()
    if fetch.position < task.range.until_offset:
        raise RangeNotReadError(ranges=(str(task.range),))


class RangeFetch:
    """The responses of one range, in order, as an iterator.

    Args:
        task: the range and how to read it.

    Iterating raises the first error the thread met. :meth:`close` must be called at the end.
    """

    def __init__(self, task: RangeTask) -> None:
        self._task = task
        #: The next offset to ask for; past the range's end once all of it is received or known to be lost.
        self.position = task.range.from_offset
        self._link = PartitionConnection(task)
        self._bytes_limit = min(task.client.max_partition_fetch_bytes, task.client.fetch_max_bytes)
        self._bytes_max = min(_BYTES_FIRST_MAX, self._bytes_limit)
        self._deadline = 0.0
        self._quiet_until = 0.0
        self._free: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        self._full: queue.SimpleQueue[FetchedRecords | BaseException | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._retrying = tenacity.Retrying(
            stop=self._is_over,
            wait=_backoff(task.client),
            retry=tenacity.retry_if_exception_type(TryAgain),
            retry_error_callback=self._raise_timeout,
            sleep=tenacity.sleep_using_event(self._stopping),
        )
        self._thread = threading.Thread(target=self._run, name=f"fetch {task.range}", daemon=True)
        self._started = False
        self._complete = False

    def __iter__(self) -> Iterator[FetchedRecords]:
        for buffer in connection_pool.borrow_buffers(BUFFERS):
            self._free.put(buffer)
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
        """Stop the thread, wait for its end, and keep or drop its connection.

        The connection is kept for the next range unless an answer is on its way. The wait is short, except that an
        attempt to connect is not cut off: it ends after ``socket.connection.setup.timeout.ms``.
        """
        self._stopping.set()
        self._free.put(None)
        if not self._started:
            return
        if not self._complete:
            self._link.interrupt()
        self._thread.join()
        if self._complete:
            self._link.keep()
        else:
            self._link.drop()
        connection_pool.release_buffers(self._drain_free())

    def _drain_free(self) -> list[bytearray]:
        drained = []
        while not self._free.empty():
            drained.append(self._free.get())
        return [buffer for buffer in drained if buffer is not None]

    def _run(self) -> None:
        try:
            while self.position < self._task.range.until_offset:
                buffer = self._free.get()
                if buffer is None or self._stopping.is_set():
                    return
                fetched = self._fetch(buffer)
                if fetched is not None:
                    self._full.put(fetched)
                else:
                    self._free.put(buffer)
            self._complete = True
            self._full.put(None)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the reader raises it
            self._full.put(error)

    def _fetch(self, buffer: bytearray) -> FetchedRecords | None:
        """Records from the position on, and the position moved over them; waits until there are some.

        Returns:
            None when the position was moved over lost or empty offsets instead, or when the reader has closed.

        Raises:
            FetchTimeoutError: no progress within the limit.
            DataLossError: the position is not in the log any more.
        """
        self._deadline = time.monotonic() + self._task.poll_timeout_ms / 1000
        return self._retrying(self._fetch_once, buffer)

    def _is_over(self, state: tenacity.RetryCallState) -> bool:
        now = time.monotonic()
        deadline = self._deadline + max(0.0, self._quiet_until - now)
        return self._stopping.is_set() or now + state.upcoming_sleep + _TRY_MS_MIN / 1000 >= deadline

    def _raise_timeout(self, state: tenacity.RetryCallState) -> None:
        if self._stopping.is_set():
            return
        assert state.outcome is not None
        cause = state.outcome.exception()
        raise FetchTimeoutError(
            topic=self._task.range.topic,
            partition=self._task.range.partition,
            offset=self.position,
            until_offset=self._task.range.until_offset,
            timeout_ms=self._task.poll_timeout_ms,
            cause=str(cause).rstrip("."),
        ) from cause

    def _left_ms(self) -> int:
        """How long one request may take: until the deadline, at most its timeout, at least 200 ms."""
        left_ms = int((self._deadline - time.monotonic()) * 1000)
        return max(_TRY_MS_MIN, min(left_ms, self._task.client.request_timeout_ms))

    def _fetch_once(self, buffer: bytearray) -> FetchedRecords | None:
        # A broker with a quota is silent for so long, whoever asks; that is no want of progress.
        if (quiet_s := self._quiet_until - time.monotonic()) > 0:
            self._stopping.wait(quiet_s)
            self._deadline += quiet_s
        try:
            response = self._ask(buffer)
            if response.preferred_read_replica >= 0 and response.is_empty:
                self._link.move_to(response.preferred_read_replica, self._left_ms())
                response = self._ask(buffer)
            if response.error_code:
                self._handle_error_code(response.error_code)
                return None
            self._link.served()
            if response.is_empty:
                self._handle_empty_response(response)
                return None
            return self._accept(response, buffer)
        except TopicGone as gone:
            self._raise_or_skip_loss(gone.error_type, self._task.range.until_offset, str(gone))
            return None

    def _ask(self, buffer: bytearray) -> FetchResponse:
        channel = self._link.open(self._left_ms())
        try:
            response = send_fetch(
                channel,
                self._task,
                self.position,
                bytes_max=self._bytes_max,
                buffer=buffer,
                timeout_ms=self._left_ms(),
                rack=self._link.rack,
            )
        except (OSError, ResponseError) as error:
            self._link.forget()
            raise TryAgain(f"{channel.host}:{channel.port}: {error or type(error).__name__}") from error
        self._quiet_until = time.monotonic() + response.throttle_ms / 1000
        return response

    def _accept(self, response: FetchResponse, buffer: bytearray) -> FetchedRecords | None:
        with memoryview(buffer) as whole:
            records = whole[response.records_start : response.records_end]
            # A later epoch: after the range was planned, a leader with a shorter log, or an empty one, truncated it,
            # and it was written again.
            index, rewritten_at = index_batches(readonly_bytes(records)).before_epoch(
                self._task.leader_epoch, self._task.range.until_offset
            )
            if rewritten_at is not None:
                records.release()
                records = whole[response.records_start : response.records_start + rewritten_at]
        if not records:
            records.release()
            self._handle_rewritten_log()
            return None
        if index.next_offset <= self.position:
            reason = f"{len(records)} bytes of records hold no complete batch that goes on from this offset"
            if index.corruption[0]:
                reason = describe(index.corruption)
            records.release()
            raise MalformedBatchError(
                topic=self._task.range.topic,
                partition=self._task.range.partition,
                offset=self.position,
                position=0,
                reason=reason,
            )
        self._learn_size(len(records), index.next_offset - self.position)
        asked, self.position = self.position, index.next_offset
        return FetchedRecords(records=records, index=index, aborted=response.aborted, from_offset=asked, buffer=buffer)

    def _handle_rewritten_log(self) -> None:
        detail = (
            f"the log was cut and written again: what is at these offsets now was written after leader epoch "
            f"{self._task.leader_epoch}, under which the range was planned"
        )
        self._raise_or_skip_loss(CouldNotReadOffsetRangeError, self._task.range.until_offset, detail)

    def _handle_empty_response(self, response: FetchResponse) -> None:
        """Find out why there are no records: move over what is empty or lost, or try again.

        Within a planned range there should be some. A broker that has less than the leader is left; a new leader
        still learns its high watermark; a throttled client is told nothing; compaction can have removed all there
        was (Kafka then answers as at the end of the log); or the log was cut.
        """
        reason = (
            f"the broker has no records at offset {self.position} (high watermark {response.high_watermark}, "
            f"last stable offset {response.last_stable_offset})"
        )
        if response.partition < 0:
            raise TryAgain(reason)
        answered_by, state = self._link.address, self._link.leader_state(self._left_ms())
        if answered_by != state.address:
            self._link.forget()
            raise TryAgain(reason)
        if state.planned_end is not None and state.planned_end <= self.position:
            detail = (
                f"the log was cut: what was written up to leader epoch {self._task.leader_epoch}, under which the "
                f"range was planned, ends at offset {state.planned_end} now"
            )
            self._raise_or_skip_loss(CouldNotReadOffsetRangeError, self._task.range.until_offset, detail)
            return
        is_read_committed = self._task.client.isolation_level == "read_committed"
        visible_end = response.last_stable_offset if is_read_committed else response.high_watermark
        # While records come from remote storage, a broker answers with none, too.
        if state.local_start is None or not state.local_start <= self.position < visible_end:
            raise TryAgain(reason)
        self.position = min(visible_end, self._task.range.until_offset)

    def _learn_size(self, byte_count: int, offset_count: int) -> None:
        """Ask for as much as the rest of the range needs, by what the last response needed for each offset."""
        rest = max(0, self._task.range.until_offset - self.position - offset_count)
        expected = int(rest * byte_count / offset_count * 1.1) + _BYTES_SPARE
        self._bytes_max = min(self._bytes_limit, expected)

    def _handle_error_code(self, code: int) -> None:
        """Act on an error code: raise, try again elsewhere, or move the position over what is lost."""
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._handle_out_of_range()
            return
        # A log that is broken on the broker's disk stays so, whatever Kafka's own table says. What has no code of its
        # own may be remote storage that fails for a moment: Java's consumer asks again, too.
        may_pass = is_retriable(code) or code == ErrorCode.UNKNOWN_SERVER_ERROR
        if may_pass and code != ErrorCode.CORRUPT_MESSAGE:
            self._link.forget()
            raise TryAgain(f"the broker answered {error_name(code)}")
        offset_range = self._task.range
        raise_for("Fetch", code, f"topic {offset_range.topic}, partition {offset_range.partition}", self._task.client)

    def _handle_out_of_range(self) -> None:
        # The response that says so has neither end of the log: the broker leaves them at -1.
        self._link.forget()
        state = self._link.leader_state(self._left_ms())
        earliest, latest = state.earliest, state.latest
        until_offset = self._task.range.until_offset
        if self.position < earliest:
            detail = f"the log starts at offset {earliest} now: the records were deleted"
            self._raise_or_skip_loss(CouldNotReadOffsetRangeError, min(earliest, until_offset), detail)
        elif self.position > latest:
            detail = f"the log ends at offset {latest} now: it was truncated or made again"
            self._raise_or_skip_loss(CouldNotReadOffsetRangeError, until_offset, detail)
        else:
            # A replica that is behind its leader, or a log that has just moved.
            raise TryAgain(f"offset {self.position} is out of range, and the log is [{earliest}, {latest})")

    def _raise_or_skip_loss(self, error_type: type[DataLossError], lost_until: int, detail: str) -> None:
        """Raise what is lost, or move over it.

        Raises:
            DataLossError: losses are errors.
        """
        topic, partition = self._task.range.topic, self._task.range.partition
        loss = error_type(
            topic=topic, partition=partition, lost_from=self.position, lost_until=lost_until, detail=detail
        )
        if self._task.fail_on_data_loss:
            raise loss
        log.warning("going on without what is lost: %s", loss)
        self.position = lost_until


def _backoff(client: ClientOptions) -> tenacity.wait.wait_base:
    """How long a leader that is away is left alone."""
    if client.refresh_leader_backoff_ms is not None:
        return tenacity.wait_fixed(client.refresh_leader_backoff_ms / 1000)
    return tenacity.wait_random_exponential(multiplier=client.retry_backoff_ms / 1000, max=_BACKOFF_MAX_S)
