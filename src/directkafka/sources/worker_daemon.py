"""The daemon that forks Spark's Python workers, without the zip file: for ``spark.python.daemon.module``.

Spark puts ``pyspark.zip`` first on its workers' import path. Python keeps no bytecode for what it imports from a zip
file, so the daemon, and every worker that imports more of PySpark than the daemon, compiles it anew: up to a second
and 15 MB. PySpark as pip installs it has the same modules beside the zip file, as files with bytecode.

It is ``pyspark.daemon`` otherwise; where Spark was not installed by pip, it is nothing else. Spark 4.2 and 4.3 start
the processes that plan a data source's reads with their own daemon, whatever the setting says.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["MODULE", "without_zip"]

#: What the Spark setting is set to.
MODULE = "directkafka.sources.worker_daemon"

_ZIP = "pyspark.zip"


def without_zip(search_path: Sequence[str]) -> list[str]:
    """An import path without PySpark's zip file, if the package that the file belongs to is found without it.

    Args:
        search_path: as in ``sys.path``.
    """
    return [entry for entry in search_path if Path(entry).name != _ZIP or not _is_beside(Path(entry), search_path)]


def _is_beside(zip_file: Path, search_path: Sequence[str]) -> bool:
    # pip installs it as <site-packages>/pyspark/python/lib/pyspark.zip.
    package = zip_file.parent.parent.parent
    return package.name == "pyspark" and (package / "daemon.py").is_file() and str(package.parent) in search_path


if __name__ == "__main__":
    sys.path[:] = without_zip(sys.path)
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
