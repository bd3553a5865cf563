"""A user's own process is left alone; a Spark worker's imports leave the garbage collector's sight once."""

from __future__ import annotations

import gc
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
