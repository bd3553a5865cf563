"""A quicker daemon that forks Spark's Python workers, for ``spark.python.daemon.module``.

It takes PySpark from files, and imports what reading needs before it forks (:mod:`directkafka.spark.worker_imports`).
Spark ends a worker whose rows were not all asked for (``take``, ``show``, ``limit``) or whose task failed, and each new
one would import anew: 1.1 s of processor time. PySpark's own daemon imports no such packages, because they may start
threads. Here the only thread is jemalloc's, which jemalloc stops before a fork and starts again behind it; numpy starts
none by default, since Spark sets ``OMP_NUM_THREADS``.

All else is ``pyspark.daemon``. Spark 4.2 and 4.3 use the setting for tasks alone: the daemons that make a source and
plan its reads are started by :mod:`directkafka.spark.python_command`.
"""

from __future__ import annotations

import runpy
import sys

from directkafka.spark.worker_imports import preload, remove_zip

#: What the Spark setting is set to.
MODULE = "directkafka.spark.worker_daemon"

if __name__ == "__main__":
    remove_zip()
    preload(*sys.argv[1:2])
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
