"""Status of the pipelines of this process: what each does now, and what it has done, for metrics, health and pages.

An engine tells its pipeline's :class:`PipelineStatus` what happens. Each time, the status makes a new
:class:`StatusView`: a value that any thread may read as a whole, without waiting for the engine.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.offsets import TopicPartition
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.progress import BatchReport
from directkafka.plain_text import message

#: Upper bounds of the buckets in which durations are counted, in seconds.
DURATION_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


#: Of how many batches, at most, a view has the times.
RECENT_BATCHES_MAX: Final = 100


class Step(StrEnum):
    """What a pipeline does now; the steps of a batch are those of ``docs/DESIGN.md``."""

    STARTING = "starting"
    WAITING = "waiting"
    PLAN = "plan"
    WRITE = "write"
    COMMIT = "commit"
    RETRYING = "retrying"
    PAUSED = "paused"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of durations.

    Attributes:
        counts: how many fell into each bucket of :data:`DURATION_BUCKETS_S`; the last one has no bound.
        total_s: the sum of all, in seconds.
    """

    counts: tuple[int, ...] = (0,) * (len(DURATION_BUCKETS_S) + 1)
    total_s: float = 0.0

    def observed(self, seconds: float) -> Histogram:
        """The same with one duration more."""
        bucket = bisect_left(DURATION_BUCKETS_S, seconds)
        counts = (*self.counts[:bucket], self.counts[bucket] + 1, *self.counts[bucket + 1 :])
        return Histogram(counts, self.total_s + seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedBatch:
    """A batch that is committed.

    Attributes:
        batch_id, generation: which; the generation is 0 for a query without a ledger.
        committed_at_ms: when, in milliseconds since 1970.
        records: records read, or offsets where Spark reads; None where that is not known.
        rows: rows in all tables; None likewise.
        batch_count: how many batches that are, with those before it that were not seen one by one.
        plan_ms, write_ms, commit_ms: how long the steps took, in milliseconds; None where that is not known.
    """

    batch_id: int
    generation: int
    committed_at_ms: int
    records: int | None
    rows: int | None
    batch_count: int = 1
    plan_ms: int | None = None
    write_ms: int | None = None
    commit_ms: int | None = None

    @classmethod
    def of(cls, report: BatchReport, *, committed_at_ms: int) -> FinishedBatch:
        """What a report says."""
        return cls(
            batch_id=report.batch_id,
            generation=report.generation,
            committed_at_ms=committed_at_ms,
            records=report.offsets if report.records is None else report.records,
            rows=sum(report.rows.values()),
            plan_ms=report.plan_ms,
            write_ms=report.write_ms,
            commit_ms=report.commit_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """What is known of a pipeline at one moment. Counts begin at 0 with the :class:`PipelineStatus`.

    Attributes:
        pipeline: its name.
        step: what it does.
        active_at_s: when it last showed activity (a step began, was tried again, or was polled while it waits), in
            seconds on the monotonic clock.
        generation: the one that the driver holds in the ledgers; None before the fence, and for a query that has no
            ledger.
        is_ready: whether this run has planned a batch, or its query waits for records.
        is_paused: whether it waits for ``directkafka resume``.
        is_retrying: whether a step has failed and has not succeeded since.
        batch_id: of the newest committed batch of this run.
        batch_count: committed batches.
        read: how much was read, by topic.
        row_counts: rows by store and table.
        dead_letter_count: how many of the rows in ``row_counts`` are dead letters.
        retry_counts: steps that were tried again, by the error's type.
        durations: of each step of a batch.
        committed_at_ms: when the newest batch was committed, in milliseconds since 1970.
        ends: the next offset to read, by partition.
        recent_batches: the last :data:`RECENT_BATCHES_MAX` batches, the newest last.
        failure: the error that ended the last run, as text that begins with its type.
    """

    pipeline: str
    step: Step = Step.ENDED
    active_at_s: float = 0.0
    generation: int | None = None
    is_ready: bool = False
    is_paused: bool = False
    is_retrying: bool = False
    batch_id: int | None = None
    batch_count: int = 0
    read: Mapping[str, ReadCount] = field(default_factory=dict)
    row_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    dead_letter_count: int = 0
    retry_counts: Mapping[str, int] = field(default_factory=dict)
    durations: Mapping[str, Histogram] = field(default_factory=dict)
    committed_at_ms: int | None = None
    ends: Mapping[TopicPartition, int] | None = None
    recent_batches: tuple[FinishedBatch, ...] = ()
    failure: str | None = None

    @property
    def failure_type(self) -> str | None:
        """The type of what ended the last run. Its text may hold values of records, and is for the log alone."""
        return None if self.failure is None else self.failure.partition(":")[0]


class StatusListener(Protocol):
    """Hears what pipelines tell, in the thread of their engines: it must return at once, and must not raise."""

    def on_committed(self, status: PipelineStatus, report: BatchReport) -> None:
        """A batch is committed in all stores."""

    def on_failed(self, status: PipelineStatus, step: Step, error: str) -> None:
        """A step has failed; ``error`` is the type of the error."""

    def on_ended(self, status: PipelineStatus) -> None:
        """The run is over, well or not."""


class PipelineStatus:
    """What one pipeline's engine tells; any thread may look.

    Args:
        pipeline: its name.
        sources: the Kafka sources that it reads; empty if only Spark knows them.
        routes: where its rows go; empty for a query.
        checkpoint: Spark's, under the structured engine.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        pipeline: str,
        sources: Sequence[SourceOptions] = (),
        routes: Sequence[Route] = (),
        *,
        checkpoint: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sources = tuple(sources)
        self.routes = tuple(routes)
        self.checkpoint = checkpoint
        #: Spark's id of the query that the pipeline runs as; None where it runs as none, and before its first batch.
        self.query_id: str | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._view = StatusView(pipeline=pipeline, active_at_s=clock())
        #: The step to go back to when a retry succeeds.
        self._step_before: Step | None = None

    @property
    def view(self) -> StatusView:
        """What is known now."""
        return self._view

    def idle_s(self) -> float:
        """Seconds since it last showed activity; see :attr:`StatusView.active_at_s`."""
        return self._clock() - self._view.active_at_s

    def started(self, *, publish: bool = True) -> None:
        """A run begins.

        Args:
            publish: whether :func:`started_pipelines` has this status from now on, in place of another of its name.
        """
        if publish:
            _publish(self)
        self._step_before = None
        self._update(
            step=Step.STARTING, generation=None, is_ready=False, is_paused=False, is_retrying=False, batch_id=None,
            ends=None, failure=None,
        )  # fmt: skip

    @contextmanager
    def of_run(self) -> Iterator[None]:
        """A run, from its start to its end, and what ended it."""
        self.started()
        try:
            yield
        except BaseException as error:
            self.ended(error)
            raise
        self.ended()

    def at(self, step: Step) -> None:
        """A step begins."""
        self._update(step=step, is_paused=step is Step.PAUSED)

    def moved(self, before: Step, step: Step) -> None:
        """Change the step from ``before`` to ``step``; do nothing if another thread has changed it already."""
        with self._lock:
            if self._view.step is before:
                self._view = replace(self._view, active_at_s=self._clock(), step=step)

    def set_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Set the next offset to read of each partition, as the ledgers have it."""
        with self._lock:
            self._view = replace(self._view, ends=dict(ends))

    def fenced(self, generation: int) -> None:
        """All stores are held."""
        self._update(generation=generation)

    def ready(self, ends: Mapping[TopicPartition, int] | None = None) -> None:
        """A batch is planned, or the query waits for records; ``ends`` are the next offsets to read, if given."""
        self._update(is_ready=True, **({} if ends is None else {"ends": dict(ends)}))

    def retried(self, error: BaseException) -> None:
        """A step failed, and will be tried again."""
        name, step = type(error).__name__, self._failing_step()
        for listener in tuple(listeners):
            listener.on_failed(self, step, name)
        counts = self._view.retry_counts
        self._step_before = step
        self._update(step=Step.RETRYING, is_retrying=True, retry_counts={**counts, name: counts.get(name, 0) + 1})

    def recovered(self) -> None:
        """A step that had failed came through."""
        before, self._step_before = self._step_before, None
        step = before if before is not None and self._view.step is Step.RETRYING else self._view.step
        self._update(step=step, is_retrying=False)

    def committed(self, report: BatchReport, ends: Mapping[TopicPartition, int]) -> None:
        """A batch is committed in all stores.

        Args:
            report: of the batch.
            ends: the next offset to read, by partition.
        """
        view = self._view
        rows = dict(view.row_counts)
        for table in report.tables:
            rows[table.store, table.table] = rows.get((table.store, table.table), 0) + table.row_count
        read = dict(view.read)
        for topic, count in _read_by_topic(report):
            total = read.get(topic, ReadCount())
            read[topic] = ReadCount(total.record_count + count.record_count, total.byte_count + count.byte_count)
        dead_letters = sum(table.row_count for table in report.tables if table.is_of_dead_letters)
        durations = {
            step: view.durations.get(step, Histogram()).observed(lap_ms / 1000)
            for step, lap_ms in (("plan", report.plan_ms), ("write", report.write_ms), ("commit", report.commit_ms))
        }
        committed_at_ms = int(time.time() * 1000)
        batch = FinishedBatch.of(report, committed_at_ms=committed_at_ms)
        self._update(
            step=Step.WAITING,
            is_ready=True,
            is_retrying=False,
            generation=report.generation or None,
            batch_id=report.batch_id,
            batch_count=view.batch_count + 1,
            read=read,
            row_counts=rows,
            dead_letter_count=view.dead_letter_count + dead_letters,
            durations=durations,
            committed_at_ms=committed_at_ms,
            ends=dict(ends),
            recent_batches=(*view.recent_batches[1 - RECENT_BATCHES_MAX :], batch),
        )
        for listener in tuple(listeners):
            listener.on_committed(self, report)

    def ended(self, failure: BaseException | str | None = None) -> None:
        """The run is over.

        Args:
            failure: what ended it, if that was an error; as text, it begins with its type.
        """
        text = failure if isinstance(failure, str | None) else f"{type(failure).__name__}: {failure}"
        if text is not None:
            for listener in tuple(listeners):
                listener.on_failed(self, self._failing_step(), text.partition(":")[0])
        self._update(
            step=Step.ENDED,
            is_ready=False,
            is_paused=False,
            is_retrying=False,
            failure=None if text is None else message(text),
        )
        for listener in tuple(listeners):
            listener.on_ended(self)

    def _failing_step(self) -> Step:
        """The step under way. While it waits for its next try, the view says that it is tried again, and not which."""
        step = self._view.step
        return self._step_before or step if step is Step.RETRYING else step

    def _update(self, **changes: Any) -> None:
        with self._lock:
            self._view = replace(self._view, active_at_s=self._clock(), **changes)


#: Those who hear of all pipelines of this process.
listeners: Final[list[StatusListener]] = []

_lock = threading.Lock()
#: The status of each pipeline that was started in this process, by its name; of two of one name, the newest.
_started: dict[str, PipelineStatus] = {}


def _publish(status: PipelineStatus) -> None:
    with _lock:
        _started[status.view.pipeline] = status


def publish_if_free(status: PipelineStatus) -> PipelineStatus:
    """Publish a status unless another one has its name.

    Returns:
        The one that has the name now.
    """
    with _lock:
        return _started.setdefault(status.view.pipeline, status)


def started_pipelines() -> tuple[PipelineStatus, ...]:
    """The status of each pipeline that was started in this process, running or not, and of each query, by name."""
    with _lock:
        return tuple(_started[name] for name in sorted(_started))


def _read_by_topic(report: BatchReport) -> Iterator[tuple[str, ReadCount]]:
    """Records and bytes of a batch by topic. Where Spark reads, offsets stand for records, and bytes are not known."""
    if report.records is not None:
        yield from report.read.items()
        return
    for offset_range in report.ranges:
        yield offset_range.topic, ReadCount(record_count=offset_range.count())
