"""Health of the pipelines of this process, decided from what they have told: whether they are alive, and whether ready.

A pipeline that cannot reach Kafka or its store is alive but not ready. One that waits for new records is both. A step
that takes too long has stalled: a worker hangs, or somebody else holds a lock. Waiting and a pause may take any time. A
restart loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from directkafka.pipeline.status import StatusView, Step

#: If planning takes longer than this, in seconds, Kafka or the ledger does not answer. The try fails much later.
_PLAN_S_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Result of a health check.

    Attributes:
        is_healthy: whether no pipeline has a fault.
        pipelines: of each, what it does, and what is wrong with it.
    """

    is_healthy: bool
    pipelines: tuple[dict[str, Any], ...]

    def as_record(self) -> dict[str, Any]:
        """For printing."""
        return {"status": "ok" if self.is_healthy else "unavailable", "pipelines": list(self.pipelines)}


def liveness(pipelines: Sequence[tuple[StatusView, float]], *, stalled_after_s: float) -> Health:
    """Whether every pipeline is alive: none has failed, and none has stalled.

    Args:
        pipelines: each one, and seconds since it last showed activity.
        stalled_after_s: how long a step may take, in seconds.
    """

    def fault(view: StatusView, age_s: float) -> str | None:
        if view.step is Step.ENDED:
            return _failure(view)
        is_stalled = age_s > stalled_after_s and view.step not in {Step.WAITING, Step.PAUSED}
        return f"has been at the step {view.step} for more than {stalled_after_s:g} s" if is_stalled else None

    faults = [fault(view, age_s) for view, age_s in pipelines]
    return _health(pipelines, faults)


def readiness(pipelines: Sequence[tuple[StatusView, float]]) -> Health:
    """Whether every pipeline can process data now, or is paused while it holds its stores.

    Args:
        pipelines: as for :func:`liveness`.
    """

    def fault(view: StatusView, age_s: float) -> str | None:
        if view.step is Step.ENDED:
            return _failure(view) or "has ended"
        if view.is_retrying:
            return "a step failed, and is tried again"
        if view.step is Step.PLAN and age_s > _PLAN_S_MAX:
            return f"has been planning for more than {_PLAN_S_MAX:g} s: Kafka or the ledger does not answer"
        is_held = view.is_paused and view.generation is not None
        return None if view.is_ready or is_held else "has not made its first plan"

    health = _health(pipelines, [fault(view, age_s) for view, age_s in pipelines])
    # Before the first pipeline has started, nothing is ready.
    return Health(is_healthy=health.is_healthy and bool(pipelines), pipelines=health.pipelines)


def _failure(view: StatusView) -> str | None:
    return None if view.failure_type is None else f"{view.failure_type}; the log says more"


def _health(pipelines: Sequence[tuple[StatusView, float]], faults: Sequence[str | None]) -> Health:
    return Health(
        is_healthy=not any(faults),
        pipelines=tuple(
            {
                "pipeline": view.pipeline,
                "step": str(view.step),
                "step_seconds": round(age_s, 3),
                "generation": view.generation,
                "batch_id": view.batch_id,
                "fault": fault,
            }
            for (view, age_s), fault in zip(pipelines, faults, strict=True)
        ),
    )
