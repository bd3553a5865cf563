"""The line of a batch."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from directkafka.pipeline.progress import BatchReport, log_report

REPORT = BatchReport(
    pipeline="flights",
    generation=2,
    batch_id=7,
    offsets=1_300,
    records=1_200,
    rows={"flights": 1_200, "totals": 16},
    backlog=5_000,
    plan_ms=3,
    write_ms=80,
    commit_ms=17,
)


def test_a_batch_takes_as_long_as_its_steps() -> None:
    assert REPORT.total_ms == 100


def test_a_batch_is_one_line_at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "directkafka.pipeline")
    log_report(REPORT)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "INFO",
            "flights batch 7: 1,200 records -> flights 1,200, totals 16 rows in 100 ms (plan 3, write 80, commit 17), "
            "5,000 offsets waiting",
        )
    ]


def test_a_batch_without_rows_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "directkafka.pipeline")
    log_report(replace(REPORT, rows={}))
    assert "-> no rows" in caplog.text


def test_what_is_printed_of_a_batch_has_the_same_names_as_ever() -> None:
    assert REPORT.as_record() == {
        "pipeline": "flights",
        "generation": 2,
        "batch_id": 7,
        "offsets": 1_300,
        "records": 1_200,
        "rows": {"flights": 1_200, "totals": 16},
        "backlog": 5_000,
        "plan_ms": 3,
        "write_ms": 80,
        "commit_ms": 17,
    }
