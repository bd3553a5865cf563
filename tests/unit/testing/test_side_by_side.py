"""How files are dealt out where several go side by side, after a worker has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

CONFTEST = """
def pytest_xdist_make_scheduler(config, log):
    from tests.side_by_side import FromBothEnds
    return FromBothEnds(config, log)
"""

DIES = "import os\ndef test_two(): pass\ndef test_dies(): os._exit(1)\ndef test_three(): pass\n"


@pytest.mark.parametrize(
    ("workers", "files"),
    [
        (2, {"test_1.py": "def test_one(): pass\n", "test_2.py": DIES, "test_3.py": "def test_four(): pass\n"}),
        (1, {"test_1.py": DIES, "test_2.py": "def test_one(): pass\n", "test_3.py": "def test_four(): pass\n"}),
    ],
    ids=["it had done a file", "it had files left"],
)
def test_what_a_worker_leaves_at_the_end_of_a_run_is_done_by_the_next_one(
    tmp_path: Path, workers: int, files: dict[str, str]
) -> None:
    """The next one was given a file that was done, or one test: it waited for more, and the run stood still."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = ("-p", "no:randomly", "-p", "no:cacheprovider", "--no-loadscope-reorder", "--dist", "loadfile")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            f"--rootdir={tmp_path}",
            *options,
            f"-n{workers}",
            "-c",
            os.devnull,
            str(tmp_path),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "::test_dies'" in done.stdout
