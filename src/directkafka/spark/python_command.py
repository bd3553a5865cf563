"""The command ``directkafka-python``: Python, as Spark runs it for the format on the driver's own machine.

Spark starts each Python process of a data source as ``PYTHON -m MODULE``, with ``pyspark.zip`` first on the import
path: one that makes the source, one that plans a read, one for the offsets of each stream, and a daemon that forks the
workers of tasks. Python keeps no bytecode for what it imports from a zip file, so each compiles PySpark anew, half a
second of processor time. A setting names another daemon for tasks, and no setting names one for the others: all that
a data source can say of them is which command is ``PYTHON``.

This one takes the zip file off the import path, and has a daemon import what its children need before it forks them
(:mod:`directkafka.spark.worker_daemon`). A session's other Python code runs as it did.
"""

from __future__ import annotations

import os
import runpy
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from directkafka.spark import worker_daemon

if TYPE_CHECKING:
    from pyspark import SparkContext

#: As it stands among the scripts of pyproject.toml.
NAME: Final = "directkafka-python"
_SPARK_S_DAEMON: Final = "pyspark.daemon"


@contextmanager
def run_by_this_command(context: SparkContext) -> Iterator[None]:
    """Let Spark run this command for what it is given in the block, where that may be, and else what it would run.

    PySpark notes a context's Python in each function that it hands to the JVM.

    Args:
        context: the driver's.
    """
    # Not at the top: Spark's processes need none of it.
    from directkafka.spark.settings import may_fork_imports

    python = context.pythonExec
    path = Path(sysconfig.get_path("scripts"), NAME)
    if not (os.access(path, os.X_OK) and may_fork_imports(context.master or "", python or "python3")):
        yield
        return
    context.pythonExec = str(path)
    try:
        yield
    finally:
        context.pythonExec = python


def main() -> None:
    """Run ``-m MODULE ARGUMENT...`` as Python does, but PySpark from files; have Python itself run anything else."""
    if len(sys.argv) < 3 or sys.argv[1] != "-m":
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    _, _, module, *arguments = sys.argv
    if not sys.flags.safe_path:
        # The first entry is the command's folder. With -m it is the one where the program is started.
        sys.path[0] = str(Path.cwd())
    worker_daemon.remove_zip()
    if module == _SPARK_S_DAEMON:
        # Spark sets it for tasks, not for plans. With it numpy starts no threads, which a fork would leave behind.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        worker_daemon.preload(*arguments[:1])
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
