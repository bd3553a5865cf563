"""The daemon that forks Python workers of the tests' Spark, for ``spark.python.daemon.module``.

Spark sends a test's function by the name of its module, and each new worker imports that module: with it come pytest
and most of this library, 0.7 s of processor time. Spark ends a worker whose task fails, and many tests make tasks fail.
"""

from __future__ import annotations

import runpy
from importlib import import_module
from typing import Final

MODULE: Final = "tests.worker_daemon"
#: What test modules import.
_PRELOADED: Final = (
    "duckdb",
    "tests.contract.kafka_harness",
    "tests.real.pipeline.conftest",
    "tests.real.spark.conftest",
)

if __name__ == "__main__":
    for name in _PRELOADED:
        import_module(name)
    runpy.run_module("directkafka.spark.worker_daemon", run_name="__main__", alter_sys=True)
