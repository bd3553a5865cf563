"""A user's own process is left alone; a Spark worker's imports leave the garbage collector's sight once."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest

from directkafka import python_worker


@pytest.fixture(autouse=True)
def _thaw(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(python_worker, "_frozen_for", set())
    yield
    gc.unfreeze()


def run_as(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    main = types.ModuleType("__main__")
    main.__spec__ = ModuleSpec(module, None)
    monkeypatch.setitem(sys.modules, "__main__", main)


def test_a_process_that_is_no_spark_worker_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, "my_program")
    before = gc.get_freeze_count()
    python_worker.freeze_imports("read")
    assert gc.get_freeze_count() == before


def test_a_spark_worker_freezes_what_it_has_imported_once_for_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, "pyspark.daemon")
    python_worker.freeze_imports("read")
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    kept = [[] for _ in range(5000)]
    python_worker.freeze_imports("read")
    assert gc.get_freeze_count() <= frozen
    python_worker.freeze_imports("write")
    assert gc.get_freeze_count() > frozen
    assert len(kept) == 5000


@pytest.mark.parametrize(("asked", "seen"), [("", ["WARNING"]), ("info", ["INFO", "WARNING"]), ("loud", ["WARNING"])])
def test_log_lines_of_a_worker_have_time_and_name_and_the_level_that_is_asked_for(asked: str, seen: list[str]) -> None:
    program = (
        "import logging\n"
        "from directkafka.python_worker import log_to_stderr\n"
        "log_to_stderr(); log_to_stderr()\n"
        "log = logging.getLogger('directkafka.sources')\n"
        "log.info('it starts'); log.warning('lost \\x1b[2J')\n"
    )
    environment = {**os.environ, python_worker.LOG_LEVEL: asked}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert [line.split()[2] for line in lines] == seen
    assert all(line.split()[3] == "directkafka.sources:" for line in lines)
    assert "\x1b" not in done.stderr


def test_logging_that_a_program_has_set_up_is_left_alone() -> None:
    before = list(logging.getLogger("directkafka").handlers)
    root = logging.getLogger()
    root.addHandler(handler := logging.NullHandler())
    try:
        python_worker.log_to_stderr()
    finally:
        root.removeHandler(handler)
    assert logging.getLogger("directkafka").handlers == before
