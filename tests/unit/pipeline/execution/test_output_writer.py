"""What the driver may hold of a batch."""

from __future__ import annotations

import pytest

from directkafka.pipeline.execution.output_writer import bounds_results


@pytest.mark.parametrize("size", [None, "1g", "10", " 512m ", "1048576b", "100M"])
def test_a_size_of_results_is_a_limit(size: str | None) -> None:
    assert bounds_results(size)


@pytest.mark.parametrize("size", ["0", "0g", "0M", " 0b ", "00", "-1"])
def test_a_size_that_spark_takes_for_no_limit_is_none(size: str) -> None:
    """Without a limit Spark would bring any number of rows to the driver."""
    assert not bounds_results(size)
