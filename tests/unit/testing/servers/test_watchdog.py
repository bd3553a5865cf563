"""The companion process, with children and folders of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from directkafka.testing.servers.watchdog import Watchdog

_WAIT_S = 20


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_closing_ends_what_is_watched_with_its_signal_and_removes_folders(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "with a blank"
    folder.mkdir()
    (folder / "file").write_text("x")
    watchdog = Watchdog()
    watchdog.watch(child.pid, signal.SIGTERM)
    watchdog.remove(folder)
    # A parent that waits for its child, as ours does: one that is dead and not reaped would seem to live.
    with ThreadPoolExecutor(1) as parent:
        ended = parent.submit(child.wait, _WAIT_S)
        watchdog.close()
        watchdog.close()
        assert ended.result() == -signal.SIGTERM
    assert not folder.exists()


def test_what_is_forgotten_lives_on(child: subprocess.Popen[bytes]) -> None:
    watchdog = Watchdog()
    watchdog.watch(child.pid)
    watchdog.forget(child.pid)
    watchdog.close()
    assert child.poll() is None


def test_a_killed_companion_fails_nobody(child: subprocess.Popen[bytes]) -> None:
    watchdog = Watchdog()
    watchdog._process.kill()
    watchdog._process.wait(_WAIT_S)
    watchdog.watch(child.pid)
    watchdog.close()
    assert child.poll() is None


def test_sigkill_to_the_parent_ends_the_server_and_removes_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    program = textwrap.dedent(
        """
        import subprocess, sys
        from pathlib import Path
        from directkafka.testing.servers.process import ServerProcess
        from directkafka.testing.servers.watchdog import Watchdog

        folder = Path(sys.argv[1])
        watchdog = Watchdog()
        watchdog.remove(folder)
        command = [sys.executable, "-c", "import signal; signal.pause()"]
        server = ServerProcess(command, log_file=folder / "log", watchdog=watchdog)
        print(server.pid, watchdog._process.pid, flush=True)
        sys.stdin.read()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        processes = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    _gone, alive = psutil.wait_procs(processes, timeout=_WAIT_S)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    assert not folder.exists()
