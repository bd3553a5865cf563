"""The fate of a direct stream's batches as far as it is known, and the program's say in when the next one comes.

Spark tells it by events, on a thread of its own and some milliseconds late; outputs that are guarded tell a failure
themselves, before the next batch can begin. So a batch is done when Spark has said of it, or of a later one, that all
outputs succeeded, and neither it nor one before it waits or runs: then none of those can fail any more. That a batch is
not among those that wait or run says nothing by itself: one whose last output succeeded is not there either, whatever
became of the others. (Of a time that only a window has asked for, no event ever comes; a later one's must do.)

The program's policy for when a direct stream has a batch, asked at each interval.

Spark makes a batch each interval. A policy leaves some of them empty: their records come with a later one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from directkafka.errors.streams import BatchFailedError
from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition
from directkafka.planning.trigger import Moment, Trigger, wait_ms
from directkafka.snapshot import ClusterSnapshot

#: How long Spark may take to report that it has dropped a batch, in seconds; a matter of milliseconds.
_REPORT_S: Final = 1.0


class BatchStatuses:
    """Batches are named by their times, in milliseconds since 1970."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: When batches were planned that have not succeeded yet, in seconds of the monotonic clock.
        self._planned: dict[int, float] = {}
        self._succeeded: set[int] = set()
        #: Time and cause of the first batch that has failed.
        self._failed: tuple[int, str] | None = None
        #: From this batch on all is heard; None while nobody listens.
        self._heard_from_ms: int | None = None

    def listen(self, from_ms: int) -> None:
        """From this batch on, Spark's events are heard. (A restored stream has run its first ones by then.)"""
        with self._lock:
            if self._heard_from_ms is None:
                self._heard_from_ms = from_ms

    def listen_no_more(self) -> None:
        """The context has stopped: what has left its queue has ended, and its event may not come any more."""
        with self._lock:
            self._heard_from_ms = sys.maxsize

    def plan(self, batch_ms: int) -> None:
        """The ranges of a batch are decided, or asked for again."""
        with self._lock:
            if batch_ms not in self._succeeded:
                self._planned.setdefault(batch_ms, time.monotonic())

    def undetermined(self, pending: Collection[int]) -> list[int]:
        """Batches that neither wait nor run, and of which nobody has said how they ended: they have succeeded this
        moment, or Spark has dropped them, or they are times that only a window has asked for.

        Args:
            pending: which batches wait or run.
        """
        with self._lock:
            return sorted(self._planned.keys() - pending)

    def settle(self, pending: Collection[int]) -> None:
        """Spark has reported no error until now: what was planned a while ago, and does not wait or run, was not
        dropped. (The batch that was planned last may have taken its time, and fail only now.)

        Args:
            pending: which batches wait or run.
        """
        with self._lock:
            until_s, newest = time.monotonic() - _REPORT_S, max(self._planned, default=0)
            for planned_ms in [
                planned_ms for planned_ms, at_s in self._planned.items() if at_s < until_s and planned_ms != newest
            ]:
                if planned_ms not in pending:
                    del self._planned[planned_ms]

    @property
    def has_failure(self) -> bool:
        """Whether a batch is known to have failed."""
        return self._failed is not None

    def succeed(self, batch_ms: int) -> None:
        """All outputs of a batch have succeeded."""
        with self._lock:
            self._succeeded.add(batch_ms)
            self._planned.pop(batch_ms, None)

    def fail(self, batch_ms: int, cause: str) -> None:
        """An output of a batch has failed."""
        with self._lock:
            if self._failed is None or batch_ms < self._failed[0]:
                self._failed = (batch_ms, cause)

    def check(self, batch_ms: int) -> None:
        """See that neither this batch nor one before it has failed.

        Raises:
            BatchFailedError: one has.
        """
        failed = self._failed
        if failed is not None and batch_ms >= failed[0]:
            raise BatchFailedError(batch=shown_time(failed[0]), cause=failed[1])

    def is_done(self, batch_ms: int, pending: Callable[[], Collection[int]]) -> bool:
        """Whether a batch has succeeded, and nothing before it can fail any more.

        Args:
            batch_ms: the batch.
            pending: which batches wait or run; asked only when the rest is known, since it asks the JVM.

        Raises:
            BatchFailedError: it or one before it has failed.
        """
        self.check(batch_ms)
        with self._lock:
            heard_from_ms = self._heard_from_ms
            # What ended before anybody listened has left the queue, and no guarded output has failed.
            is_told = heard_from_ms is not None and (
                batch_ms < heard_from_ms or any(succeeded_ms >= batch_ms for succeeded_ms in self._succeeded)
            )
        return is_told and all(pending_ms > batch_ms for pending_ms in pending())

    def forget(self, before_ms: int) -> None:
        """Drop what is known of batches that are older."""
        with self._lock:
            self._succeeded = {succeeded_ms for succeeded_ms in self._succeeded if succeeded_ms >= before_ms}


def batch_ms(when: datetime) -> int:
    """A batch's time as Spark has it, in milliseconds since 1970; right also in the hour that a clock goes back."""
    return round(when.timestamp() * 1000)


def shown_time(batch_ms: int) -> str:
    """A batch's time for messages: in UTC, which is the same on every machine."""
    return f"{datetime.fromtimestamp(batch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{batch_ms % 1000:03} UTC"


class Pace:
    """Remembers when the last batch with records began and ended.

    Args:
        trigger: the policy; None: each batch has what there is.
        now_ms: the time in milliseconds since 1970.
    """

    def __init__(self, trigger: Trigger | None, now_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        self._trigger = trigger
        self._now_ms = now_ms
        self._started_ms: int | None = None
        self._ended_ms: int | None = None

    def is_early(
        self,
        ms: int,
        progress: Mapping[TopicPartition, PartitionProgress],
        snapshot: ClusterSnapshot,
        pending: Collection[int] | None,
    ) -> bool:
        """Whether the batch of this time is to be empty. The first one of a run never is.

        Args:
            ms: the batch's time, in milliseconds since 1970.
            progress: where the stream is.
            snapshot: what the cluster has.
            pending: the times of the batches that wait or run; None while nobody can be asked.
        """
        if self._trigger is None or self._started_ms is None:
            return False
        if self._ended_ms is None and pending is not None and self._started_ms not in pending:
            # Its end was not heard. Sequence of events: a restored stream plans its first batch before anybody can
            # listen; the batch ends; the next one begins to listen.
            self._ended_ms = ms
        is_running = self._ended_ms is None or (pending is not None and self._started_ms in pending)
        moment = Moment(
            now_ms=ms,
            started_ms=self._started_ms,
            # One that runs has not ended before now.
            ended_ms=ms if is_running else self._ended_ms,
            backlog=sum(
                max(0, seen.latest - (progress[partition].end if partition in progress else seen.earliest))
                for partition, seen in snapshot.partitions.items()
            ),
        )
        return wait_ms(self._trigger, moment) > 0

    def planned(self, ms: int, ranges: Iterable[OffsetRange]) -> None:
        """A batch was planned."""
        if any(offset_range.count() for offset_range in ranges):
            self._started_ms, self._ended_ms = ms, None

    def ended(self, ms: int) -> None:
        """A batch has ended."""
        if ms == self._started_ms:
            self._ended_ms = self._now_ms()
