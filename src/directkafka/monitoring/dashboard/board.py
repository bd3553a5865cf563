"""Board of all pipelines that a page shows: threads observe them, and what they found is kept for the page.

A request never waits for Kafka or a store: it gets what was found last.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from directkafka.monitoring.dashboard.conditions import (
    Condition,
    Event,
    Limits,
    Observation,
    condition_of,
    events_between,
)
from directkafka.monitoring.dashboard.history import History, Sample
from directkafka.monitoring.dashboard.observers import LedgerObserver, Observer, StatusObserver
from directkafka.pipeline.status import RECENT_BATCHES_MAX, FinishedBatch, PipelineStatus, started_pipelines

log = logging.getLogger("directkafka.monitoring")

#: How often a pipeline is observed unless it is said otherwise, in seconds.
OBSERVED_EVERY_S: Final = 5.0
_THREAD_COUNT: Final = 4
_EVENTS_MAX: Final = 100
#: Partitions of one pipeline that the page is told of, those with the most unread records.
_PARTITIONS_SHOWN_MAX: Final = 1_000
_NAN: Final = float("nan")


class Board:
    """Observes pipelines from threads until it is closed.

    Args:
        files: pipeline files by the pipelines' names; they are observed by their ledgers. All pipelines that are
            started in this process are observed as well.
        limits: what is too long.
        every_s: how often each is observed, in seconds.
    """

    def __init__(self, files: Mapping[str, Path], *, limits: Limits, every_s: float = OBSERVED_EVERY_S) -> None:
        self._limits = limits
        self._every_s = every_s
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._pipelines = {name: BoardPipeline(name, LedgerObserver(file)) for name, file in files.items()}
        self._version = 0
        self._summaries: tuple[int, bytes] = (-1, b"")
        self._threads = [
            threading.Thread(target=self._run, name=f"dashboard {number}", daemon=True)
            for number in range(min(_THREAD_COUNT, max(1, len(files))))
        ]

    def start(self) -> None:
        """Begin to observe."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads; one that waits for Kafka or a store ends when it has its answer."""
        self._ended.set()

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._ended.is_set()

    @property
    def version(self) -> int:
        """A number that is higher after each observation."""
        return self._version

    def summaries(self) -> bytes:
        """A line on each pipeline, as JSON."""
        with self._lock:
            version, told = self._summaries
            if version != self._version:
                found = [self._pipelines[name].summary() for name in sorted(self._pipelines)]
                told = json.dumps({"pipelines": found}).encode()
                self._summaries = (self._version, told)
            return told

    def pipeline(self, name: str) -> dict[str, Any] | None:
        """All that is known of a pipeline, for JSON; None if there is none of this name."""
        with self._lock:
            found = self._pipelines.get(name)
            return None if found is None else found.whole()

    def _run(self) -> None:
        while not self._ended.is_set():
            taken, wait_s = self._take()
            if taken is None:
                self._ended.wait(wait_s)
                continue
            try:
                found = taken.observer.observe()
            except Exception:
                log.warning("%s could not be observed", taken.name, exc_info=True)
                found = Observation(at_ms=int(time.time() * 1000), error="it could not be observed; the log says more")
            with self._lock:
                taken.add(found, self._limits)
                taken.is_busy = False
                self._version += 1

    def _take(self) -> tuple[BoardPipeline | None, float]:
        """A pipeline that is due, marked as busy; or how long to wait for one, in seconds."""
        started, now_s = started_pipelines(), time.monotonic()
        with self._lock:
            self._adopt(started)
            free = [each for each in self._pipelines.values() if not each.is_busy]
            first = min(free, key=lambda each: each.due_s, default=None)
            if first is None or first.due_s > now_s:
                return None, min(1.0, first.due_s - now_s if first else 1.0)
            first.is_busy, first.due_s = True, now_s + self._every_s
            return first, 0.0

    def _adopt(self, started: Iterable[PipelineStatus]) -> None:
        """Observe what was started in this process by its status; of two runs of a name, the newer one."""
        for status in started:
            name = status.view.pipeline
            known = self._pipelines.get(name)
            if known is None:
                self._pipelines[name] = BoardPipeline(name, StatusObserver(status))
            elif not (isinstance(known.observer, StatusObserver) and known.observer.status is status):
                known.observer.close()
                known.observer = StatusObserver(status)


