"""Memory of a native pipeline: how the peaks of its processes grow with the size of a batch."""

from __future__ import annotations

import os
from typing import Any, Final

from figures import Figure, console, told
from json_flights import flights
from json_rows import TOPIC, native
from peaks import forget_peaks, peak_mb, release_unused, workers_peak_mb
from peers import Table
from publish import publish_values

__all__ = ["memory"]

_PARTITIONS: Final = 2
_WORKER_MB_MAX: Final = 350.0
_DRIVER_MB_MAX: Final = 150.0


def memory(_spark: Any, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """JSON into ten columns of Postgres in batches of a tenth of the rows, of all of them, and of three times as many.

    Args:
        rows: of a middle batch.
        repeat: not used: a peak is one.
    """
    count = 3 * rows
    topic = f"{TOPIC}-memory"
    console.print(f"publishing {count:,} records of JSON")
    publish_values(servers, topic, flights(count), partitions=_PARTITIONS)
    table = Table(dsn, rows=count)
    workers_mb, driver_mb = {}, {}
    release_unused()
    forget_peaks()
    held_mb = peak_mb(os.getpid())
    for batch in (rows // 10, rows, count):
        table.make("native")
        forget_peaks()
        native(servers, topic, dsn, batch=batch)
        workers_mb[batch], driver_mb[batch] = workers_peak_mb(), peak_mb(os.getpid()) - held_mb
        table.check("native")
    return [
        _figure("peak resident size of a Python worker", workers_mb, _WORKER_MB_MAX),
        _figure("what the resident size of the driver's Python process grows by", driver_mb, _DRIVER_MB_MAX),
    ]


def _figure(what: str, peaks_mb: dict[int, float], at_most_mb: float) -> Figure:
    detail = ", ".join(f"batches of {batch:,}: {peak:.0f} MB" for batch, peak in peaks_mb.items())
    name = f"{what}, JSON to Postgres, native"
    return told(
        Figure(name=name, value=max(peaks_mb.values()), unit="MB", required=at_most_mb, at_most=True, detail=detail)
    )
