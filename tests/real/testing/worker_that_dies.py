"""Run by ``test_run_servers.py`` in two workers: one test ends its worker, the others need the servers after it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from directkafka.testing import KafkaBroker


def test_ends_its_worker(kafka_broker: KafkaBroker, database: str) -> None:
    seen = Path(os.environ["DIRECTKAFKA_TEST_SEEN"])
    seen.write_text(f"{kafka_broker.bootstrap_servers}\n{database}\n")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("number", [1, 2])
def test_needs_the_servers(create_topic: Callable[..., str], database: str, number: int) -> None:
    assert create_topic(number)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
