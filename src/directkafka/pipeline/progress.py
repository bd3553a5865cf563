"""Reports of committed batches to the outside, and how long their steps took."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.offsets import OffsetRange

log = logging.getLogger("directkafka.pipeline")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """Rows of a batch in one table.

    Attributes:
        store, table: identity of the store, and name of the sink.
        row_count: rows.
        is_of_dead_letters: whether the table is that of rejected records.
    """

    store: str
    table: str
    row_count: int
    is_of_dead_letters: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """One committed batch.

    Attributes:
        pipeline, generation, batch_id: which.
        offsets: number of offsets in its ranges.
        records: number of records read; fewer than offsets where the log has gaps. None under the structured engine,
            where Spark reads.
        rows: rows written, by sink name.
        backlog: offsets that were waiting behind the batch when it was planned; None where Spark plans.
        plan_ms, write_ms, commit_ms: how long the driver was busy with the steps, in milliseconds; of a batch that
            began while the one before was committed, what was left to wait for.
        ranges: what was read.
        read: how much of each topic; empty under the structured engine.
        tables: rows by store and table.
    """

    pipeline: str
    generation: int
    batch_id: int
    offsets: int
    records: int | None
    rows: Mapping[str, int]
    backlog: int | None
    plan_ms: int
    write_ms: int
    commit_ms: int
    ranges: tuple[OffsetRange, ...] = ()
    read: Mapping[str, ReadCount] = field(default_factory=dict)
    tables: tuple[TableRows, ...] = ()

    def as_record(self) -> dict[str, Any]:
        """For printing: numbers by name, without ranges and tables."""
        return {name: getattr(self, name) for name in _PRINTED} | {"rows": dict(self.rows)}

    @property
    def total_ms(self) -> int:
        """Duration of the whole batch, in milliseconds."""
        return self.plan_ms + self.write_ms + self.commit_ms


_PRINTED: Final = (
    "pipeline", "generation", "batch_id", "offsets", "records", "rows", "backlog", "plan_ms", "write_ms", "commit_ms"
)  # fmt: skip

Reporter = Callable[[BatchReport], None]


def log_report(report: BatchReport) -> None:
    """One line a batch at INFO."""
    rows = ", ".join(f"{sink} {count:,}" for sink, count in report.rows.items())
    read = f"{report.offsets:,} offsets" if report.records is None else f"{report.records:,} records"
    waiting = "" if report.backlog is None else f", {report.backlog:,} offsets waiting"
    log.info(
        "%s batch %d: %s -> %s rows in %d ms (plan %d, write %d, commit %d)%s",
        report.pipeline,
        report.batch_id,
        read,
        rows or "no",
        report.total_ms,
        report.plan_ms,
        report.write_ms,
        report.commit_ms,
        waiting,
        extra={"batch": report.batch_id, "generation": report.generation, "ranges": report.ranges},
    )


class Stopwatch:
    """What the steps of a batch take. Begins when it is made.

    Args:
        clock: seconds on a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_s = clock()
        #: Milliseconds of each step that has ended, by its name.
        self.laps_ms: dict[str, int] = {}

    def lap(self, step: str) -> None:
        """The step has ended that began with the last call, or when this was made."""
        before_s, self._last_s = self._last_s, self._clock()
        self.laps_ms[step] = round((self._last_s - before_s) * 1000)
