"""Peaks of resident memory of this process and of Spark's Python workers below it (proc(5): ``VmHWM``)."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa

__all__ = ["forget_peaks", "peak_mb", "release_unused", "workers_peak_mb"]


def release_unused() -> None:
    """Give the system what this process's allocators keep, so that what it needs next shows as growth."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)


def forget_peaks() -> None:
    """Let the peaks of this process and of its Python workers begin anew (proc(5), ``clear_refs``)."""
    for pid in (os.getpid(), *_python_children()):
        with suppress(FileNotFoundError, ProcessLookupError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def workers_peak_mb() -> float:
    """The largest of the resident sizes that Spark's Python workers of this process have reached.

    Raises:
        RuntimeError: none of them runs any more.
    """
    peaks_mb = [peak for pid in _python_children() if (peak := peak_mb(pid))]
    if not peaks_mb:
        raise RuntimeError("no Python worker is left whose memory could be measured")
    return max(peaks_mb)


def _python_children() -> list[int]:
    process_ids = []
    for child in psutil.Process(os.getpid()).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name().startswith("python"):
                process_ids.append(child.pid)
    return process_ids


def peak_mb(pid: int) -> float:
    """A process's ``VmHWM``; 0 when it has ended."""
    try:
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(lines.get("VmHWM", "0").split()[0]) / 1024
