"""A query moves over from Spark's own source with its checkpoint, and back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
FETCH_AND_RUN_S = 300


@pytest.mark.parametrize("formats", [("kafka", "directkafka", "kafka"), ("directkafka", "kafka", "directkafka")])
def test_a_query_goes_on_from_the_other_source_s_checkpoint_without_a_gap_or_a_repeat(
    session: SparkSession,
    servers: str,
    create_topic: Callable[..., str],
    tmp_path: Path,
    formats: tuple[str, ...],
) -> None:
    keys = ("spark.driver.extraJavaOptions", "spark.ui.enabled", "spark.driver.bindAddress")
    spark = {key: session.conf.get(key) for key in keys}
    spark |= {"spark.driver.host": "127.0.0.1"}
    spark |= {"spark.local.dir": str(tmp_path / "local"), "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    topic = create_topic(2)
    config = {"servers": servers, "topic": topic, "folder": str(tmp_path), "formats": formats, "spark": spark}
    done = subprocess.run(
        [sys.executable, "-m", "tests.real.spark.carried_query", json.dumps(config)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=FETCH_AND_RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:6000]
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert runs == [
        [source, [[partition, offset] for partition in range(2) for offset in range(number * 10, number * 10 + 10)]]
        for number, source in enumerate(formats)
    ]
    last = max(
        (file for file in (tmp_path / "checkpoint/offsets").iterdir() if file.name.isdecimal()),
        key=lambda file: int(file.name),
    )
    assert json.loads(last.read_text().splitlines()[-1]) == {topic: {"0": 30, "1": 30}}
