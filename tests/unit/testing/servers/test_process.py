from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import until

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.servers.process import ServerProcess, wait_until


def _server(tmp_path: Path, program: str) -> ServerProcess:
    return ServerProcess([sys.executable, "-c", program], log_file=tmp_path / "log", watchdog=None)


def test_a_server_that_ends_instead_of_getting_ready_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    server = _server(tmp_path, "print(*range(100), sep='\\n'); raise SystemExit(3)")
    with pytest.raises(EnvironmentFaultError) as caught:
        wait_until(lambda: False, servers=[server], timeout_s=60, what="the server is not ready")
    message = str(caught.value)
    assert message.startswith(f"the server is not ready: process {server.pid} ended with exit code 3.")
    assert "\n99\n" in message
    assert "\n79\n" not in message


def test_a_server_that_never_gets_ready_is_an_error_that_says_how_long_was_waited(tmp_path: Path) -> None:
    server = _server(tmp_path, "import signal; signal.pause()")
    with pytest.raises(EnvironmentFaultError, match=r"not ready within 0 s: process \d+ still runs"):
        wait_until(lambda: False, servers=[server], timeout_s=0.1, what="not ready")
    server.kill()
    assert not server.is_running


def test_waiting_ends_as_soon_as_the_condition_holds(tmp_path: Path) -> None:
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), servers=(), timeout_s=60, what="never")
    assert next(answers, None) is None


def test_a_server_that_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    server = _server(tmp_path, program)
    wait_until(lambda: "deaf" in server.last_log_lines(), servers=[server], timeout_s=60, what="silent")
    server.request_stop()
    server.wait_or_kill(0.1)
    assert not server.is_running
    server.kill()


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_server_that_has_ended_is_watched_no_more(tmp_path: Path, *, is_asked: bool) -> None:
    """Its process id may be another process's by then."""
    watched: list[int] = []
    watchdog: Any = SimpleNamespace(watch=lambda pid, _: watched.append(pid), forget=watched.remove)
    server = ServerProcess([sys.executable, "-c", ""], log_file=tmp_path / "log", watchdog=watchdog)
    assert watched == [server.pid]
    if is_asked:
        until(lambda: not server.is_running, "it runs")
    else:
        server.wait_or_kill(60)
    server.kill()
    assert watched == []
