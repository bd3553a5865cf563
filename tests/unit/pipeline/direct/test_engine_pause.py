"""A paused pipeline among fakes: it waits behind the batch in flight, and goes on where it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.pipeline.fakes import Bench, bench

from directkafka.errors import FencedError, StoreAccessError
from directkafka.pipeline.ledger.pause import PAUSE_POLL_S
from directkafka.planning.trigger import Interval
from directkafka.sinks.api import LedgerEntry

PAUSE = LedgerEntry(
    pipeline="flights.paused", generation=1, lineage="x", batch_id=0, progress=(), committed_at_ms=1_700_000_000_000
)


def paused(*, waits: int) -> Bench:
    """A pipeline that runs at intervals, paused from the start, whose driver is stopped after so many waits."""
    driver = bench(latest=10, trigger=Interval(1_000), stop_after_waits=waits)
    driver.stores[0].pause = PAUSE
    return driver


def test_a_paused_pipeline_begins_no_batch_until_it_is_resumed(caplog: pytest.LogCaptureFixture) -> None:
    driver = paused(waits=6)
    wait = driver.stop.wait

    def resume_later(timeout: float | None = None) -> bool:
        if len(driver.stop.waits_s) == 3:
            assert driver.writer.written == []
            driver.stores[0].pause = None
        return wait(timeout)

    driver.stop.wait = resume_later  # type: ignore[method-assign]
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 10)")]
    assert driver.stop.waits_s[:4] == [PAUSE_POLL_S] * 4
    told = [record.getMessage() for record in caplog.records if record.name == "directkafka.pipeline"]
    assert sum("is paused, until directkafka resume" in line for line in told) == 1


def test_a_paused_run_of_what_is_there_ends_at_once() -> None:
    driver = bench(latest=10)
    driver.stores[0].pause = PAUSE
    driver.engine.run()
    assert driver.writer.written == []
    assert driver.stop.waits_s == []


def test_a_paused_driver_still_learns_that_a_newer_one_has_come() -> None:
    driver = paused(waits=50)
    wait = driver.stop.wait

    def passed_later(timeout: float | None = None) -> bool:
        if len(driver.stop.waits_s) == 2:
            driver.stores[0].generation += 1
        return wait(timeout)

    driver.stop.wait = passed_later  # type: ignore[method-assign]
    with pytest.raises(FencedError):
        driver.engine.run()
    assert len(driver.stop.waits_s) == 3


def test_who_may_not_look_for_a_pause_runs_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    driver = bench(latest=10)
    read = driver.stores[0].read

    def refused(pipeline: str) -> LedgerEntry | None:
        if pipeline.endswith(".paused"):
            raise StoreAccessError(store="a", cause="not allowed", remedy="Ask.")
        return read(pipeline)

    driver.stores[0].read = refused  # type: ignore[method-assign]
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 10)")]
    assert "cannot be paused" in caplog.text


def test_a_pause_is_an_entry_of_its_own() -> None:
    """It has neither the pipeline's offsets nor its lineage, and moves neither."""
    driver = bench(latest=10)
    driver.engine.run()
    before = driver.stores[0].entry
    driver.stores[0].pause = replace(PAUSE, generation=99)
    driver.engine.run()
    assert before is not None
    assert driver.stores[0].entry is before
