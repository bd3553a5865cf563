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

OPTIONS = (
    *("-c", os.devnull, "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("--dist", "loadfile", "--no-loadscope-reorder"),
)

DIES = "import os\ndef test_two(): pass\ndef test_dies(): os._exit(1)\ndef test_three(): pass\n"


ONE, FOUR = "def test_one(): pass\n", "def test_four(): pass\n"


@pytest.mark.parametrize(
    ("workers", "files", "outcome"),
    [
        (2, {"test_1.py": ONE, "test_2.py": DIES, "test_3.py": FOUR}, "1 failed, 4 passed"),
        (1, {"test_1.py": DIES, "test_2.py": ONE, "test_3.py": FOUR}, "1 failed, 4 passed"),
        (2, {"test_1.py": DIES, "test_2.py": DIES, "test_3.py": ONE, "test_4.py": FOUR}, "2 failed, 6 passed"),
    ],
    ids=["it had done a file", "it had files left", "so did another one"],
)
def test_what_a_worker_leaves_is_done_by_the_next_one(
    tmp_path: Path, workers: int, files: dict[str, str], outcome: str
) -> None:
    """The next one was given a file that was done, or one test: it waited for more, and the run stood still."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, f"-n{workers}", f"--rootdir={tmp_path}", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    assert "::test_dies'" in done.stdout
