"""The Spark session with the format registered, and a quick way to its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.streaming import StreamingContext
from tests.real.kafka.logs import forget_connections, produce
from tests.real.spark.dstreams import INTERVAL_S, Settings
from tests.real.spark.queries import Output

import directkafka
from directkafka.testing import KafkaBroker

QUICK = {
    "kafka.socket.connection.setup.timeout.ms": "1000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "100",
}


@pytest.fixture(autouse=True)
def no_idle_connections() -> Iterator[None]:
    """Connections of one test do not reach the next."""
    yield
    forget_connections()


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    directkafka.register(spark)
    return spark


@pytest.fixture
def servers(kafka_broker: KafkaBroker) -> str:
    return kafka_broker.bootstrap_servers


@pytest.fixture
def reading(session: SparkSession, servers: str) -> Callable[..., Any]:
    """``reading(subscribe=..., ...)`` is a batch reader with these options; dots in names as ``__``."""

    def make(**options: object) -> Any:
        return session.read.format("directkafka").options(**with_defaults(servers, options))

    return make


@pytest.fixture
def streaming(session: SparkSession, servers: str) -> Callable[..., Any]:
    """The same for a stream."""

    def make(**options: object) -> Any:
        return session.readStream.format("directkafka").options(**with_defaults(servers, options))

    return make


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "checkpoint")


@pytest.fixture
def stopping() -> Iterator[list[StreamingQuery]]:
    """Queries to stop at the test's end, whatever happens in it."""
    queries: list[StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


@pytest.fixture
def hundred(servers: str, create_topic: Callable[..., str]) -> str:
    """Two partitions of fifty records each."""
    topic = create_topic(2)
    for partition in range(2):
        produce(servers, topic, [b"value"] * 50, partition=partition)
    return topic


def with_defaults(servers: str, options: dict[str, object]) -> dict[str, str]:
    named = {name.replace("__", "."): str(value) for name, value in options.items()}
    return {"kafka.bootstrap.servers": servers, **QUICK, **named}


@pytest.fixture
def sc(spark: SparkSession) -> SparkContext:
    return spark.sparkContext


@pytest.fixture
def params(servers: str) -> dict[str, object]:
    """A program's settings for Kafka."""
    return {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}


@pytest.fixture
def context(sc: SparkContext) -> Iterator[StreamingContext]:
    """A context that is stopped at the end, whatever the test did with it."""
    streaming_context = StreamingContext(sc, INTERVAL_S)  # type: ignore[arg-type]
    yield streaming_context
    streaming_context.stop(stopSparkContext=False)


@pytest.fixture
def settings(sc: SparkContext) -> Iterator[Settings]:
    """``settings({"spark.streaming...": ...})`` for the rest of the test.

    A program says them before its context starts. The tests' context runs already, so they are put where it keeps
    what a program said.
    """
    conf = sc._conf
    before = dict(conf.getAll())

    def choose(given: dict[str, object]) -> None:
        for name, value in given.items():
            conf.set(name, str(value))

    yield choose
    for name, _ in conf.getAll():
        if name not in before:
            conf._jconf.remove(name)
    for name, value in before.items():
        conf.set(name, value)
