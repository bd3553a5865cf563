"""The folder of a driver: whose it is, and when it goes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

DRIVER = """
import sys
from directkafka.pipeline.application.spark_application import _settings_file
settings = _settings_file({"spark.a": "a secret"})
settings.__enter__()
print("started", flush=True)
sys.stdin.read()
"""

FORKING_DRIVER = """
import os, sys
from directkafka.spark.private_folder import private_folder
folder = private_folder()
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
print(folder.is_dir())
"""


def program(text: str, temporary: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def started(temporary: Path) -> subprocess.Popen[str]:
    driver = program(DRIVER, temporary)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "started\n"
    return driver


def settings_in(temporary: Path) -> set[Path]:
    return set(temporary.glob("*/settings"))


def test_a_folder_that_a_killed_driver_has_left_goes_at_the_next_start_and_that_of_a_living_one_stays(
    tmp_path: Path,
) -> None:
    with started(tmp_path) as living:
        (of_living,) = settings_in(tmp_path)
        assert stat.S_IMODE(of_living.parent.stat().st_mode) == 0o700
        with started(tmp_path) as killed:
            assert len(settings_in(tmp_path)) == 2
            killed.kill()
        assert len(settings_in(tmp_path)) == 2
        with started(tmp_path) as next_one:
            settings_files = settings_in(tmp_path)
            assert len(settings_files) == 2
            assert of_living in settings_files
            next_one.communicate()
        living.communicate()
    assert list(tmp_path.iterdir()) == []


def test_folders_of_other_programs_stay(tmp_path: Path) -> None:
    (tmp_path / "dk-somebody").mkdir()
    (tmp_path / "dk-somebody" / "settings").touch()
    (tmp_path / "dk-link").symlink_to(tmp_path / "dk-somebody")
    with started(tmp_path) as driver:
        driver.communicate()
    assert {path.name for path in tmp_path.iterdir()} == {"dk-somebody", "dk-link"}
    assert settings_in(tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_child_that_ends_leaves_its_parent_s_folder(tmp_path: Path) -> None:
    with program(FORKING_DRIVER, tmp_path) as driver:
        assert driver.communicate()[0] == "True\n"
    assert list(tmp_path.iterdir()) == []


WRITING_DRIVER = """
import os, sys
from directkafka.spark.private_folder import private_folder
folder = private_folder()
task = os.fork()
if task == 0:
    while folder.is_dir():
        for number in range(1000):
            try:
                (folder / str(number)).touch()
            except FileNotFoundError:
                os._exit(0)
    os._exit(0)
print(task, flush=True)
while not (folder / "999").exists():
    pass
"""


def test_a_folder_goes_though_a_task_still_writes_into_it(tmp_path: Path) -> None:
    for _ in range(5):
        with program(WRITING_DRIVER, tmp_path) as driver:
            assert driver.stdout is not None
            task = int(driver.stdout.readline())
            assert driver.wait(60) == 0
        try:
            assert list(tmp_path.iterdir()) == []
        finally:
            with suppress(ProcessLookupError):
                os.kill(task, signal.SIGKILL)
