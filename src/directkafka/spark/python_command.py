"""The command ``directkafka-python``: Python, as Spark runs it for the format's reads on the driver's own machine.

Spark starts the Python processes of a data source as ``PYTHON -m MODULE``: a daemon that forks those that make the
source, one for those that plan a read, one for the workers of tasks, and a process for the offsets of each stream. All
compile PySpark from a zip file. A setting replaces the daemon of tasks
(:mod:`directkafka.spark.worker_daemon`). For the others, a data source can only choose the command ``PYTHON``.

This one takes PySpark from files, and has a daemon import what a read needs before it forks
(:mod:`directkafka.spark.worker_imports`). A session's other Python code runs as it did.
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

from directkafka.spark.worker_imports import preload, remove_zip

if TYPE_CHECKING:
    from pyspark import SparkContext

#: As it stands among the scripts of pyproject.toml.
NAME: Final = "directkafka-python"
_PYSPARK_DAEMON: Final = "pyspark.daemon"


@contextmanager
def command_as_python(context: SparkContext) -> Iterator[None]:
    """Let functions that are handed to the JVM in the block run by this command, if allowed; else by the usual Python.

    PySpark notes a context's Python in each function that it hands over.

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
    """Run ``-m MODULE ARGUMENT...`` with PySpark from files; become Python itself for anything else."""
    if len(sys.argv) < 3 or sys.argv[1] != "-m":
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    _, _, module, *arguments = sys.argv
    if not sys.flags.safe_path:
        # Here it is the script's folder; with -m it is the working directory.
        sys.path[0] = str(Path.cwd())
    remove_zip()
    if module == _PYSPARK_DAEMON:
        # Spark sets it for tasks alone. At 1, numpy starts no threads; a fork would lose them.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        preload(*arguments[:1])
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
