"""The tasks of a second phase, on executors: one finds where rows go, the other writes those of its share.

Executors import this module without ``pyspark.sql``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from directkafka.arrow_columns import column_of
from directkafka.errors.transport import Notes
from directkafka.row_chunks import CHUNK, chunks_by_share, rows_of_chunks
from directkafka.sinks.api import TARGET, SecondPhase, TaskReport, TaskWriter

#: The column of the number of the writer that a chunk is for.
SHARE: Final = "share"


class RouteTask:
    """A function for ``mapInArrow``: finds each row's target, and gives the rows of each writer's share as chunks.

    Args:
        phase: the sink's second phase.
        is_claimed: whether an attempt must claim the routing of its rows, before any writer may fetch them.
        is_of_chunks: whether the rows come as chunks.
    """

    def __init__(self, phase: SecondPhase, *, is_claimed: bool, is_of_chunks: bool = False) -> None:
        self._router = phase.router
        self._writer_count = phase.writer_count
        self._claim = phase.claim_routing if is_claimed else _claim_nothing
        self._is_of_chunks = is_of_chunks
        self._notes = Notes.of_this_process()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Errors of ours keep their fields on the way to the driver."""
        with self._notes.signing():
            for batch in self._router(rows_of_chunks(batches) if self._is_of_chunks else batches):
                share_of = np.asarray(batch.column(TARGET)) % self._writer_count
                for share, chunk in chunks_by_share(batch, share_of, self._writer_count):
                    columns = [column_of([share], pa.int32()), column_of([chunk], pa.binary())]
                    yield pa.RecordBatch.from_arrays(columns, [SHARE, CHUNK])
            # Spark takes the task's output when this has returned.
            self._claim(_partition())


@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """A writer of rows that come as chunks; picklable.

    Attributes:
        inner: writes the rows.
    """

    inner: TaskWriter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's chunks."""
        return self.inner(rows_of_chunks(batches))


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None, "it runs in a task"
    return context.partitionId()


def _claim_nothing(partition: int) -> None:
    """Every attempt may be the one that counts."""
