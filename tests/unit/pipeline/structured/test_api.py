"""Arguments of the structured engine, and errors on their way through Spark."""

from __future__ import annotations

import threading
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError
from tests.unit.pipeline.fakes import FakeSink, FakeStore, World

import directkafka as dk
from directkafka.errors import FencedError, OptionError
from directkafka.errors.transport import Notes
from directkafka.pipeline.pipeline import Pipeline
from directkafka.pipeline.retry import RetryPolicy, StopAsked
from directkafka.pipeline.status import PipelineStatus
from directkafka.pipeline.structured import engine
from directkafka.pipeline.structured.api import trigger_arguments
from directkafka.pipeline.structured.engine import StructuredEngine

SOURCE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def sink() -> Any:
    return FakeSink(FakeStore(World(), "a"))


def pipeline(**options: Any) -> Pipeline:
    return Pipeline("p", source=SOURCE, transform="SELECT 1", sinks=sink(), **options)


@pytest.mark.parametrize(
    ("trigger", "arguments"),
    [
        ("available-now", {"availableNow": True}),
        ("1s", {"processingTime": "1000 milliseconds"}),
        ("0ms", {"processingTime": "0 milliseconds"}),
    ],
)
def test_triggers_become_spark_s(trigger: str, arguments: dict[str, Any]) -> None:
    assert trigger_arguments(trigger) == arguments


@pytest.mark.parametrize("trigger", [{"delay": "1s"}, {"records": 5, "at_most": "1s"}])
def test_triggers_that_spark_has_not_are_refused_when_the_pipeline_is_made(trigger: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="maxTriggerDelay"):
        pipeline(engine="structured", checkpoint="/c", trigger=trigger)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "structured"}, "needs a folder"),
        ({"engine": "structured", "checkpoint": ""}, "needs a folder"),
        ({"engine": "structured", "checkpoint": 3}, "expected a path, found int"),
        ({"checkpoint": "/c"}, "remove '/c'"),
        ({"engine": "continuous"}, "'direct' or 'structured', found 'continuous'"),
    ],
)
def test_an_engine_and_its_checkpoint_belong_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        pipeline(**options)


def test_a_checkpoint_is_a_path_or_its_text(tmp_path: Path) -> None:
    assert pipeline(engine="structured", checkpoint=tmp_path).checkpoint == str(tmp_path)
    assert dk.foreach_batch("p", sink(), checkpoint=tmp_path).checkpoint == str(tmp_path)
    with pytest.raises(OptionError, match="expected a path, found int"):
        dk.foreach_batch("p", sink(), checkpoint=3)  # type: ignore[arg-type]


def test_a_name_that_no_store_could_keep_is_refused() -> None:
    with pytest.raises(OptionError, match="does not match"):
        dk.foreach_batch("no spaces", sink(), checkpoint="/c")


class IdleQuery:
    """Runs for ever, without batches."""

    is_stopped = False

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
        return False

    def stop(self) -> None:
        self.is_stopped = True


class LookedAt:
    """A batch function whose looks end as the test says."""

    failure = None

    def __init__(self, ended_by: BaseException) -> None:
        self.ended_by = ended_by
        self.is_over = False

    def check_fenced(self) -> None:
        raise self.ended_by

    def end(self) -> None:
        self.is_over = True


def made_engine(monkeypatch: pytest.MonkeyPatch, query: IdleQuery, function: LookedAt) -> StructuredEngine:
    monkeypatch.setattr(engine, "start_query", lambda *arguments, **named: query)
    monkeypatch.setattr(engine, "_FENCE_LOOK_S", 0.0)
    monkeypatch.setattr(StructuredEngine, "_continued_offsets", lambda self: {})
    monkeypatch.setattr(StructuredEngine, "_stream", lambda self, options: (None, None))
    nothing: Any = None
    make_function: Any = lambda transform: function  # noqa: E731
    return StructuredEngine(
        "p", session=nothing, source={}, transform=nothing, routes=(), checkpoint="/c", trigger="1s",
        output_mode="append", make_function=make_function, stop=threading.Event(),
        retry_policy=RetryPolicy(threading.Event(), retry_ms_max=0), status=PipelineStatus("p"),
    )  # fmt: skip


def test_a_stop_in_the_middle_of_an_idle_look_is_a_clean_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store was away when it came."""
    query, function = IdleQuery(), LookedAt(StopAsked("the store is away"))
    made_engine(monkeypatch, query, function).run()
    assert (query.is_stopped, function.is_over) == (True, True)


def test_an_idle_look_that_finds_a_newer_driver_ends_the_query_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    query, function = IdleQuery(), LookedAt(FencedError(store="db", pipeline="p", held=1, found=2))
    with pytest.raises(FencedError):
        made_engine(monkeypatch, query, function).run()
    assert (query.is_stopped, function.is_over) == (True, True)


def test_an_idle_look_leaves_a_run_alone_that_a_failed_batch_has_just_ended() -> None:
    """The batch's own error is what the query ends with."""
    function = dk.foreach_batch("p", sink(), checkpoint="/c")
    ended: Any = threading.Lock()

    class EndsTheRun:
        def acquire(self, *, blocking: bool) -> bool:
            function._run = None
            return bool(ended.acquire(blocking=blocking))

        def release(self) -> None:
            ended.release()

    lock: Any = EndsTheRun()
    function._run, function._batch_lock = cast("Any", object()), lock
    function.check_fenced()
    assert not ended.locked()


@pytest.mark.parametrize("how", ["end", "close", "stop", "kill"])
def test_a_batch_that_waits_in_a_pause_lets_its_query_end(how: str) -> None:
    """The batch holds the function's lock, and Spark's stop waits for the batch."""
    function = dk.foreach_batch("p", sink(), checkpoint="/c")
    query: Any = SimpleNamespace(isActive=True)
    function.query = query
    waiting = threading.Event()

    def wait_in_a_pause() -> None:
        with function._batch_lock:
            while not function._is_unwanted():
                waiting.set()

    batch = threading.Thread(target=wait_in_a_pause, daemon=True)
    batch.start()
    assert waiting.wait(20)
    if how == "stop":
        query.isActive = False
    elif how == "kill":
        function.query = cast("Any", Gone())
    else:
        getattr(function, how)()
    batch.join(20)
    assert not batch.is_alive()


class Gone:
    """A query whose JVM is gone."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        raise Py4JNetworkError("nobody answers")


def test_the_cause_of_a_query_s_end_is_made_again_from_spark_s_text() -> None:
    error = Notes.of_this_process().on(FencedError(store="db", pipeline="p", held=1, found=2))
    text = "[STREAM_FAILED] Query terminated with exception: " + "".join(traceback.format_exception(error))
    cause = dk.cause_of(text)
    assert isinstance(cause, FencedError)
    assert (cause.held, cause.found) == (1, 2)
    assert dk.cause_of("[STREAM_FAILED] something else") is None
