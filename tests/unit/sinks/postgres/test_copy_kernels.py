"""The encoder's kernels on disk: where they are kept is the kernel cache's matter, as for all others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import directkafka

PROGRAM = """
from directkafka.sinks.postgres import copy_kernels
print(sum(copy_kernels._put16.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_kernels_compile_where_neither_the_package_nor_a_home_can_be_written(tmp_path: Path) -> None:
    """As for a container's user without a home, whose image is mounted read-only. (Root may write wherever there is a
    folder, so there are files in the folders' places.)"""
    package = tmp_path / "directkafka"
    shutil.copytree(Path(directkafka.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("kafka", "sinks"):
        (package / folder / "__pycache__").write_text("not a folder")
    (tmp_path / "home").write_text("not a folder")
    (tmp_path / "tmp").mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}}
    environment = kept | {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    printed = [
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, timeout=300)
        for _ in range(2)
    ]
    assert [process.stdout.strip() for process in printed] == [b"1", b"0"]
