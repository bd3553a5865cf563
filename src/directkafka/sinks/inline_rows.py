"""Few rows of a task go to the driver inside its report, many somewhere else: which they are is seen as they come."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from directkafka.sinks.api import TaskReport

__all__ = ["hold", "report_held"]

Few = tuple[pa.RecordBatch, ...]


def hold(batches: Iterable[pa.RecordBatch], *, bytes_max: int) -> Few | Iterator[pa.RecordBatch]:
    """All batches that have rows, if they are few; else an iterator over them, held and coming.

    Args:
        batches: of one task.
        bytes_max: up to so many bytes of Arrow data are few.

    Returns:
        A tuple, or an iterator that lets go of each batch when the next one is asked for.
    """
    coming = (batch for batch in batches if batch.num_rows)
    held: deque[pa.RecordBatch] = deque()
    held_bytes = 0
    for batch in coming:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes > bytes_max:
            return _drain(held, coming)
    return tuple(held)


def report_held(few: Few, *, rows: int | None = None) -> TaskReport:
    """The report of a task that hands its rows over.

    Args:
        few: the rows.
        rows: how many they were before they were folded, if they were.
    """
    count = sum(batch.num_rows for batch in few) if rows is None else rows
    return TaskReport(rows=count, attempt=uuid.uuid4().hex, staged=False, held=few)


def _drain(held: deque[pa.RecordBatch], coming: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while held:
        yield held.popleft()
    yield from coming
