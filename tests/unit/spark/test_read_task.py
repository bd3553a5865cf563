"""What a task does before it reads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange
from directkafka.options.client import ClientOptions
from directkafka.spark import read_task
from directkafka.spark.read_task import read_for_spark

EMPTY = RangeTask(
    range=OffsetRange("flights", 0, 5, 5),
    topic_id="",
    host="",
    port=0,
    client=ClientOptions(bootstrap_servers=("localhost:9092",)),
)


@pytest.mark.parametrize(("attempt", "closed"), [(None, 0), (0, 0), (1, 1), (3, 1)])
def test_a_second_attempt_uses_no_connection_of_the_first(
    attempt: int | None, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = None if attempt is None else SimpleNamespace(attemptNumber=lambda: attempt)
    monkeypatch.setattr(TaskContext, "get", staticmethod(lambda: context))
    calls: list[None] = []
    monkeypatch.setattr(read_task, "close_idle", lambda: calls.append(None))
    assert list(read_for_spark(EMPTY, Notes.of_this_process())) == []
    assert len(calls) == closed
