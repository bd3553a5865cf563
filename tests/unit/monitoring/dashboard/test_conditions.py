"""What a pipeline is said to be, and what is said to have happened to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from directkafka.monitoring.dashboard.conditions import Condition, Limits, Observation, condition_of, events_between
from directkafka.operations.positions import PartitionPosition
from directkafka.pipeline.status import Step

AT_MS = 1_800_000_000_000
LIMITS = Limits(stalled_after_s=600)


def position(lag: int | None = 0, lag_seconds: float | None = 0.0, current: int = 100, number: int = 0) -> Any:
    end = None if lag is None else current + lag
    return PartitionPosition(
        topic="air", partition=number, earliest=0, current=current, end=end, lag=lag, lag_seconds=lag_seconds
    )


def observed(*positions: Any, **changes: Any) -> Observation:
    base = Observation(
        at_ms=AT_MS, positions=positions or (position(),), batch_id=3, generation=1, committed_at_ms=AT_MS - 1_000
    )
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("observation", "condition", "because"),
    [
        (observed(error="StoreError: no"), Condition.UNKNOWN, "StoreError: no"),
        (observed(failure="FencedError", step=Step.ENDED), Condition.FAILED, "FencedError; its log says more"),
        (observed(is_paused=True), Condition.PAUSED, "until directkafka resume"),
        (observed(), Condition.CAUGHT_UP, "everything is read"),
        (observed(position(5, 2.0)), Condition.RUNNING, ""),
        (observed(position(5, 61.0)), Condition.BEHIND, "the oldest unread record is 61 s old"),
        (observed(position(5, 0.0), position(7, 3_700.0)), Condition.BEHIND, "the oldest unread record is 3,700 s old"),
        (observed(position(5, 700.0), committed_at_ms=AT_MS - 601_000), Condition.STANDS_STILL,
         "records are unread, and nothing was committed for 601 s"),
        # It was idle for long, and a record has just come.
        (observed(position(5, 2.0), committed_at_ms=AT_MS - 601_000), Condition.RUNNING, ""),
        (observed(batch_id=None, generation=None, committed_at_ms=None), Condition.NEVER_RAN, "no batch is committed"),
        (observed(position(None, None)), Condition.RUNNING, ""),
        (observed(step=Step.ENDED), Condition.ENDED, "the run is over"),
        (observed(step=Step.STARTING), Condition.STARTING, "no batch is planned yet"),
        (observed(step=Step.RETRYING, step_s=3), Condition.RETRYING, "a step failed, and is tried again"),
        (observed(step=Step.WRITE, step_s=601), Condition.STANDS_STILL, "at the step write for 601 s"),
        (observed(step=Step.WAITING, step_s=6_000), Condition.CAUGHT_UP, "everything is read"),
        (observed(position(5, 61.0), step=Step.COMMIT), Condition.BEHIND, "the oldest unread record is 61 s old"),
    ],
)  # fmt: skip
def test_the_worst_that_is_known_is_the_condition(observation: Observation, condition: Condition, because: str) -> None:
    assert condition_of(observation, LIMITS) == (condition, because)


def told(before: Observation, after: Observation) -> list[tuple[str, str]]:
    conditions = (condition_of(before, LIMITS)[0], condition_of(after, LIMITS)[0])
    return [(event.kind, event.text) for event in events_between(before, after, conditions)]


def test_a_new_generation_is_a_takeover() -> None:
    assert told(observed(), observed(generation=4)) == [("takeover", "generation 4 took over from generation 1")]


def test_a_first_generation_is_none() -> None:
    assert told(observed(generation=None), observed()) == []


def test_a_pause_and_its_end_are_told() -> None:
    assert told(observed(), observed(is_paused=True)) == [("pause", "paused"), ("condition", "caught up → paused")]
    assert told(observed(is_paused=True), observed())[0] == ("pause", "resumed")


def test_offsets_that_go_back_are_told_for_three_partitions() -> None:
    before = [position(number=number) for number in range(5)]
    after = [position(number=number, current=10 if number < 4 else 200) for number in range(5)]
    assert told(observed(*before), observed(*after)) == [
        ("rewind", "set back: air-0 from 100 to 10, air-1 from 100 to 10, air-2 from 100 to 10, and 1 more")
    ]


def test_what_could_not_be_observed_has_neither_taken_over_nor_gone_back() -> None:
    unknown = Observation(at_ms=AT_MS, error="StoreError: no")
    assert told(observed(), unknown) == [("condition", "caught up → unknown")]
    assert told(unknown, observed(generation=9)) == [("condition", "unknown → caught up")]
