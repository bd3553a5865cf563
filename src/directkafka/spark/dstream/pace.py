"""The program's policy for when a direct stream has a batch, asked at each interval.

Spark makes a batch each interval. A policy leaves some of them empty: their records come with a later one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition
from directkafka.planning.trigger import Moment, Trigger, wait_ms
from directkafka.view import ClusterView

__all__ = ["Pace"]


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
        view: ClusterView,
        pending: Collection[int],
    ) -> bool:
        """Whether the batch of this time is to be empty. The first one of a run never is.

        Args:
            ms: the batch's time, in milliseconds since 1970.
            progress: where the stream is.
            view: what the cluster has.
            pending: the times of the batches that wait or run.
        """
        if self._trigger is None or self._started_ms is None:
            return False
        is_running = self._started_ms in pending or self._ended_ms is None
        moment = Moment(
            now_ms=ms,
            started_ms=self._started_ms,
            # One that runs has not ended before now.
            ended_ms=ms if is_running else self._ended_ms,
            backlog=sum(
                max(0, seen.latest - (progress[one].end if one in progress else seen.earliest))
                for one, seen in view.partitions.items()
            ),
        )
        return wait_ms(self._trigger, moment) > 0

    def planned(self, ms: int, ranges: Iterable[OffsetRange]) -> None:
        """A batch was planned."""
        if any(one.count() for one in ranges):
            self._started_ms, self._ended_ms = ms, None

    def ended(self, ms: int) -> None:
        """A batch has ended."""
        if ms == self._started_ms:
            self._ended_ms = self._now_ms()
