"""A quicker daemon that forks Spark's Python workers, for ``spark.python.daemon.module``.

Spark puts ``pyspark.zip`` first on its workers' ``sys.path``. Python keeps no bytecode for what it imports from a zip
file, so the daemon, and every worker that imports more of PySpark than the daemon, compiles it anew: up to a second
and 15 MB. PySpark as pip installs it has the same modules as files, with bytecode; the zip file lies in its package.

This daemon imports what reading needs before it forks. Spark ends a worker whose rows were not all asked for (``take``,
``show``, ``limit``) or whose task failed, and each new one would import anew: 1.1 s of processor time. PySpark's own
daemon imports no such packages, because they may start threads. Here the only thread is jemalloc's, which jemalloc
stops before a fork and starts again behind it; numpy starts none, since Spark sets ``OMP_NUM_THREADS``.

All else is ``pyspark.daemon``. Where Spark was not installed by pip, modules come from the zip file, as they do there.
Spark 4.2 and 4.3 start the processes that plan a data source's reads with their own daemon, whatever the setting says:
:mod:`directkafka.spark.python_command` does the same for these.
"""

from __future__ import annotations

import gc
import runpy
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

#: What the Spark setting is set to.
MODULE = "directkafka.spark.worker_daemon"

_ZIP = "pyspark.zip"

_SOURCE = "directkafka.spark.datasource.source"
_READERS = "directkafka.spark.datasource.readers"
_CREATE = "pyspark.sql.worker.create_data_source"
_PLAN = "pyspark.sql.worker.plan_data_source_read"
_PUSH_DOWN_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"

#: Imported before processes that run this module of Spark's are forked. For tasks, kernels that are not compiled yet
#: are compiled here, once for all.
_PRELOADED = {
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


def preload(worker_module: str) -> None:
    """Import what processes of this kind need, and exclude it from garbage collection (``gc.freeze``).

    A failure to import is printed to stderr, and raised again in the process that needs the package.

    Args:
        worker_module: what runs in each process that the daemon forks, ``pyspark.worker`` for tasks.
    """
    if worker_module not in _PRELOADED:
        return
    # The daemon's stdout is how it tells the JVM where it listens.
    with redirect_stdout(sys.stderr):
        try:
            for module in _PRELOADED[worker_module]:
                import_module(module)
        except Exception:  # noqa: BLE001 - Python code that does not read Kafka can run all the same
            traceback.print_exc()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    remove_zip()
    preload(*sys.argv[1:2])
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
