"""Executors that die between two jobs of a batch, under a transform that gives something else whenever it runs.

What they kept is lost with them. tests/real/pipeline/test_kept.py has more of it, in one process, where Spark is made
to lose what it keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from tests.chaos import lost_executors
from tests.chaos.local_cluster import run_program
from tests.chaos.pipelines import PARTITIONS, produce_numbers

from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

#: The same number from each partition, so that there is one batch for each round.
BATCH = 67 * PARTITIONS


@pytest.mark.parametrize(
    ("carrier", "executors", "rounds"),
    [
        ("spark", 1, 1),
        pytest.param("spark", 2, 20, marks=pytest.mark.slow),
        pytest.param("native", 1, 1, marks=pytest.mark.slow),
        pytest.param("native", 2, 20, marks=pytest.mark.slow),
    ],
)
def test_each_record_is_a_row_or_a_letter_whenever_an_executor_dies_between_the_two(
    carrier: str,
    executors: int,
    rounds: int,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    tmp_path: Path,
) -> None:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, rounds * BATCH)
    arguments = (carrier, kafka_broker.bootstrap_servers, database, topic, str(BATCH), str(executors))
    counts = run_program(lost_executors, *arguments, folder=tmp_path)
    assert counts["killed"] == rounds
    if carrier == "spark":
        assert counts["redone"] > rounds // 2, "few lost what they kept, so this proved little"
    with psycopg.connect(database) as connection:
        rows, dead_letters = (
            connection.execute(f'SELECT topic, partition, "offset" FROM {table}').fetchall()  # type: ignore[call-overload]
            for table in ("records", "rejected")
        )
    occurrences = Counter([*rows, *dead_letters])
    assert (len(occurrences), set(occurrences.values())) == (rounds * BATCH, {1})
    assert dead_letters
