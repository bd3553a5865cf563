"""The Spark session with the format registered, and a quick way to its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import directkafka
from directkafka.testing import KafkaBroker

QUICK = {
    "kafka.socket.connection.setup.timeout.ms": "1000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "100",
}


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


def with_defaults(servers: str, options: dict[str, object]) -> dict[str, str]:
    named = {name.replace("__", "."): str(value) for name, value in options.items()}
    return {"kafka.bootstrap.servers": servers, **QUICK, **named}
