"""The job that looks at the executors before the first batch, and the folder for rows on their way to the driver."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from directkafka.pipeline.execution.session import _probe, row_folder

NUMBERS = pa.record_batch({"id": [0, 1]})


def test_an_executor_says_its_version_for_each_row() -> None:
    [versions] = _probe(iter([NUMBERS]))
    assert len(set(versions.column("version").to_pylist())) == 1
    assert versions.num_rows == 2


def test_an_executor_that_cannot_import_what_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba is missing there, for example; the driver imports it no more than the probe's own module does."""
    monkeypatch.setitem(sys.modules, "directkafka.kafka.consumer.range_reader", None)
    with pytest.raises(ModuleNotFoundError, match="range_reader"):
        list(_probe(iter([NUMBERS])))


def session_of(master: str) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master))


@pytest.mark.parametrize(
    ("master", "is_there"),
    [("local", True), ("local[2]", True), ("local-cluster[2,1,1024]", False), ("spark://host:7077", False)],
)
def test_only_tasks_on_the_driver_s_machine_hand_over_rows_in_files(master: str, is_there: bool) -> None:
    with row_folder(session_of(master)) as folder:
        assert (folder is not None and folder.path.is_dir()) is is_there


def test_the_folder_of_a_job_that_fails_is_removed_while_its_error_is_still_known() -> None:
    with pytest.raises(ValueError, match="a task") as raised, row_folder(session_of("local")) as folder:
        raise ValueError("a task failed")
    assert raised.value.__traceback__ is not None
    assert folder is not None
    assert not folder.path.exists()
