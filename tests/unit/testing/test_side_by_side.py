"""How files are dealt out where several go side by side, after a worker has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

CONFTEST = """
def pytest_xdist_make_scheduler(config, log):
    from tests.side_by_side import FromBothEnds
    return FromBothEnds(config, log)
"""

FILES = {
    "test_1_is_done.py": "def test_one(): pass\n",
    "test_2_dies.py": "import os\ndef test_two(): pass\ndef test_dies(): os._exit(1)\ndef test_three(): pass\n",
    "test_3_is_another_s.py": "def test_four(): pass\n",
}


def test_a_run_whose_worker_ends_at_its_end_is_finished_by_the_next_one(tmp_path: Path) -> None:
    """The next one was given a file that was done, and after it nothing more: the run stood still."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    options = ("-p", "no:randomly", "-p", "no:cacheprovider", "--no-loadscope-reorder", "-n", "2", "--dist", "loadfile")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--rootdir={tmp_path}", "-c", os.devnull, *options, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "crashed while running 'test_2_dies.py::test_dies'" in done.stdout
