"""Board of the pipelines that the page shows: threads observe them, and the board keeps the results.

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
    records_between,
    rows_between,
)
from directkafka.monitoring.dashboard.history import History, Sample
from directkafka.monitoring.dashboard.observers import LedgerObserver, Observer, StatusObserver
from directkafka.pipeline.status import RECENT_BATCHES_MAX, FinishedBatch, PipelineStatus, started_pipelines

log = logging.getLogger("directkafka.monitoring")

#: How often a pipeline is observed unless it is said otherwise, in seconds.
OBSERVED_EVERY_S: Final = 5.0
#: The same while nobody looks at the page: a history is kept, and Kafka is asked less.
_UNWATCHED_EVERY_S: Final = 30.0
#: After the last request the page counts as watched for this long, in seconds.
_WATCHED_FOR_S: Final = 60.0
#: If no observation comes for this many seconds after the next one was due, Kafka or a store does not answer.
_SLOW_LOOK_S: Final = 15.0
_THREADS_MAX: Final = 16
_EVENTS_MAX: Final = 100
#: Partitions of one pipeline that the page is told of, those with the most unread records.
_PARTITIONS_SHOWN_MAX: Final = 1_000
_NAN: Final = float("nan")


class Board:
    """Observes pipelines from threads until it is closed.

    Args:
        files: pipeline files by the pipelines' names; they are observed by their ledgers. All pipelines that are
            started in this process are observed as well.
        limits: the time limits that decide a pipeline's condition.
        every_s: how often each is observed, in seconds.
    """

    def __init__(self, files: Mapping[str, Path], *, limits: Limits, every_s: float = OBSERVED_EVERY_S) -> None:
        self._limits = limits
        self._every_s = every_s
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._pipelines = {name: BoardPipeline(name, LedgerObserver(name, file)) for name, file in files.items()}
        self._version = 0
        self._requested_s = time.monotonic()
        self._threads = [
            threading.Thread(target=self._run, name=f"dashboard {number}", daemon=True)
            # One for each pipeline, as far as that is sensible: a store that hangs holds one up.
            for number in range(min(_THREADS_MAX, max(1, len(files))))
        ]

    def start(self) -> None:
        """Begin to observe."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Tell the threads to end, and close the observers that are idle.

        A thread that waits for an answer closes its observer when the answer comes, and ends.
        """
        self._ended.set()
        with self._lock:
            idle = [each for each in self._pipelines.values() if not each.is_busy]
            for each in idle:
                each.is_busy = True
        for each in idle:
            each.observer.close()

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
            self._note_request()
            summaries = [self._pipelines[name].summary() for name in sorted(self._pipelines)]
        return json.dumps({"pipelines": summaries}).encode()

    def pipeline(self, name: str) -> dict[str, Any] | None:
        """All that is known of a pipeline, for JSON; None if there is none of this name."""
        with self._lock:
            self._note_request()
            pipeline = self._pipelines.get(name)
            return None if pipeline is None else pipeline.whole()

    def _note_request(self) -> None:
        """Note that somebody looks at the page. If nobody did for a while, observe all pipelines at once."""
        now_s = time.monotonic()
        if now_s - self._requested_s > _WATCHED_FOR_S:
            for pipeline in self._pipelines.values():
                pipeline.due_s = 0.0
        self._requested_s = now_s

    def _run(self) -> None:
        while not self._ended.is_set():
            taken, wait_s = self._take()
            if taken is None:
                self._ended.wait(wait_s)
                continue
            try:
                observation = taken.observer.observe()
            except Exception:
                log.warning("%s could not be observed", taken.name, exc_info=True)
                observation = Observation(
                    at_ms=int(time.time() * 1000), error="it could not be observed; the log says more"
                )
            with self._lock:
                taken.add(observation, self._limits)
                taken.is_busy = self._ended.is_set()
                self._version += 1
            if taken.is_busy:
                taken.observer.close()

    def _take(self) -> tuple[BoardPipeline | None, float]:
        """A pipeline that is due, marked as busy; or how long to wait for one, in seconds."""
        started, now_s = started_pipelines(), time.monotonic()
        with self._lock:
            self._adopt(started)
            free = [each for each in self._pipelines.values() if not each.is_busy]
            first = min(free, key=lambda each: each.due_s, default=None)
            if first is None or first.due_s > now_s:
                return None, min(1.0, first.due_s - now_s if first else 1.0)
            every_s = self._every_s
            if now_s - self._requested_s > _WATCHED_FOR_S:
                every_s = max(every_s, _UNWATCHED_EVERY_S)
            first.is_busy, first.due_s = True, now_s + every_s
            first.set_interval(every_s)
            return first, 0.0

    def _adopt(self, started: Iterable[PipelineStatus]) -> None:
        """Observe each pipeline of this process through its status. Of two runs of one name, observe the newer one."""
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
        self._count = 0
        #: When it was observed last, in milliseconds since 1970, and how long that may be ago.
        self._observed_at_ms = 0
        self._old_after_ms = math.inf

    def set_interval(self, every_s: float) -> None:
        """Say how often it is observed, in seconds; what is much older than that counts as unknown."""
        self._old_after_ms = 1000 * max(3 * every_s, every_s + _SLOW_LOOK_S)

    def add(self, observation: Observation, limits: Limits) -> None:
        """Keep an observation, and what has happened since the one before."""
        before, condition = self._last, condition_of(observation, limits)
        if before is not None:
            self._events.extend(events_between(before, observation, (self._condition[0], condition[0])))
        self._condition = condition
        self._observed_at_ms = observation.at_ms
        self._sample = _sample(observation, before)
        self._history.add(self._sample)
        if observation.batches:
            self._batches = deque(observation.batches, maxlen=RECENT_BATCHES_MAX)
        elif observation.error is None and (batch := _merged_batch_since(observation, before)) is not None:
            self._batches.append(batch)
        self._count += 1
        # What was known before is better than nothing, while Kafka or a store does not answer.
        if observation.error is None or before is None:
            self._last = observation

    def summary(self) -> dict[str, Any]:
        """A line on it."""
        observation = self._last or Observation(at_ms=0)
        sample = self._sample
        condition, because = self._condition
        unobserved_ms = time.time() * 1000 - self._observed_at_ms
        if self._observed_at_ms and unobserved_ms > self._old_after_ms:
            condition = Condition.UNKNOWN
            because = f"it could not be observed for {unobserved_ms / 1000:,.0f} s: Kafka or a store does not answer"
        return {
            "name": self.name,
            "observed": self._count,
            "condition": condition,
            "because": because,
            "step": observation.step,
            "batch_id": observation.batch_id,
            "generation": observation.generation,
            "committed_at_ms": observation.committed_at_ms,
            "partitions": len(observation.positions),
            "lag": observation.lag(),
            "lag_seconds": observation.lag_seconds(),
            "records_per_s": _or_none(sample.records_per_s) if sample else None,
            "rows_per_s": _or_none(sample.rows_per_s) if sample else None,
            "retries": observation.retries,
            "dead_letters": observation.dead_letters,
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


def _sample(observation: Observation, before: Observation | None) -> Sample:
    lag, lag_seconds = observation.lag(), observation.lag_seconds()
    passed_s = (observation.at_ms - before.at_ms) / 1000 if before else 0.0

    def rate(count: int | None) -> float:
        return count / passed_s if count is not None and passed_s > 0 else _NAN

    return Sample(
        at_ms=observation.at_ms,
        lag=_NAN if lag is None else lag,
        lag_seconds=_NAN if lag_seconds is None else lag_seconds,
        records_per_s=rate(records_between(before, observation) if before else None),
        rows_per_s=rate(rows_between(before, observation) if before else None),
    )


def _merged_batch_since(observation: Observation, before: Observation | None) -> FinishedBatch | None:
    """The batches of a ledger that were committed since the last observation, as one; None without any."""
    if (
        before is None
        or before.error is not None
        or observation.batch_id is None
        or observation.batch_id == before.batch_id
    ):
        return None
    is_same = observation.lineage == before.lineage and before.batch_id is not None
    return FinishedBatch(
        batch_id=observation.batch_id,
        batch_count=max(1, observation.batch_id - (before.batch_id or 0)) if is_same else 1,
        generation=observation.generation or 0,
        committed_at_ms=observation.committed_at_ms or observation.at_ms,
        records=records_between(before, observation),
        rows=rows_between(before, observation),
    )


def _record(batch: FinishedBatch) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in FinishedBatch.__dataclass_fields__}


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
