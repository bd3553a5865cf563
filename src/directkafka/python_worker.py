"""What a Spark Python worker pays between two tasks, and how not to.

Spark keeps its Python workers and runs ``gc.collect()`` in each after every task (``pyspark/daemon.py``), while the
next task already waits for it. With pyarrow and numba imported that costs 50 to 120 ms a task, more than reading
10,000 records. Modules never become garbage: moved out of the collector's sight once, they cost nothing.
"""

from __future__ import annotations

import gc
import sys

__all__ = ["freeze_imports", "is_python_worker"]

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
    gc.collect()
    gc.freeze()
