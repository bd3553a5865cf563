"""Spark's settings that let its Python workers start and talk quicker, where those are sure to work."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Final

from directkafka.spark import worker_daemon
from directkafka.spark.private_folder import private_folder

#: A Unix socket's path is at most so long in bytes (macOS; Linux allows three more), its closing NUL apart.
_SOCKET_PATH_BYTES_MAX: Final = 103
#: Spark names its sockets ``.<uuid>.sock``.
_SOCKET_NAME_BYTES: Final = len("/.00000000-0000-0000-0000-000000000000.sock")


def spark_settings(master: str = "local[*]") -> dict[str, str]:
    """Settings that make the format ``directkafka`` faster, for ``SparkSession.builder.config(map=...)``.

    Pipelines that start Spark themselves have them. They count only for a session that starts Spark, and only where
    all of Spark is on this machine; for other masters there are none.

    - ``spark.python.unix.domain.socket.enabled``, and the folder of the sockets, which is the user's alone: records
      come from a Python worker by a Unix socket, not by TCP.
    - ``spark.python.daemon.module``: workers are forked from a process that has imported what reading needs. Only on
      Linux, and where ``PYSPARK_PYTHON`` (``python3``, where it is not set) is this process's own Python.

    Args:
        master: Spark's master URL, as the session will have it.
    """
    if not master.startswith("local"):
        return {}
    return {**_worker_sockets(master, private_folder()), **_worker_daemon(master)}


def _worker_sockets(master: str, folder: Path) -> dict[str, str]:
    """Settings that let the JVM and its Python workers talk over Unix sockets.

    Spark fails with "AF_UNIX path too long" where the sockets' folder has a long path, as a container's temporary
    folder on YARN has. So executors of other machines are left alone, and so is a machine whose own temporary folder
    is too long.
    """
    fits = len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= _SOCKET_PATH_BYTES_MAX
    if not (master.startswith("local") and hasattr(socket, "AF_UNIX") and fits):
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _worker_daemon(master: str) -> dict[str, str]:
    """The setting that lets Python workers start from files, where their Python is sure to have this package."""
    if not may_fork_imports(master, os.environ.get("PYSPARK_PYTHON") or "python3"):
        return {}
    return {"spark.python.daemon.module": worker_daemon.MODULE}


def may_fork_imports(master: str, worker_python: str) -> bool:
    """Whether Spark's Python processes may be forked with imports of this package: on Linux, by this process's Python.

    Args:
        master: Spark's master URL.
        worker_python: the command that Spark runs as Python. One folder may have this process's by several names.
    """
    path = shutil.which(worker_python)
    if not (master.startswith("local") and sys.platform == "linux" and path is not None):
        return False
    # Virtual environments have links to one file, so the folder counts as well.
    return Path(path).parent == Path(sys.executable).parent and Path(path).samefile(sys.executable)
