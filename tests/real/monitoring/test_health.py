"""Health and readiness over HTTP, of pipelines whose Kafka, database, workers and locks are held up."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import conninfo
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.processes import arguments_of, suspend
from tests.real.monitoring.conftest import Web
from tests.real.pipeline.conftest import COUNT, World
from tests.real.proxy import TcpProxy
from tests.topics import make_topic
from tests.waiting import until

import directkafka
from directkafka import Pipeline, PostgresSink, SQLiteSink
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real


def fault(web: Web, path: str, pipeline: str = "numbers") -> tuple[int, str | None]:
    """The status of an answer, and what it says is wrong with the pipeline."""
    status, text = web.get(path)
    faults = [health["fault"] for health in json.loads(text)["pipelines"] if health["pipeline"] == pipeline]
    return status, faults[0] if faults else "is not there"


def of_this(web: Web, path: str) -> str | None:
    """What is wrong with the pipeline of the test; others of this process have ended somehow."""
    return fault(web, path)[1]


@pytest.mark.parametrize("engine", ["direct", pytest.param("structured", marks=pytest.mark.slow)])
def test_a_pipeline_is_ready_once_it_has_its_stores_and_a_plan(
    engine: str, world: World, web: Web, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"engine": engine} | ({"checkpoint": tmp_path / "c"} if engine == "structured" else {})
    world.pipeline(**options).run()
    assert of_this(web, "/readyz") == "has ended"
    assert of_this(web, "/healthz") is None
    # With nothing to read, too.
    pipeline = world.pipeline(trigger="100ms", **options)
    pipeline.start()
    try:
        assert of_this(web, "/readyz") is not None
        until(lambda: of_this(web, "/readyz") is None, "it is never ready")
        assert of_this(web, "/healthz") is None
    finally:
        pipeline.stop()
    assert of_this(web, "/readyz") == "has ended"


@pytest.mark.slow
def test_a_database_that_is_away_makes_a_pipeline_unready_and_not_stalled(world: World, web: Web) -> None:
    server = conninfo.conninfo_to_dict(world.dsn)
    with TcpProxy(str(server["host"]), int(server["port"] or 0)) as proxy:
        dsn = conninfo.make_conninfo(world.dsn, host="127.0.0.1", port=proxy.port)
        pipeline = world.pipeline(sinks=PostgresSink(dsn, "records"), trigger="100ms", retry_ms_max=60_000)
        pipeline.start()
        try:
            until(lambda: of_this(web, "/readyz") is None, "it is never ready")
            proxy.refuse = True
            proxy.cut()
            produce_numbers(world.kafka, world.topic, 30, first=COUNT)
            until(lambda: of_this(web, "/readyz") == "a step failed, and is tried again", "it does not notice")
            assert of_this(web, "/healthz") is None
            retries: dict[Any, float] = web.samples("numbers")
            assert retries["directkafka_retries_total", ("StoreUnavailableError",)] >= 1
            proxy.refuse = False
            until(lambda: of_this(web, "/readyz") is None, "it is never ready again")
        finally:
            pipeline.stop()


def test_a_lock_that_is_never_given_back_is_a_stall_with_its_step(world: World, web: Web) -> None:
    pipeline = world.pipeline(trigger="100ms")
    pipeline.start()
    try:
        until(lambda: world.query("SELECT to_regclass('records')") != [(None,)], "its table")
        until(lambda: len(world.numbers()) == COUNT, "the rows")
        with psycopg.connect(world.dsn) as holder:
            holder.execute("LOCK TABLE records IN ACCESS EXCLUSIVE MODE")
            produce_numbers(world.kafka, world.topic, 30, first=COUNT)
            until(
                lambda: fault(web, "/healthz") == (503, "has been at the step commit for more than 3 s"),
                "the stall is not seen",
            )
            holder.rollback()
        until(lambda: of_this(web, "/healthz") is None, "it never turns again")
        until(lambda: len(world.numbers()) == COUNT + 30, "the rows that waited")
    finally:
        pipeline.stop()


@pytest.mark.slow
def test_a_worker_that_stands_still_is_a_stall_with_its_step(world: World, web: Web) -> None:
    pipeline = world.pipeline(trigger="100ms")
    pipeline.start()
    stopped: list[psutil.Process] = []
    try:
        until(lambda: world.query("SELECT to_regclass('records')") != [(None,)], "its table")
        until(lambda: len(world.numbers()) == COUNT, "the rows")
        for child in psutil.Process().children(recursive=True):
            if any("daemon" in argument for argument in arguments_of(child)) and "python" in child.name():
                suspend(child)
                stopped.append(child)
        assert stopped
        # More than the driver writes by itself.
        produce_numbers(world.kafka, world.topic, 3_000, first=COUNT)
        until(
            lambda: fault(web, "/healthz") == (503, "has been at the step write for more than 3 s"),
            "the stall is not seen",
        )
    finally:
        for child in stopped:
            child.resume()
        pipeline.stop()


def test_a_pipeline_that_was_fenced_says_so(world: World, web: Web) -> None:
    pipeline = world.pipeline(trigger="100ms")
    pipeline.start()
    until(lambda: of_this(web, "/readyz") is None, "it is never ready")
    with closing(PostgresSink(world.dsn, "records").store) as newer:
        newer.fence("numbers")
    produce_numbers(world.kafka, world.topic, 30, first=COUNT)
    until(lambda: (of_this(web, "/healthz") or "").startswith("FencedError;"), "it goes on")
    assert web.get("/healthz")[0] == 503
    with pytest.raises(Exception, match="newer driver"):
        pipeline.wait()


@pytest.mark.slow
def test_kafka_that_is_away_makes_a_pipeline_unready_and_not_stalled(tmp_path: Path, spark: Any) -> None:
    with KafkaBroker() as broker, directkafka.serve_http("127.0.0.1:0") as server:
        web, servers = Web(server), broker.bootstrap_servers
        make_topic(servers, "air", PARTITIONS)
        pipeline = Pipeline(
            "without-kafka",
            source={"kafka.bootstrap.servers": servers, "subscribe": "air", "startingOffsets": "earliest"},
            sinks=SQLiteSink(tmp_path / "air.db", "air"),
            trigger="100ms",
            retry_ms_max=120_000,
        )
        produce_numbers(servers, "air", 30)
        pipeline.start()
        try:
            batches: Any = ("directkafka_batches_total", ())
            until(lambda: web.samples("without-kafka").get(batches) == 1, "its batch")
            broker.kill()
            until(lambda: fault(web, "/readyz", "without-kafka")[1] is not None, "it does not notice")
            assert fault(web, "/healthz", "without-kafka")[1] is None
            broker.restart()
            until(lambda: fault(web, "/readyz", "without-kafka")[1] is None, "it is never ready again")
        finally:
            pipeline.stop()
