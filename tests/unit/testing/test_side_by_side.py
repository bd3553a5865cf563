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

#: The second time that the first worker is given tests, it has ended, and nobody has heard of it yet.
GONE = """
from xdist.workermanage import WorkerController

send, sent = WorkerController.send_runtest_some, []

def to_who_is_gone(node, indices):
    sent.append(node.gateway.id)
    if node.gateway.id == "gw0" and sent.count("gw0") == 2:
        raise OSError("cannot send (already closed?)")
    send(node, indices)

WorkerController.send_runtest_some = to_who_is_gone
"""

OPTIONS = (
    *("-c", os.devnull, "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("--dist", "loadfile", "--no-loadscope-reorder"),
)

DIES = "import os\ndef test_two(): pass\ndef test_dies(): os._exit(1)\ndef test_three(): pass\n"


PASSES, PASSES_TOO = "def test_one(): pass\n", "def test_four(): pass\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "files", "outcome"),
    [
        (2, {"test_1.py": PASSES, "test_2.py": DIES, "test_3.py": PASSES_TOO}, "1 failed, 4 passed"),
        (1, {"test_1.py": DIES, "test_2.py": PASSES, "test_3.py": PASSES_TOO}, "1 failed, 4 passed"),
        (2, {"test_1.py": DIES, "test_2.py": DIES, "test_3.py": PASSES, "test_4.py": PASSES_TOO}, "2 failed, 6 passed"),
    ],
    ids=["it had done a file", "it had files left", "so did another one"],
)
def test_what_a_worker_leaves_is_done_by_the_next_one(
    tmp_path: Path, workers: int, files: dict[str, str], outcome: str
) -> None:
    """The next one was given a file that was done, or one test: it waited for more, and the run stood still."""
    assert_runs(tmp_path, workers, files, outcome)


def test_tests_for_a_worker_that_has_just_ended_are_done_by_the_next_one(tmp_path: Path) -> None:
    """Sequence of events: a test ends its worker, the one before it is reported, more are sent into a closed pipe."""
    files = {"test_1.py": DIES, "test_2.py": PASSES, "test_3.py": PASSES_TOO}
    assert_runs(tmp_path, 1, files, "1 failed, 4 passed", conftest=CONFTEST + GONE)


def assert_runs(tmp_path: Path, workers: int, files: dict[str, str], outcome: str, *, conftest: str = CONFTEST) -> None:
    (tmp_path / "conftest.py").write_text(conftest)
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
