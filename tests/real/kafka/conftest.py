"""What the tests of the Kafka client and of the reader share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.real.kafka.logs import forget_connections, produce

from directkafka.testing import KafkaBroker


@pytest.fixture(autouse=True)
def no_idle_channels() -> Iterator[None]:
    """Connections of one test do not reach the next, nor do those that another folder's tests have left."""
    forget_connections()
    yield
    forget_connections()


@pytest.fixture
def servers(kafka_broker: KafkaBroker) -> str:
    return kafka_broker.bootstrap_servers


@pytest.fixture
def hundred(servers: str, create_topic: Callable[..., str]) -> str:
    """A topic of 100 records in ten batches of ten."""
    name = create_topic()
    produce(servers, name, [b"value %d" % number for number in range(100)], batch_every=10)
    return name
