"""Imports of Spark's Python processes: from where PySpark comes, and what a daemon imports before it forks them.

Spark puts ``pyspark.zip`` first on their ``sys.path``. Python keeps no bytecode for what it imports from a zip file, so
each process compiles PySpark anew: up to a second and 15 MB. PySpark as pip installs it has the same modules as files,
with bytecode; the zip file lies in its package. Where Spark was not installed by pip, modules come from the zip file.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

_ZIP = "pyspark.zip"

_SOURCE = "directkafka.spark.datasource.source"
_READERS = "directkafka.spark.datasource.readers"
_CREATE = "pyspark.sql.worker.create_data_source"
_PLAN = "pyspark.sql.worker.plan_data_source_read"
_PUSH_DOWN_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"

#: What a daemon imports before it forks, by the module of Spark's that it forks processes for: a read's. For tasks,
#: kernels that are not compiled yet are compiled then, once for all.
_IMPORTS = {
    "pyspark.worker": (
        "directkafka.kafka.consumer.range_reader",
        "directkafka.spark.read_task",
        _SOURCE,
        "directkafka.spark.datasource.task_reader",
    ),
    _CREATE: (_CREATE, _SOURCE),
    _PLAN: (_PLAN, _SOURCE, _READERS),
    _PUSH_DOWN_FILTERS: (_PUSH_DOWN_FILTERS, _SOURCE, _READERS),
}


def without_zip(search_path: Sequence[str]) -> list[str]:
    """A ``sys.path`` without PySpark's zip file, if the package that has the file is on it as well.

    Args:
        search_path: as in ``sys.path``.
    """
    return [entry for entry in search_path if Path(entry).name != _ZIP or not _has_package(Path(entry), search_path)]


def _has_package(zip_file: Path, search_path: Sequence[str]) -> bool:
    # pip installs it as <site-packages>/pyspark/python/lib/pyspark.zip.
    package = zip_file.parent.parent.parent
    return package.name == "pyspark" and (package / "daemon.py").is_file() and str(package.parent) in search_path


def remove_zip() -> None:
    """Take PySpark's zip file off ``sys.path``, if the package that has the file is on it, and drop its finder.

    A worker's first task calls ``importlib.invalidate_caches``, which has the finder of each zip file read the names of
    all its files: 7 ms for this one.
    """
    search_path = without_zip(sys.path)
    for entry in set(sys.path) - set(search_path):
        sys.path_importer_cache.pop(entry, None)
    sys.path[:] = search_path


def preload(worker_module: str = "pyspark.worker") -> None:
    """Import what processes of a read need, and exclude it from garbage collection (``gc.freeze``); else do nothing.

    The first import that fails is printed to stderr and ends the rest. Each process then tries by itself.

    Args:
        worker_module: what runs in each process that the daemon forks; Spark's daemon takes none for tasks.
    """
    if worker_module not in _IMPORTS:
        return
    # The daemon's stdout is how it tells the JVM where it listens.
    with redirect_stdout(sys.stderr):
        try:
            for module in _IMPORTS[worker_module]:
                import_module(module)
        except Exception:  # noqa: BLE001 - Python code that does not read Kafka can run all the same
            traceback.print_exc()
    gc.collect()
    gc.freeze()
