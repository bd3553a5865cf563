"""Who keeps a file locked."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from directkafka.sinks.embedded.file import client as locks
from directkafka.sinks.embedded.file.client import describe_holders

pytestmark = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not list its locks")

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_process_that_holds_a_lock_is_named_by_number_and_program(tmp_path: Path) -> None:
    path = tmp_path / "flights.db"
    path.touch()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        assert describe_holders(path).startswith(f"process {holder.pid} (python")
        holder.communicate()
    assert describe_holders(path) == ""


def test_this_process_s_own_lock_is_told_as_well(tmp_path: Path) -> None:
    path = tmp_path / "flights.db"
    with path.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert describe_holders(path).startswith(f"process {os.getpid()} (")


def test_nothing_is_said_where_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_holders(tmp_path / "not there") == ""
    monkeypatch.setattr(locks, "_LOCKS", tmp_path / "no proc")
    assert describe_holders(Path(__file__)) == ""
