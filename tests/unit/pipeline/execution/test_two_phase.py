"""When writing tasks may run, by what the application's settings say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import EnvironmentFaultError, WorkerLostError
from directkafka.errors.kafka import SecondAttemptError
from directkafka.errors.transport import Notes
from directkafka.pipeline.execution import share_tasks
from directkafka.pipeline.execution.share_tasks import RouteTask
from directkafka.pipeline.execution.two_phase import can_run_barriers, check_speculation, writers_max
from directkafka.row_chunks import rows_of_chunks
from directkafka.sinks.api import TARGET
from directkafka.sinks.kafka.sink import KafkaSink
from directkafka.sinks.postgres.sink import PostgresSink

KAFKA = KafkaSink({"bootstrap.servers": "one:9092"}, "flights")
POSTGRES = PostgresSink("postgresql://one/air", "flights")


def session(slots: int = 0, **settings: str) -> Any:
    """An application of these settings, whose executors have so many slots."""
    configuration = {f"spark.{name.replace('_', '.')}": value for name, value in settings.items()}
    profiles = SimpleNamespace(defaultResourceProfile=lambda: "default")
    in_jvm = SimpleNamespace(
        resourceProfileManager=lambda: profiles, maxNumConcurrentTasks={"default": slots}.__getitem__
    )
    context = SimpleNamespace(
        _conf=SimpleNamespace(get=configuration.get),
        defaultParallelism=int(configuration.get("spark.default.parallelism", 0)),
        _jsc=SimpleNamespace(sc=lambda: in_jvm),
    )
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize(("dynamic", "expected"), [("true", False), ("TRUE", False), ("false", True)])
def test_barriers_need_a_fixed_number_of_executors(dynamic: str, expected: bool) -> None:
    assert can_run_barriers(session(dynamicAllocation_enabled=dynamic)) == expected
    assert can_run_barriers(session())


def test_a_barrier_stage_is_as_large_as_the_executors_have_slots_now() -> None:
    """More than that, and Spark waits for slots that never come."""
    assert writers_max(session(slots=3, default_parallelism="200")) == 3
    with pytest.raises(WorkerLostError, match="no executor now"):
        writers_max(session(slots=0, default_parallelism="200"))


def test_without_barriers_tasks_may_wait_for_executors_that_are_still_to_come() -> None:
    assert writers_max(session(slots=0, dynamicAllocation_enabled="true", default_parallelism="8")) == 8


@pytest.mark.parametrize(("is_claimed", "expected"), [(True, [7]), (False, [])])
def test_a_routing_task_claims_when_its_last_row_is_dealt(
    monkeypatch: pytest.MonkeyPatch, is_claimed: bool, expected: list[int]
) -> None:
    monkeypatch.setattr(share_tasks, "_partition", lambda: 7)
    claimed: list[int] = []
    phase: Any = SimpleNamespace(router=iter, claim_routing=claimed.append, writer_count=2)
    rows = pa.record_batch({"value": [b"a", b"b", b"c"], TARGET: pa.array([2, 1, 0], pa.int32())})
    coming = RouteTask(phase, is_claimed=is_claimed)(iter([rows]))
    shares = [next(coming), next(coming)]
    assert [share.column("share").to_pylist() for share in shares] == [[0], [1]]
    assert [batch.column("value").to_pylist() for batch in rows_of_chunks(shares)] == [[b"a", b"c"], [b"b"]]
    assert claimed == []
    assert list(coming) == []
    assert claimed == expected


def test_a_routing_task_that_is_run_again_tells_the_driver_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_tasks, "_partition", lambda: 3)

    def refuse(partition: int) -> None:
        raise SecondAttemptError(transaction="a/1/2", task=f"route/{partition}")

    phase: Any = SimpleNamespace(router=iter, claim_routing=refuse, writer_count=1)
    with pytest.raises(SecondAttemptError) as caught:
        list(RouteTask(phase, is_claimed=True)(iter([])))
    told = Notes.of_this_process().read("\n".join(caught.value.__notes__))
    assert isinstance(told, SecondAttemptError)
    assert told.task == "route/3"


def test_without_barriers_speculation_must_be_off_where_tasks_write() -> None:
    both = session(dynamicAllocation_enabled="true", speculation="true")
    check_speculation(both, [POSTGRES])
    check_speculation(session(speculation="true"), [KAFKA])
    check_speculation(session(dynamicAllocation_enabled="true"), [KAFKA])
    with pytest.raises(EnvironmentFaultError, match=r"spark\.speculation to false"):
        check_speculation(both, [POSTGRES, KAFKA])
