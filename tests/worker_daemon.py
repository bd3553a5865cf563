"""The daemon that forks Python workers of the tests' Spark, for ``spark.python.daemon.module``.

Functions of a test travel by the name of their module. So a worker imports that module, and with it pytest and most of
this library, which takes 0.7 s of processor time. A worker whose task fails is ended, and many tests want a failure.
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
