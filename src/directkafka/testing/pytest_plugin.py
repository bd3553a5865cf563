"""The fixtures that come with the package: ``kafka_broker``, ``topic`` and ``mariadb``.

pytest loads this file in every project of an environment that has directkafka, so it imports nothing that costs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from directkafka.testing.kafka_broker import KafkaBroker
    from directkafka.testing.mariadb import EmbeddedMariaDB

__all__ = ["kafka_broker", "mariadb", "topic"]


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """One real broker for the whole session; tests that kill nodes make a cluster of their own."""
    from directkafka.testing.kafka_broker import KafkaBroker

    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Callable[[], str]:
    """A function that gives a new topic name at each call, so that tests can share a broker.

    The topic itself is not made.
    """
    # 249 characters are allowed in a topic's name, and only these.
    stem = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in "._-" else "-" for letter in request.node.name
    )

    def fresh() -> str:
        return f"{stem[:200]}-{uuid.uuid4().hex[:8]}"

    return fresh


@pytest.fixture(scope="session")
def mariadb() -> Iterator[EmbeddedMariaDB]:
    """One real MariaDB for the whole session; tests that kill it make one of their own."""
    from directkafka.testing.mariadb import EmbeddedMariaDB

    with EmbeddedMariaDB() as server:
        yield server
