"""The board: what it keeps of observations, and that nobody waits for one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.monitoring.dashboard.test_conditions import AT_MS, LIMITS, observed, position
from tests.waiting import until

from directkafka.monitoring.dashboard.board import Board, BoardPipeline
from directkafka.monitoring.dashboard.conditions import Observation
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.status import FinishedBatch, PipelineStatus

SPACED_MS = 5_000


class Given:
    """Observes what it is given, the last one for ever."""

    def __init__(self, *observations: Observation) -> None:
        self.left = list(observations)
        self.closed = 0

    def observe(self) -> Observation:
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def close(self) -> None:
        self.closed += 1


def kept(*observations: Observation) -> dict[str, Any]:
    pipeline = BoardPipeline("numbers", Given(observed()))
    for number, observation in enumerate(observations):
        pipeline.add(replace(observation, at_ms=AT_MS + number * SPACED_MS), LIMITS)
    return pipeline.whole()


def test_rates_are_those_between_two_observations() -> None:
    whole = kept(observed(records=100, rows=10), observed(records=600, rows=20))
    assert (whole["records_per_s"], whole["rows_per_s"]) == (100, 2)
    assert whole["history"]["records_per_s"] == [None, 100]


def test_a_pipeline_that_was_set_back_has_no_negative_rate() -> None:
    assert kept(observed(records=600), observed(records=100))["records_per_s"] == 0


def test_while_nothing_can_be_observed_the_last_that_was_known_is_shown() -> None:
    whole = kept(observed(position(5, 2.0), records=1), Observation(at_ms=0, error="StoreError: gone"))
    assert (whole["condition"], whole["because"]) == ("unknown", "StoreError: gone")
    assert (whole["lag"], whole["batch_id"], whole["records_per_s"]) == (5, 3, None)
    assert whole["history"]["lag"] == [5, None]
    # The rate after it is that of the whole time.
    again = kept(observed(records=1), Observation(at_ms=0, error="StoreError: gone"), observed(records=101))
    assert again["records_per_s"] == 10


def test_a_pipeline_that_was_never_observed_is_told_as_such() -> None:
    whole = BoardPipeline("numbers", Given(observed())).whole()
    assert (whole["condition"], whole["because"], whole["lag"]) == ("starting", "not observed yet", None)


def of_ledger(batch_id: int, current: int, **changes: Any) -> Observation:
    """What a ledger tells: offsets, and no count of records."""
    given = {"lineage": "first", "committed_at_ms": AT_MS + batch_id, "rows": 10 * batch_id, **changes}
    return observed(position(0, 0.0, current=current), batch_id=batch_id, **given)


def test_the_batches_of_a_ledger_are_those_since_the_last_look() -> None:
    whole = kept(of_ledger(3, 1_000), of_ledger(3, 1_000), of_ledger(5, 1_600, generation=2))
    assert whole["batches"] == [
        {"batch_id": 5, "batch_count": 2, "generation": 2, "committed_at_ms": AT_MS + 5, "records": 600, "rows": 20,
         "plan_ms": None, "write_ms": None, "commit_ms": None}
    ]  # fmt: skip
    assert whole["records_per_s"] == 120
    assert [event["text"] for event in whole["events"]] == ["generation 2 took over from generation 1"]


def test_what_was_never_seen_before_is_not_taken_for_records_that_were_read() -> None:
    never = observed(batch_id=None, generation=None, positions=())
    far = of_ledger(1, 5_000_000_000)
    gone = Observation(at_ms=0, error="StoreError: gone")
    for before in (never, gone):
        whole = kept(before, far)
        assert not any(rate for rate in whole["history"]["records_per_s"])
        assert [batch["records"] for batch in whole["batches"] if batch["records"]] == []


def test_offsets_that_a_reset_skips_are_not_taken_for_records_that_were_read() -> None:
    whole = kept(of_ledger(3, 1_000), of_ledger(4, 5_000_000_000, lineage="second"))
    assert whole["records_per_s"] is None
    assert [(batch["records"], batch["batch_count"]) for batch in whole["batches"]] == [(None, 1)]


def test_a_partition_that_is_new_does_not_count_up_to_its_offset() -> None:
    before = of_ledger(3, 1_000)
    after = replace(of_ledger(4, 1_010), positions=(position(current=1_010), position(current=9_000_000, number=1)))
    assert kept(before, after)["batches"][0]["records"] == 10


def test_a_pipeline_that_could_not_be_observed_for_long_is_unknown() -> None:
    pipeline = BoardPipeline("numbers", Given(observed()))
    pipeline.set_interval(5)
    pipeline.add(replace(observed(), at_ms=int(time.time() * 1000) - 60_000), LIMITS)
    summary = pipeline.summary()
    assert summary["condition"] == "unknown"
    assert "could not be observed for 6" in summary["because"]


def test_the_batches_of_this_process_come_with_their_times() -> None:
    batches = tuple(
        FinishedBatch(
            batch_id=number, generation=1, committed_at_ms=AT_MS, records=1, rows=1, plan_ms=1, write_ms=2, commit_ms=3
        )
        for number in range(3)
    )
    whole = kept(observed(batches=batches[:1]), observed(batches=batches))
    assert [(batch["batch_id"], batch["write_ms"]) for batch in whole["batches"]] == [(0, 2), (1, 2), (2, 2)]


def test_the_partitions_that_are_furthest_behind_come_first() -> None:
    lags = [3, None, 9, 9, 0]
    whole = kept(observed(*(position(lag, 1.0, number=number) for number, lag in enumerate(lags))))
    assert [each["partition"] for each in whole["positions"]] == [2, 3, 0, 1, 4]
    assert (whole["lag"], whole["partitions"]) == (21, 5)


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board({}, limits=LIMITS, every_s=0.05)
    yield board
    board.close()


def names_and_batches(board: Board) -> dict[str, int | None]:
    return {each["name"]: each["batch_id"] for each in json.loads(board.summaries())["pipelines"]}


def test_a_pipeline_that_starts_in_this_process_appears_and_so_does_each_batch(board: Board) -> None:
    board.start()
    status = PipelineStatus("board-1")
    status.started()
    until(lambda: "board-1" in names_and_batches(board), "it does not appear")
    report = BatchReport(
        pipeline="board-1", generation=1, batch_id=7, offsets=5, records=5, rows={"t": 5}, backlog=0, plan_ms=1,
        write_ms=2, commit_ms=3,
    )  # fmt: skip
    status.committed(report, {})
    until(lambda: names_and_batches(board)["board-1"] == 7, "the batch is not seen")
    whole = board.pipeline("board-1") or {}
    assert [batch["commit_ms"] for batch in whole["batches"]] == [3]
    # Another run of this name takes its place.
    PipelineStatus("board-1").started()
    until(lambda: names_and_batches(board)["board-1"] is None, "the old run is still shown")


def test_who_closes_a_board_closes_its_observers() -> None:
    board = Board({}, limits=LIMITS)
    observer = Given(observed())
    board._pipelines["numbers"] = BoardPipeline("numbers", observer)
    board.close()
    assert observer.closed == 1


def test_while_nobody_looks_pipelines_are_observed_less_often_and_at_once_when_somebody_does() -> None:
    board = Board({}, limits=LIMITS, every_s=1.0)
    pipeline = board._pipelines["numbers"] = BoardPipeline("numbers", Given(observed()))
    board._requested_s -= 3_600
    taken, _ = board._take()
    assert taken is pipeline
    assert pipeline.due_s - time.monotonic() > 20
    board.summaries()
    assert pipeline.due_s == 0
    pipeline.is_busy = False
    board._take()
    assert pipeline.due_s - time.monotonic() <= 1
    board.close()


def test_an_observer_that_hangs_holds_up_no_request(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, released = threading.Event(), threading.Event()

    def observe(_: object) -> Observation:
        hangs.set()
        released.wait(30)
        return observed()

    monkeypatch.setattr("directkafka.monitoring.dashboard.observers.LedgerObserver.observe", observe)
    hung = Board({"of a file": Path("numbers.toml")}, limits=LIMITS)
    hung.start()
    try:
        assert hangs.wait(10)
        before_s = time.monotonic()
        assert "not observed yet" in hung.summaries().decode()
        assert hung.pipeline("of a file") is not None
        assert hung.pipeline("others") is None
        assert time.monotonic() - before_s < 5
    finally:
        released.set()
        hung.close()


def test_an_observer_with_a_fault_is_told_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[int] = []

    def observe(_: object) -> Observation:
        tried.append(1)
        if len(tried) == 1:
            raise ZeroDivisionError
        return observed()

    monkeypatch.setattr("directkafka.monitoring.dashboard.observers.LedgerObserver.observe", observe)
    board = Board({"of a file": Path("numbers.toml")}, limits=LIMITS, every_s=0.05)
    board.start()
    try:
        until(lambda: names_and_batches(board)["of a file"] == 3, "it is not observed again")
    finally:
        board.close()
    assert "of a file could not be observed" in caplog.text
    events = (board.pipeline("of a file") or {})["events"]
    assert events[0]["text"] == "unknown → caught up"
