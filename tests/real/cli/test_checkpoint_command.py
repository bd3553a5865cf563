"""``directkafka checkpoint``, of a query that Spark has run; hostile checkpoints too, and no Spark is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.hostile import HOSTILE
from tests.real.cli.conftest import Command
from tests.real.kafka.logs import produce

import directkafka
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real


def test_the_offsets_of_a_query_s_checkpoint_are_shown(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], spark: SparkSession, tmp_path: Path, command: Command
) -> None:
    topic, checkpoint = create_topic(1), tmp_path / "check point"
    produce(kafka_broker.bootstrap_servers, topic, [b"value"] * 7)
    session = spark.newSession()
    directkafka.register(session)
    options = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "subscribe": topic}
    frame = session.readStream.format("directkafka").options(**options, startingOffsets="earliest").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    assert query.awaitTermination(120)
    code, out, err = command("checkpoint", str(checkpoint), "--format", "json", "--all")
    records = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert query.id in err
    assert [(record["batch"], record["from_offset"], record["until_offset"]) for record in records] == [
        (0, None, 0),
        (1, 0, 7),
    ]
    assert all(record["committed"] and record["topic"] == topic for record in records)
    code, out, _ = command("checkpoint", str(checkpoint))
    assert code == 0
    assert "UNTIL_OFFSET" in out


def test_what_is_no_checkpoint_is_a_failure_in_words(tmp_path: Path, command: Command) -> None:
    code, out, err = command("checkpoint", str(tmp_path))
    assert (code, out) == (1, "")
    assert "is no checkpoint of Structured Streaming" in err


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_checkpoint_does_a_terminal_no_harm(value: str, tmp_path: Path, terminal: Command) -> None:
    for name, text in {"metadata": json.dumps({"id": value}), "offsets/0": f"v1\n{{}}\n{value}"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    code, out, _ = terminal("checkpoint", str(tmp_path))
    assert (code, out) in {(0, ""), (1, "")}


def test_spark_is_not_loaded_for_it(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"mine"}')
    program = f"""
import sys
from directkafka.cli import main
sys.argv = ["directkafka", "checkpoint", {str(tmp_path)!r}]
try:
    main()
except SystemExit as ended:
    assert not ended.code
print("pyspark" in sys.modules)
"""
    completed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert completed.stdout.splitlines()[-1] == "False"
