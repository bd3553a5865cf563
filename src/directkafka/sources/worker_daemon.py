"""The daemon of :mod:`directkafka.spark.worker_daemon` under its former name, for Spark settings that still say it."""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("directkafka.spark.worker_daemon", run_name="__main__", alter_sys=True)
