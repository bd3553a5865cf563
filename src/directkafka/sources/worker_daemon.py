"""Former name of :mod:`directkafka.spark.worker_daemon`, for a ``spark.python.daemon.module`` that names this one."""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("directkafka.spark.worker_daemon", run_name="__main__", alter_sys=True)
