"""Views of a pipeline for a notebook: what it does as a table, and its batches as they are committed."""

from __future__ import annotations

import queue
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from directkafka.html_table import html_table
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.status import PipelineStatus, Step, listeners

#: How often a loop without news looks whether the run is over, in seconds.
_LOOKED_EVERY_S: Final = 1.0

#: Reports that wait for a slow reader; of more, the oldest are left out.
_WAITING_MAX: Final = 1_000


class NotebookViews:
    """What :class:`~directkafka.pipeline.pipeline.Pipeline` has for notebooks."""

    status: PipelineStatus
    #: Held while it runs.
    _run_lock: threading.Lock
    #: The thread of ``start()``.
    _thread: threading.Thread | None

    @property
    def is_running(self) -> bool:
        """Whether it runs in this process."""
        return self._run_lock.locked() or (self._thread is not None and self._thread.is_alive())

    @abstractmethod
    def wait(self) -> None:
        """Wait until it ends, and raise what it died of."""

    def progress(self) -> Iterator[BatchReport]:
        """The batches that are committed from now on, each when all stores have it, until the run ends.

        ::

            pipeline.start()
            for batch in pipeline.progress():
                print(batch.batch_id, batch.rows)

        A loop that is slower than the pipeline does not hold it up: it misses the oldest reports. To leave the loop
        does not stop the pipeline.

        Raises:
            DirectKafkaError: what ended the run, as :meth:`Pipeline.wait` does; after :meth:`Pipeline.start` only.
        """
        # Before the first report is asked for: the loop may begin later.
        listener = _Listener(self.status)
        listeners.append(listener)
        return self._reports(listener)

    def _reports(self, listener: _Listener) -> Iterator[BatchReport]:
        try:
            while True:
                # The run may have ended between the two, or before: then nobody says that it ends.
                is_over = not self._is_under_way()
                report = listener.next(wait_s=0.0 if is_over else _LOOKED_EVERY_S)
                if report is not None:
                    yield report
                elif is_over:
                    break
        finally:
            listeners.remove(listener)
        self.wait()

    def _is_under_way(self) -> bool:
        """Whether there is a run, or one that begins; a replay is none."""
        is_started = self._thread is not None and self._thread.is_alive()
        return is_started or self.status.view.step is not Step.ENDED

    def _repr_html_(self) -> str:
        view = self.status.view
        committed = (
            None
            if view.committed_at_ms is None
            else datetime.fromtimestamp(view.committed_at_ms / 1000, UTC).isoformat(timespec="seconds")
        )
        known = {
            "step": str(view.step),
            "generation": view.generation,
            "batch": view.batch_id,
            "committed at": committed,
            "batches of this process": view.batch_count,
            "records read": sum(count.record_count for count in view.read.values()),
            **{f"rows in {table}": count for (_, table), count in view.row_counts.items()},
            "steps tried again": sum(view.retry_counts.values()),
            "ended by": view.failure_type,
        }
        return html_table(f"Pipeline {view.pipeline}", ("", ""), known.items())


class _Listener:
    """Keeps what one pipeline tells, for who asks for it."""

    def __init__(self, status: PipelineStatus) -> None:
        self._status = status
        self._reports: queue.Queue[BatchReport | None] = queue.Queue(_WAITING_MAX)

    def next(self, *, wait_s: float) -> BatchReport | None:
        """The next report; None if there is none in that time, or the run is over."""
        with suppress(queue.Empty):
            return self._reports.get(timeout=wait_s) if wait_s else self._reports.get_nowait()
        return None

    def on_committed(self, status: PipelineStatus, report: BatchReport) -> None:
        """See :class:`~directkafka.pipeline.status.StatusListener`."""
        if status is self._status:
            self._put(report)

    def on_failed(self, status: PipelineStatus, step: Step, error: str) -> None:
        """See :class:`~directkafka.pipeline.status.StatusListener`."""

    def on_ended(self, status: PipelineStatus) -> None:
        """See :class:`~directkafka.pipeline.status.StatusListener`."""
        if status is self._status:
            self._put(None)

    def _put(self, report: BatchReport | None) -> None:
        # Only the engine's thread puts, so there is room again after one was taken out.
        if self._reports.full():
            with suppress(queue.Empty):
                self._reports.get_nowait()
        self._reports.put(report)
