"""Health: what turns and what is ready, by what a pipeline does and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from directkafka.monitoring.health import liveness, readiness
from directkafka.pipeline.status import StatusView, Step


def view(step: Step, **fields: Any) -> StatusView:
    return StatusView(**({"pipeline": "flights", "step": step, "is_ready": True} | fields))


@pytest.mark.parametrize("step", [step for step in Step if step not in {Step.ENDED, Step.WAITING, Step.PAUSED}])
def test_a_pipeline_turns_as_long_as_no_step_takes_too_long(step: Step) -> None:
    assert liveness([(view(step), 599.0)], stalled_after_s=600).is_healthy
    stalled = liveness([(view(step), 601.0)], stalled_after_s=600)
    assert not stalled.is_healthy
    assert stalled.pipelines[0]["fault"] == f"has been at the step {step} for more than 600 s"


@pytest.mark.parametrize("step", [Step.WAITING, Step.PAUSED])
def test_a_pipeline_that_waits_turns_however_long_it_waits(step: Step) -> None:
    assert liveness([(view(step), 9e9)], stalled_after_s=600).is_healthy


def test_a_pipeline_that_has_ended_is_well_and_one_that_failed_is_not() -> None:
    assert liveness([(view(Step.ENDED), 9e9)], stalled_after_s=600).is_healthy
    failed = liveness([(view(Step.ENDED, failure="FencedError: newer"), 1.0)], stalled_after_s=600)
    assert (failed.is_healthy, failed.pipelines[0]["fault"]) == (False, "FencedError; the log says more")


@pytest.mark.parametrize(
    ("step", "fields", "fault"),
    [
        (Step.STARTING, {"is_ready": False}, "has not made its first plan"),
        (Step.PLAN, {"is_ready": False}, "has not made its first plan"),
        (Step.RETRYING, {"is_retrying": True}, "a step failed, and is tried again"),
        (Step.ENDED, {"is_ready": False}, "has ended"),
        (Step.ENDED, {"failure": "OptionError: x"}, "OptionError; the log says more"),
        (Step.PLAN, {"is_retrying": True}, "a step failed, and is tried again"),
        (Step.PAUSED, {"is_ready": False, "is_paused": True, "generation": 3}, None),
        (Step.PAUSED, {"is_ready": False, "is_paused": True}, "has not made its first plan"),
        (Step.WAITING, {}, None),
        (Step.PAUSED, {}, None),
        (Step.WRITE, {}, None),
        (Step.COMMIT, {}, None),
    ],
)
def test_a_pipeline_is_ready_once_its_first_plan_is_made_and_while_nothing_fails(
    step: Step, fields: dict[str, Any], fault: str | None
) -> None:
    health = readiness([(view(step, **fields), 1.0)])
    assert (health.is_healthy, health.pipelines[0]["fault"]) == (fault is None, fault)


def test_a_plan_that_takes_long_waits_for_kafka() -> None:
    assert readiness([(view(Step.PLAN), 4.0)]).is_healthy
    health = readiness([(view(Step.PLAN), 6.0)])
    assert (health.is_healthy, health.pipelines[0]["fault"]) == (
        False,
        "has been planning for more than 5 s: Kafka or the ledger does not answer",
    )


def test_one_pipeline_that_is_not_well_is_enough() -> None:
    both = [(view(Step.WAITING), 1.0), (view(Step.WRITE, pipeline="late"), 700.0)]
    assert not liveness(both, stalled_after_s=600).is_healthy
    assert readiness(both).is_healthy


def test_without_a_pipeline_a_process_lives_and_is_not_ready() -> None:
    assert liveness([], stalled_after_s=600).is_healthy
    assert not readiness([]).is_healthy
