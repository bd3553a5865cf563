"""Processor time by kind of process, of all that a benchmark has started (proc(5): ``utime``, ``stime`` and those of
children that have ended).
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import Final

import psutil

__all__ = ["BROKER", "DRIVER", "JVM", "POSTGRES", "WORKERS", "processor_seconds"]

DRIVER: Final = "the driver's Python process"
WORKERS: Final = "Spark's Python workers"
JVM: Final = "Spark's JVM"
BROKER: Final = "Kafka's broker"
POSTGRES: Final = "Postgres"


def processor_seconds() -> Counter[str]:
    """Seconds of processor time so far, of this process and all below it, by kind.

    The difference of two calls is what was used between them: a worker or a backend that ends meanwhile is counted by
    the process that waits for it.
    """
    seconds: Counter[str] = Counter()
    for process in (own := psutil.Process(os.getpid()), *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            kind, times = _kind(process), process.cpu_times()
            seconds[kind] += times.user + times.system
            if kind in (WORKERS, POSTGRES):
                seconds[kind] += times.children_user + times.children_system
    return seconds


def _kind(process: psutil.Process) -> str:
    if process.pid == os.getpid():
        return DRIVER
    name = process.name()
    if name.startswith("postgres"):
        return POSTGRES
    if name.startswith("java"):
        return BROKER if "kafka.Kafka" in process.cmdline() else JVM
    return WORKERS if name.startswith("python") else name
