"""The servers that all workers of a run share."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]
WORKER = Path(__file__).with_name("worker_that_dies.py")


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_a_worker_that_dies_leaves_the_servers_to_the_others_and_they_end_with_the_run(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-n",
                "2",
                "--dist",
                "load",
                "-p",
                "no:randomly",
                "-p",
                "no:cacheprovider",
            ),
            *(f"--basetemp={tmp_path / 'base'}", str(WORKER)),
        ],
        cwd=ROOT,
        env={**os.environ, "DIRECTKAFKA_TEST_SEEN": str(seen)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "crashed while running" in done.stdout

    kafka, database = seen.read_text().splitlines()
    postgres = urlsplit(database)
    assert not _answers(kafka.partition(":")[0], int(kafka.partition(":")[2]))
    assert not _answers(postgres.hostname or "", postgres.port or 0)