class BoardPipeline:
    """What is known of one pipeline; whoever calls holds the board's lock.

    Args:
        name: the pipeline's.
        observer: looks at it.
    """

    def __init__(self, name: str, observer: Observer) -> None:
        self.name = name
        self.observer = observer
        self.is_busy = False
        #: When it is observed next, in seconds on the monotonic clock.
        self.due_s = 0.0
        self._last: Observation | None = None
        self._condition = (Condition.STARTING, "not observed yet")
        self._sample: Sample | None = None
        self._history = History()
        self._events: deque[Event] = deque(maxlen=_EVENTS_MAX)
        self._batches: deque[FinishedBatch] = deque(maxlen=RECENT_BATCHES_MAX)

    def add(self, found: Observation, limits: Limits) -> None:
        """Keep an observation, and what has happened since the one before."""
        before, condition = self._last, condition_of(found, limits)
        if before is not None:
            self._events.extend(events_between(before, found, (self._condition[0], condition[0])))
        self._condition = condition
        self._sample = _sample(found, before)
        self._history.add(self._sample)
        if found.batches:
            self._batches = deque(found.batches, maxlen=RECENT_BATCHES_MAX)
        elif found.error is None and _is_new_batch(found, before):
            self._batches.append(_batch(found, before))
        # What was known before is better than nothing, while Kafka or a store does not answer.
        if found.error is None or before is None:
            self._last = found

    def summary(self) -> dict[str, Any]:
        """A line on it."""
        found = self._last or Observation(at_ms=0)
        sample = self._sample
        return {
            "name": self.name,
            "condition": self._condition[0],
            "because": self._condition[1],
            "step": found.step,
            "batch_id": found.batch_id,
            "generation": found.generation,
            "committed_at_ms": found.committed_at_ms,
            "partitions": len(found.positions),
            "lag": found.lag(),
            "lag_seconds": found.lag_seconds(),
            "records_per_s": _or_none(sample.records_per_s) if sample else None,
            "rows_per_s": _or_none(sample.rows_per_s) if sample else None,
            "retries": found.retries,
            "dead_letters": found.dead_letters,
        }

    def whole(self) -> dict[str, Any]:
        """All of it."""
        positions = self._last.positions if self._last else ()
        furthest = sorted(positions, key=lambda position: (-(position.lag or 0), position.topic, position.partition))
        return {
            **self.summary(),
            "positions": [position.as_record() for position in furthest[:_PARTITIONS_SHOWN_MAX]],
            "history": self._history.columns(),
            "batches": [_record(batch) for batch in self._batches],
            "events": [
                {"at_ms": event.at_ms, "kind": event.kind, "text": event.text} for event in reversed(self._events)
            ],
        }


def _sample(found: Observation, before: Observation | None) -> Sample:
    lag, lag_seconds = found.lag(), found.lag_seconds()
    is_known = before is not None and before.error is None and found.error is None
    passed_s = (found.at_ms - before.at_ms) / 1000 if before else 0.0

    def rate(now: int, then: int) -> float:
        # A count that has gone back is that of a new process, or of a pipeline that was set back.
        return max(0, now - then) / passed_s if is_known and passed_s > 0 else _NAN

    return Sample(
        at_ms=found.at_ms,
        lag=_NAN if lag is None else lag,
        lag_seconds=_NAN if lag_seconds is None else lag_seconds,
        records_per_s=rate(found.records, before.records if before else 0),
        rows_per_s=rate(found.rows, before.rows if before else 0),
    )


def _is_new_batch(found: Observation, before: Observation | None) -> bool:
    return found.batch_id is not None and before is not None and before.batch_id != found.batch_id


def _batch(found: Observation, before: Observation | None) -> FinishedBatch:
    """The newest batch of a ledger, with what all batches since the last observation have read."""
    return FinishedBatch(
        batch_id=found.batch_id or 0,
        generation=found.generation or 0,
        committed_at_ms=found.committed_at_ms or found.at_ms,
        records=max(0, found.records - (before.records if before else 0)),
        rows=max(0, found.rows - (before.rows if before else 0)),
    )


def _record(batch: FinishedBatch) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in FinishedBatch.__dataclass_fields__}


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
