"""The job that looks at the executors before the first batch."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from directkafka.pipeline.execution.session import _probe

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
