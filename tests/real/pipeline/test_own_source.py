"""Spark's own Kafka source under the structured engine, with partitions that are added while it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
FETCH_AND_RUN_S = 300


def test_a_partition_that_spark_s_own_source_finds_is_taken_from_its_first_record(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    """It is read in the batch that names it first, from 0; also by a query whose checkpoint was adopted."""
    spark = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={tmp_path}",
        "spark.local.dir": str(tmp_path / "local"),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.ui.enabled": "false",
    }
    topic = create_topic(1)
    config = {"servers": kafka_broker.bootstrap_servers, "topic": topic, "folder": str(tmp_path), "spark": spark}
    done = subprocess.run(
        [sys.executable, "-m", "tests.real.pipeline.own_source_query", json.dumps(config)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=FETCH_AND_RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    grown = [[[0, 0, 10, 20], [1, 0, 0, 10]], 30]
    assert runs == [
        [[[0, 0, 0, 10]], 10],
        grown,
        # The batch that Spark had not noted is not written again.
        grown,
        [[[0, 0, 20, 30], [1, 0, 10, 10], [2, 0, 0, 10]], 50],
    ]
