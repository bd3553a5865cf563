"""Arguments of the structured engine, and errors on their way through Spark."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from tests.unit.pipeline.fakes import FakeSink, FakeStore, World

import directkafka as dk
from directkafka.error_notes import with_note
from directkafka.errors import FencedError, OptionError
from directkafka.pipeline.pipeline import Pipeline
from directkafka.pipeline.structured import trigger_arguments

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
    ("options", "said"),
    [
        ({"engine": "structured"}, "needs a folder"),
        ({"engine": "structured", "checkpoint": ""}, "needs a folder"),
        ({"checkpoint": "/c"}, "remove '/c'"),
        ({"engine": "continuous"}, "'direct' or 'structured', found 'continuous'"),
    ],
)
def test_an_engine_and_its_checkpoint_belong_together(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        pipeline(**options)


def test_a_name_that_no_store_could_keep_is_refused() -> None:
    with pytest.raises(OptionError, match="does not match"):
        dk.foreach_batch("no spaces", sink(), checkpoint="/c")


def test_the_cause_of_a_query_s_end_is_made_again_from_spark_s_text() -> None:
    error = with_note(FencedError(store="db", pipeline="p", held=1, found=2))
    text = "[STREAM_FAILED] Query terminated with exception: " + "".join(traceback.format_exception(error))
    found = dk.cause_of(text)
    assert isinstance(found, FencedError)
    assert (found.held, found.found) == (1, 2)
    assert dk.cause_of("[STREAM_FAILED] something else") is None
