"""Spark's Python workers: what one pays between two tasks, and how not to; and where its log lines go.

Spark keeps its Python workers and runs ``gc.collect()`` in each after every task (``pyspark/daemon.py``), while the
next task already waits for it. With pyarrow and numba imported that costs 50 to 120 ms a task, more than reading
10,000 records. Modules never become garbage: moved out of the collector's sight once, they cost nothing.
"""

from __future__ import annotations

import gc
import logging
import os
import sys

from directkafka.plain_text import PlainFormatter

#: The level of this library's log lines in Python workers, ``INFO`` for example: where nothing sets up logging.
LOG_LEVEL = "DIRECTKAFKA_LOG_LEVEL"

_frozen_for: set[str] = set()


def is_python_worker() -> bool:
    """Whether this process is one that Spark's daemon forked to run tasks."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"


def freeze_imports(part: str) -> None:
    """Take all that is imported by now out of garbage collection, once for each part of this library.

    Elsewhere than in a Python worker it does nothing: a user's own process is not ours to tune.

    Args:
        part: what has just been imported, for example ``read``.
    """
    if part in _frozen_for or not is_python_worker():
        return
    _frozen_for.add(part)
    log_to_stderr()
    gc.collect()
    gc.freeze()


def log_to_stderr() -> None:
    """Lines of this library to stderr, which Spark prints, if nobody has said where log lines go.

    For processes that Spark starts. Python would print warnings without time and name, and all others not at all.
    """
    ours = logging.getLogger("directkafka")
    if ours.hasHandlers():
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter())
    ours.addHandler(handler)
    level = logging.getLevelNamesMapping().get(os.environ.get(LOG_LEVEL, "").strip().upper(), logging.WARNING)
    ours.setLevel(level)
