"""Offsets of a direct stream on their way to its consumer group.

In Spark, ``commitAsync`` only fills a queue that the *next* batch empties, so that the last batch of every run is never
committed. Here a thread commits as soon as the batch that the offsets are of has succeeded, with all its outputs, and
what is queued is flushed when the context stops.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from directkafka.errors import DirectKafkaError
from directkafka.errors.streams import OffsetsNotCommittedError
from directkafka.fault_points import fault_point
from directkafka.offsets import TopicPartition

log = logging.getLogger("directkafka.source")

Offsets = Mapping[TopicPartition, int]
CommitCallback = Callable[[dict[TopicPartition, int], DirectKafkaError | None], None]

#: How long the last batches are waited for when the context stops, in seconds.
FLUSH_S: Final = 10.0

#: How often batches that still run are looked at, in seconds.
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Queued:
    """One call of ``commit_async``.

    Attributes:
        offsets: the next offset to read, by partition.
        callback: told what became of it.
        batch_ms: time of the batch that the offsets are of; None when they are of none.
    """

    offsets: Offsets
    callback: CommitCallback | None
    batch_ms: int | None


class GroupCommits:
    """Commits offsets in the order in which they were queued; what can be committed at once goes together.

    Args:
        commit: sends offsets to the group.
        is_done: whether a batch has succeeded; raises when it has failed. Asked of no batch: raises when any has.
    """

    def __init__(self, commit: Callable[[Offsets], None], is_done: Callable[[int | None], bool]) -> None:
        self._commit, self._is_done = commit, is_done
        self._queue: list[Queued] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        #: Whether callbacks are being called of what has left the queue.
        self._is_answering = False

    def add(self, queued: Queued) -> None:
        """Commit these offsets when their batch has succeeded."""
        with self._changed:
            if self._is_closed:
                late = queued
            else:
                late = None
                self._queue.append(queued)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="directkafka commits", daemon=True)
                    self._thread.start()
                    atexit.register(self._flush_at_exit, os.getpid())
                self._changed.notify_all()
        if late is not None:
            _answer(late, OffsetsNotCommittedError(offsets=_shown(late.offsets)))

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until all that is queued is committed or refused, and told.

        From a callback it does not wait: nothing else can be committed meanwhile.

        Args:
            timeout_s: how long at most, in seconds.

        Returns:
            Whether nothing is left.
        """
        is_callback = threading.current_thread() is self._thread
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._queue and (is_callback or not self._is_answering), 0.0 if is_callback else timeout_s
            )

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Commit what can be committed, and answer the rest with an error: their batches will not end any more.

        Whatever is added from now on is answered so at once.

        Args:
            timeout_s: how long batches are waited for, in seconds.
        """
        self.flush(timeout_s)
        with self._changed:
            left, self._queue = self._queue, []
            self._is_closed = True
            self._changed.notify_all()
        atexit.unregister(self._flush_at_exit)
        for queued in left:
            _answer(queued, OffsetsNotCommittedError(offsets=_shown(queued.offsets)))

    def _flush_at_exit(self, owner: int) -> None:
        # A forked child has a copy of the queue, and no thread that could empty it.
        if os.getpid() == owner:
            self.flush()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_closed)
                if self._is_closed:
                    return
                first = self._queue[0]
            together = [first]
            error: DirectKafkaError | None = None
            try:
                if not self._is_done(first.batch_ms):
                    time.sleep(_LOOK_S)
                    continue
                together += self._done_beside(first)
                fault_point("stream.done")
                self._commit(_furthest(together))
                fault_point("stream.committed")
            except DirectKafkaError as failure:
                error = failure
            except Exception as failure:  # noqa: BLE001 - Spark's or the system's; the next commit may succeed
                error = OffsetsNotCommittedError(offsets=_shown(_furthest(together)), cause=f"{failure!r}")
            with self._changed:
                if not self._queue or self._queue[0] is not first:
                    continue  # answered by close()
                self._queue = [queued for queued in self._queue if queued not in together]
                self._is_answering = True
            for queued in together:
                _answer(queued, error)
            with self._changed:
                self._is_answering = False
                self._changed.notify_all()

    def _done_beside(self, first: Queued) -> list[Queued]:
        """What may be committed with the first one, in one request.

        Where batches run side by side (``spark.streaming.concurrentJobs``), a later one may queue its offsets first. By
        the time that it is done, all before it have ended and have queued theirs; they must go with it, or the group
        would go backwards. So the queue is read now, and not before it was known that the first one is done.
        """
        with self._changed:
            others = self._queue[1:]
        done = []
        for queued in others:
            with suppress(Exception):  # said when it is the first one
                if queued is not first and self._is_done(queued.batch_ms):
                    done.append(queued)
        return done


def _furthest(together: list[Queued]) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for queued in together:
        for partition, offset in queued.offsets.items():
            offsets[partition] = max(offset, offsets.get(partition, 0))
    return offsets


def _answer(queued: Queued, error: DirectKafkaError | None) -> None:
    if queued.callback is None:
        if error is not None:
            log.warning("offsets were not committed to the group; the stream goes on: %s", error)
        return
    try:
        queued.callback(dict(queued.offsets), error)
    except Exception:
        log.exception("the callback of commit_async failed")


def _shown(offsets: Offsets) -> str:
    return ", ".join(f"{partition} at {offset}" for partition, offset in sorted(offsets.items()))
