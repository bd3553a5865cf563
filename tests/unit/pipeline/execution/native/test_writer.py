"""A native batch that turns out to be large."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.pipeline.execution.kept import Keeper
from directkafka.pipeline.execution.native import writer as module
from directkafka.pipeline.execution.native.writer import NativeWriter
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.second_phases import Part
from directkafka.sinks.api import BatchAttempt, TaskReport

NAME = BatchAttempt(pipeline="flights", generation=1, batch_id=7, attempt="the first try")


class Sink:
    """Large in some of the runs of a batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.store = SimpleNamespace(identity="a store")
        self.capabilities = SimpleNamespace(has_second_phase=True, allows_prefetch=False)

    def needs_second_phase(self, reports: Collection[TaskReport]) -> bool:
        return any(report.staged for report in reports)


class Writer(NativeWriter):
    """Runs no job: the parts of each run are what a test says."""

    def __init__(self, sinks: list[Sink], runs: list[set[str]]) -> None:
        routes: list[Any] = [Route(output=sink.name, sink=sink) for sink in sinks]  # type: ignore[arg-type]
        unused: Any = None
        super().__init__(unused, unused, unused, routes, by_spark=unused)
        self._runs = iter(runs)
        self.attempts: list[str] = []
        #: The tries whose rows are kept.
        self.kept: list[str] = []

    def _write(
        self, name: BatchAttempt, tasks: Any, wanted: Any, keeper: Keeper
    ) -> tuple[list[Part], dict[str, ReadCount]]:
        assert self.kept == [], "what an earlier try has kept is not freed"
        self.attempts.append(name.attempt)
        self.kept.append(name.attempt)
        keeper._until.callback(self.kept.remove, name.attempt)
        large = next(self._runs)
        parts = []
        for route in wanted:
            report = TaskReport(rows=1, attempt="task", staged=route.output in large)
            output: Any = None
            parts.append(Part(route.sink, output, (report,), is_of_chunks=id(route.sink) in self._large))
        return parts, {"t": ReadCount(10, 0)}


@pytest.mark.parametrize(
    ("runs", "count"),
    [
        ([set()], 1),
        ([{"a"}, {"a"}], 2),
        # Another one is large when the first is kept, and what was kept is small for once.
        ([{"a"}, {"a", "b"}, {"a", "b"}], 3),
        ([{"a"}, {"b"}, {"a", "b"}], 3),
    ],
)
def test_what_takes_a_second_phase_is_kept_and_each_run_is_a_try_of_its_own(
    runs: list[set[str]], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[Part] = []
    writer = Writer([Sink("a"), Sink("b")], runs)

    def finish(parts: list[Part], *_: object) -> tuple[()]:
        assert writer.kept == writer.attempts[-1:], "the second phases need what the last try has kept"
        finished.extend(parts)
        return ()

    monkeypatch.setattr(module, "finish_parts", finish)
    written = writer.write(NAME, (), stores={"a store"})
    assert len(writer.attempts) == len(set(writer.attempts)) == count
    assert written.name.attempt == writer.attempts[-1]
    assert writer.kept == []
    assert all(part.is_of_chunks for part in finished if part.needs_second_phase)
    # The next batch keeps them from its first run on.
    writer._runs = iter([runs[-1]])
    writer.write(NAME, (), stores={"a store"})
    assert len(writer.attempts) == count + 1
