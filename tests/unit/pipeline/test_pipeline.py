"""The public object: what it refuses, and how starts, stops and failures meet. The engine is a stand-in."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.pipeline.fakes import FakeSink, FakeStore, World

from directkafka.errors import AlreadyRunningError, FencedError, OptionError
from directkafka.pipeline.pipeline import Pipeline
from directkafka.pipeline.replay.selection import ReplaySelection
from directkafka.pipeline.verify import verify
from directkafka.sinks.kafka.sink import KafkaSink

PATIENCE_S = 60.0
FENCED = FencedError(store="a", pipeline="flights", held=1, found=2)


class StandIn(Pipeline):
    """A pipeline whose engine is a function of the stop event."""

    work: Callable[[threading.Event], None]

    def _engine(self) -> Any:
        work, stop = self.work, self._stop

        class Engine:
            def run(self) -> None:
                work(stop)

        return Engine()

    def _replay_engine(self, choice: Any, report: Any) -> Any:
        stop = self._stop

        class Engine:
            def run(self) -> None:
                report(None)
                until_stopped(stop)

        return Engine()


def stand_in(work: Callable[[threading.Event], None], **options: Any) -> StandIn:
    sink: Any = FakeSink(FakeStore(World(), "a"))
    arguments: dict[str, Any] = {
        "source": {"kafka.bootstrap.servers": "h:1", "subscribe": "t"},
        "transform": "SELECT 1",
        "sinks": sink,
    }
    pipeline = StandIn(options.pop("name", "flights"), **(arguments | options))
    pipeline.work = work
    return pipeline


def until_stopped(stop: threading.Event) -> None:
    assert stop.wait(PATIENCE_S)


def fail(stop: threading.Event) -> None:
    raise FENCED


@pytest.mark.parametrize("name", ["", "my flights", "flights/1", "-x", "x" * 201, "x\n"])
def test_a_name_that_cannot_be_part_of_names_in_a_store_is_refused(name: str) -> None:
    with pytest.raises(OptionError) as raised:
        stand_in(until_stopped, name=name)
    assert raised.value.option == "name"


@pytest.mark.parametrize("sinks", [[], {}, {"default": []}])
def test_a_pipeline_without_a_sink_is_refused(sinks: object) -> None:
    with pytest.raises(OptionError, match="at least one sink"):
        stand_in(until_stopped, sinks=sinks)


@pytest.mark.parametrize("options", [{"engine": "structured"}, {"checkpoint": "/tmp/x"}, {"trigger": 5}])
def test_options_of_another_engine_or_of_a_wrong_type_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        stand_in(until_stopped, **options)


def test_outputs_are_bound_to_their_sinks_in_the_listed_order() -> None:
    first_sink, two, three = (FakeSink(FakeStore(World(), "a"), name) for name in "abc")
    pipeline = stand_in(until_stopped, sinks={"x": [first_sink, two], "y": three})
    assert [(route.output, route.sink.name) for route in pipeline.routes] == [
        ("x", "a"),
        ("x", "b"),
        ("y", "c"),
    ]


def test_a_started_pipeline_stops_when_it_is_told_to() -> None:
    reached: list[str] = []

    def work(stop: threading.Event) -> None:
        until_stopped(stop)
        reached.append("the end")

    pipeline = stand_in(work)
    pipeline.start()
    assert reached == []
    pipeline.stop()
    assert reached == ["the end"]


def test_a_signal_that_another_thread_took_is_seen_by_the_one_that_waits() -> None:
    """The kernel may give it to any thread, and Python runs the handler in the main one, which waits for the end."""
    waiting = threading.get_ident()

    def is_in_join() -> bool:
        return sys._current_frames()[waiting].f_code.co_name in ("join", "_wait_for_tstate_lock")

    def work(stop: threading.Event) -> None:
        while not is_in_join():
            stop.wait(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        until_stopped(stop)

    pipeline = stand_in(work)
    before = signal.signal(signal.SIGTERM, lambda *_: pipeline.request_stop())
    try:
        pipeline.start()
        pipeline.wait()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_the_thread_died_of_is_raised_once_where_it_is_waited_for() -> None:
    pipeline = stand_in(fail)
    pipeline.start()
    with pytest.raises(FencedError):
        pipeline.wait()
    pipeline.wait()


def test_a_failure_that_nobody_waited_for_is_raised_by_the_next_start_and_not_lost() -> None:
    pipeline = stand_in(fail)
    pipeline.start()
    thread = pipeline._thread
    assert thread is not None
    thread.join(PATIENCE_S)
    with pytest.raises(FencedError):
        pipeline.start()


def test_a_pipeline_that_runs_is_not_started_twice() -> None:
    pipeline = stand_in(until_stopped)
    pipeline.start()
    try:
        with pytest.raises(AlreadyRunningError, match="'flights' is running already"):
            pipeline.start()
        with pytest.raises(AlreadyRunningError):
            pipeline.run()
    finally:
        pipeline.stop()


def test_who_looks_at_a_pipeline_does_so_through_stores_of_his_own() -> None:
    """Closing those must end nothing of a run."""
    sink = KafkaSink({"bootstrap.servers": "h:1"}, "flights")
    pipeline = stand_in(until_stopped, sinks={"a": [sink, sink], "b": sink})
    routes = pipeline.routes_to_look_at()
    assert [(route.output, repr(route.sink)) for route in routes] == [
        ("a", repr(sink)),
        ("a", repr(sink)),
        ("b", repr(sink)),
    ]
    assert all(route.sink.store is not sink.store for route in routes)


def test_a_sink_that_cannot_be_made_again_is_not_looked_at_while_it_runs() -> None:
    pipeline = stand_in(until_stopped)
    assert pipeline.routes_to_look_at() == pipeline.routes
    pipeline.start()
    try:
        with pytest.raises(AlreadyRunningError):
            pipeline.check()
        with pytest.raises(AlreadyRunningError):
            verify(pipeline)
    finally:
        pipeline.stop()


def test_a_stop_that_is_asked_for_before_the_start_counts() -> None:
    runs: list[str] = []
    pipeline = stand_in(lambda stop: runs.append("ran"))
    pipeline.request_stop()
    pipeline.start()
    pipeline.wait()
    assert runs == []


def test_a_stop_counts_once() -> None:
    runs: list[str] = []
    pipeline = stand_in(lambda stop: runs.append("ran"))
    pipeline.request_stop()
    pipeline.run()
    pipeline.run()
    assert runs == ["ran"]


def test_stopping_what_does_not_run_leaves_nothing_behind() -> None:
    runs: list[str] = []
    pipeline = stand_in(lambda stop: runs.append("ran"))
    pipeline.stop()
    pipeline.run()
    assert runs == ["ran"]


def test_a_pipeline_may_be_stopped_from_its_own_thread() -> None:
    pipeline: StandIn

    def stop_oneself(stop: threading.Event) -> None:
        pipeline.stop()
        assert stop.is_set()

    pipeline = stand_in(stop_oneself)
    pipeline.run()
    pipeline.start()
    pipeline.wait()


def test_a_replay_may_be_stopped_from_its_own_report(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = stand_in(until_stopped)
    choice = SimpleNamespace(dead_letters=SimpleNamespace(is_there=True))
    monkeypatch.setattr(ReplaySelection, "of", lambda *_, **__: choice)
    stopper = threading.Thread(target=lambda: pipeline.replay(report=lambda _: pipeline.stop()), daemon=True)
    stopper.start()
    stopper.join(PATIENCE_S)
    assert not stopper.is_alive(), "it only asks: who waits for the end of the replay is the replay"
    pipeline.request_stop()
    pipeline.run()


def test_stop_waits_for_a_run_in_another_thread() -> None:
    entered, ended = threading.Event(), threading.Event()

    def work(stop: threading.Event) -> None:
        entered.set()
        until_stopped(stop)
        ended.set()

    pipeline = stand_in(work)
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    assert entered.wait(PATIENCE_S)
    pipeline.stop()
    assert ended.is_set()
    thread.join(PATIENCE_S)


def test_a_wrong_option_of_the_source_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(
        '[pipeline]\nname = "f"\n[source]\n"kafka.bootstrap.servers" = "h:1"\nsubscribee = "t"\n'
        '[transform]\nsql = "SELECT 1"\n[[sink]]\ntype = "postgres"\ndsn = "host=db"\ntable = "t"\n'
    )
    with pytest.raises(OptionError, match="subscribee") as raised:
        Pipeline.from_toml(path)
    assert str(path) in raised.value.where
