"""Spark's Python workers: what garbage collection costs between two tasks, how to avoid that, and where log lines go.

Spark reuses its Python workers, and runs ``gc.collect()`` in a worker after every task (``pyspark/daemon.py``), while
the next task may already wait for the worker. With pyarrow and numba imported, that costs 50 to 120 ms a task, more
than reading 10,000 records. Modules never become garbage: once they are frozen (``gc.freeze``), they cost nothing.
"""

from __future__ import annotations

import gc
import logging
import os
import sys

from directkafka.plain_text import PlainFormatter

#: Environment variable for the level of this library's log lines, such as ``INFO``, in workers without logging set up.
LOG_LEVEL = "DIRECTKAFKA_LOG_LEVEL"

_frozen_for: set[str] = set()


def is_python_worker() -> bool:
    """Whether this process is one that Spark's daemon forked to run tasks."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"


def freeze_imports(part: str) -> None:
    """Take all that is imported by now out of garbage collection, and set up logging; once for each ``part``.

    Outside of a Python worker nothing is done: a user's own process is not ours to tune.

    Args:
        part: the part that has just been imported, for example ``read``.
    """
    if part in _frozen_for or not is_python_worker():
        return
    _frozen_for.add(part)
    log_to_stderr()
    gc.collect()
    gc.freeze()


def log_to_stderr() -> None:
    """Send this library's log lines to stderr, which Spark prints, unless logging is set up already.

    For processes that Spark starts. Python by itself prints warnings and errors without time and name, and no other
    lines.
    """
    ours = logging.getLogger("directkafka")
    if ours.hasHandlers():
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter())
    ours.addHandler(handler)
    level = logging.getLevelNamesMapping().get(os.environ.get(LOG_LEVEL, "").strip().upper(), logging.WARNING)
    ours.setLevel(level)
