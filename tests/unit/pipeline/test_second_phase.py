"""When writing tasks may run, by what the application's settings say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.errors import EnvironmentFaultError
from directkafka.pipeline.second_phase import can_run_barriers, check_speculation
from directkafka.sinks.kafka import KafkaSink
from directkafka.sinks.postgres import PostgresSink

KAFKA = KafkaSink({"bootstrap.servers": "one:9092"}, "flights")
POSTGRES = PostgresSink("postgresql://one/air", "flights")


def session(**settings: str) -> Any:
    found = {f"spark.{name.replace('_', '.')}": value for name, value in settings.items()}
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: SimpleNamespace(get=found.get)))


@pytest.mark.parametrize(("dynamic", "expected"), [("true", False), ("TRUE", False), ("false", True)])
def test_barriers_need_a_fixed_number_of_executors(dynamic: str, expected: bool) -> None:
    assert can_run_barriers(session(dynamicAllocation_enabled=dynamic)) == expected
    assert can_run_barriers(session())


def test_without_barriers_speculation_must_be_off_where_tasks_write() -> None:
    both = session(dynamicAllocation_enabled="true", speculation="true")
    check_speculation(both, [POSTGRES])
    check_speculation(session(speculation="true"), [KAFKA])
    check_speculation(session(dynamicAllocation_enabled="true"), [KAFKA])
    with pytest.raises(EnvironmentFaultError, match=r"spark\.speculation to false"):
        check_speculation(both, [POSTGRES, KAFKA])
