"""A pipeline that is paused while it runs, under both engines, with a real ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.pipelines import produce_numbers
from tests.real.pipeline.conftest import COUNT, World
from tests.waiting import until

from directkafka import PostgresSink
from directkafka.pipeline.ledger import pause
from directkafka.pipeline.ledger.pause import set_paused

pytestmark = pytest.mark.real


@pytest.mark.parametrize("engine", ["direct", pytest.param("structured", marks=pytest.mark.slow)])
def test_a_paused_pipeline_waits_and_goes_on_where_it_was(
    engine: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pause, "PAUSE_POLL_S", 0.0)
    options: dict[str, Any] = {"engine": engine} | ({"checkpoint": tmp_path / "c"} if engine == "structured" else {})
    pipeline = world.pipeline(trigger="100ms", **options)
    store = PostgresSink(world.dsn, "records").store
    pipeline.start()
    try:
        until(lambda: world.query("SELECT to_regclass('records')") != [(None,)], "its table")
        until(lambda: len(world.numbers()) == COUNT, "what was there")
        with closing(store):
            assert set_paused([store], "numbers", is_paused=True)
            if engine == "structured":
                # Spark decides when a batch begins; the batch waits.
                produce_numbers(world.kafka, world.topic, 30, first=COUNT)
            until(lambda: "is paused, until directkafka resume" in caplog.text, "the pause is seen")
            if engine == "direct":
                produce_numbers(world.kafka, world.topic, 30, first=COUNT)
            assert len(world.numbers()) == COUNT
            assert set_paused([store], "numbers", is_paused=False)
            until(lambda: len(world.numbers()) == COUNT + 30, "it goes on")
    finally:
        pipeline.request_stop()
        pipeline.wait()
    assert world.numbers() == list(range(COUNT + 30))


@pytest.mark.slow
def test_a_paused_query_can_be_stopped(world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(PostgresSink(world.dsn, "records").store) as store:
        set_paused([store], "numbers", is_paused=True)
    pipeline = world.pipeline(engine="structured", checkpoint=tmp_path / "c", trigger="100ms")
    pipeline.start()
    until(lambda: "is paused, until directkafka resume" in caplog.text, "the pause is seen")
    pipeline.request_stop()
    pipeline.wait()
    assert world.query("SELECT to_regclass('records') IS NULL OR NOT EXISTS (SELECT FROM records)") == [(True,)]


def test_a_check_says_that_the_pipeline_is_paused(world: World) -> None:
    pipeline = world.pipeline()
    pipeline.run()
    assert not [remark for remark in pipeline.check() if "paused" in remark]
    with closing(PostgresSink(world.dsn, "records").store) as store:
        set_paused([store], "numbers", is_paused=True)
    assert "the pipeline is paused: it begins no batch before directkafka resume" in pipeline.check()
