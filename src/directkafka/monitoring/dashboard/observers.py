"""Observers of pipelines: one looks at a pipeline of this process, the other at the ledgers of one that runs elsewhere.

Neither changes anything or fences anybody, and neither waits for the pipeline.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from directkafka.errors import DirectKafkaError, StoreAccessError
from directkafka.monitoring.dashboard.conditions import Observation
from directkafka.monitoring.lag import LagReader
from directkafka.operations.offsets import look_at_pipeline
from directkafka.operations.target import Target, target_of_file
from directkafka.pipeline.ledger.pause import paused_at_ms
from directkafka.pipeline.status import PipelineStatus
from directkafka.plain_text import one_line
from directkafka.sinks.api import LedgerEntry, Sink, Store
from directkafka.sinks.ledger import row_count

log = logging.getLogger("directkafka.monitoring")

#: How long an observer waits for Kafka, in seconds; it shows the lag of before if there is no answer.
_LAG_TIMEOUT_S: Final = 3.0


class Observer(Protocol):
    """Says what a pipeline is like now."""

    def observe(self) -> Observation:
        """The pipeline as of now; ``error`` says why nothing else is known."""

    def close(self) -> None:
        """Give back what it holds."""


class StatusObserver:
    """Observes a pipeline of this process.

    Args:
        status: the pipeline's.
    """

    def __init__(self, status: PipelineStatus) -> None:
        self.status = status
        self._lag = LagReader(status)

    def observe(self) -> Observation:
        """See :class:`Observer`."""
        self._lag.begin()
        views = self._lag.finish(_LAG_TIMEOUT_S)
        view, now_s = self.status.view, time.monotonic()
        return Observation(
            at_ms=_now_ms(),
            positions=tuple(position for each in views for position in each.aged(now_s)),
            batch_id=view.batch_id,
            generation=view.generation,
            committed_at_ms=view.committed_at_ms,
            records=sum(count.record_count for count in view.read.values()),
            rows=sum(view.row_counts.values()),
            dead_letters=view.dead_letter_count,
            is_paused=view.is_paused,
            step=view.step,
            step_s=self.status.idle_s(),
            failure=view.failure_type,
            retries=sum(view.retry_counts.values()),
            batches=view.recent_batches,
        )

    def close(self) -> None:
        """Nothing is held."""


class LedgerObserver:
    """Observes the pipeline of a file, wherever it runs: by its ledgers, and by Kafka.

    Args:
        name: the pipeline's.
        file: the pipeline file. It is read again when it has changed, and after a failure.
    """

    def __init__(self, name: str, file: Path) -> None:
        self._name = name
        self._file = file
        self._held = ExitStack()
        self._target: Target | None = None
        self._changed_at = 0

    def observe(self) -> Observation:
        """See :class:`Observer`."""
        try:
            changed_at = self._file.stat().st_mtime_ns if self._file.exists() else 0
            if self._target is None or changed_at != self._changed_at:
                self.close()
                self._target = self._held.enter_context(target_of_file(self._file, expected=self._name))
                self._changed_at = changed_at
            return _observation(self._target)
        except DirectKafkaError as error:
            self.close()
            return Observation(at_ms=_now_ms(), error=one_line(f"{type(error).__name__}: {error}"))

    def close(self) -> None:
        """Close the stores."""
        self._target = None
        self._held.close()


def _observation(target: Target) -> Observation:
    stores = target.unique_stores()
    snapshot = look_at_pipeline(target.pipeline, target.source, stores)
    newest = max(snapshot.entries, key=lambda entry: entry.batch_id, default=None)
    return Observation(
        at_ms=_now_ms(),
        positions=snapshot.positions,
        batch_id=newest.batch_id if newest else None,
        generation=newest.generation if newest else None,
        committed_at_ms=newest.committed_at_ms if newest else None,
        lineage=newest.lineage if newest else None,
        rows=sum(row_count(entry.total_rows) for entry in snapshot.entries),
        dead_letters=_dead_letters(snapshot.entries, target.dead_letter_sink),
        is_paused=_is_paused(target.pipeline, stores[0]),
    )


def _is_paused(pipeline: str, store: Store) -> bool:
    try:
        return paused_at_ms(store, pipeline) is not None
    except StoreAccessError:
        # In Kafka a pause is a topic. Without rights on it the pipeline cannot be paused either.
        return False


def _dead_letters(entries: Sequence[LedgerEntry], sink: Sink | None) -> int | None:
    if sink is None:
        return None
    return max((entry.total_rows.get(sink.name, 0) for entry in entries), default=0)


def _now_ms() -> int:
    return int(time.time() * 1000)
