from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from directkafka import fault_points
from directkafka.errors import OptionError
from directkafka.fault_points import FAULT_POINTS, STREAM_FAULT_POINTS, InjectedFaultError, fault_point

POINT = "commit.begun"


@pytest.fixture(autouse=True)
def _no_passes_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_points, "_passes", Counter())
    monkeypatch.delenv(fault_points.ENVIRONMENT_NAME, raising=False)
    monkeypatch.delenv(fault_points.ENVIRONMENT_NAME_ONCE, raising=False)


def arm(monkeypatch: pytest.MonkeyPatch, rules: str, *, once: Path | None = None) -> None:
    monkeypatch.setenv(fault_points.ENVIRONMENT_NAME, rules)
    if once is not None:
        monkeypatch.setenv(fault_points.ENVIRONMENT_NAME_ONCE, str(once))


def test_of_all_points_only_the_armed_one_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    def fired() -> list[str]:
        fired_points = []
        for point in (*FAULT_POINTS, *STREAM_FAULT_POINTS):
            try:
                fault_point(point)
            except InjectedFaultError:
                fired_points.append(point)
        return fired_points

    assert fired() == []
    arm(monkeypatch, "batch.written=raise")
    assert fired() == ["batch.written"]


def test_an_armed_point_fires_and_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    arm(monkeypatch, f"{POINT}=raise")
    with pytest.raises(InjectedFaultError, match=POINT):
        fault_point(POINT)


def test_a_point_fires_at_the_pass_that_is_asked_for_and_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    arm(monkeypatch, f"batch.written=raise, {POINT}@3=raise")
    fault_point(POINT)
    fault_point(POINT)
    with pytest.raises(InjectedFaultError):
        fault_point(POINT)
    fault_point(POINT)


def test_points_are_counted_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    arm(monkeypatch, f"{POINT}@2=raise")
    fault_point("batch.written")
    fault_point(POINT)
    with pytest.raises(InjectedFaultError):
        fault_point(POINT)


def test_with_a_claim_file_only_the_first_process_fires(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arm(monkeypatch, f"{POINT}=raise", once=tmp_path / "fired")
    with pytest.raises(InjectedFaultError):
        fault_point(POINT)
    assert (tmp_path / "fired").exists()
    # A restarted process counts its passes from the beginning, and finds the file.
    monkeypatch.setattr(fault_points, "_passes", Counter())
    fault_point(POINT)


@pytest.mark.parametrize("rule", ["commit.begun", "commit.begun=explode", "nowhere=raise", "commit.begun@x=raise", "="])
def test_a_rule_that_cannot_be_understood_is_refused(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    arm(monkeypatch, rule)
    with pytest.raises(OptionError) as caught:
        fault_point(POINT)
    assert (caught.value.option, caught.value.where) == (rule, fault_points.ENVIRONMENT_NAME)
    assert "fence.done" in caught.value.reason


def test_points_are_listed_in_the_order_of_the_commit_protocol() -> None:
    steps = [int(text.partition(".")[0]) for text in FAULT_POINTS.values()]
    assert steps == sorted(steps)
    assert set(steps) == {1, 2, 3, 4, 5}
    assert [int(text[0]) for text in STREAM_FAULT_POINTS.values()] == [1, 3, 4]


def run(action: str) -> subprocess.Popen[bytes]:
    code = f"from directkafka.fault_points import fault_point; fault_point({POINT!r}); print('passed', flush=True)"
    environment = {**os.environ, fault_points.ENVIRONMENT_NAME: f"{POINT}={action}"}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)


def test_kill_ends_the_process_at_once() -> None:
    with run("kill") as process:
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (-signal.SIGKILL, b"")


def test_stop_holds_the_process_until_it_is_continued() -> None:
    with run("stop") as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"passed\n")
