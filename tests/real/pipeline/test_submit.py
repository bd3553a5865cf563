"""Pipelines under ``spark-submit``: settings of their session, metrics, health and the page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest
from confluent_kafka import Producer
from tests.processes import child_that_runs
from tests.real.cli.test_run_command import FILE
from tests.real.monitoring.drivers import free_port
from tests.waiting import WAIT_S, until

from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = """
from directkafka.pipeline.execution.session import session_for

session = session_for("numbers", master="local[7]", conf={"spark.ui.enabled": False})
names = ("spark.master", "spark.sql.session.timeZone", "spark.ui.showConsoleProgress", "spark.ui.enabled")
print("found", *(session.conf.get(name) for name in names))
session.stop()
"""


def test_what_spark_submit_was_told_is_left_and_the_rest_is_set(tmp_path: Path) -> None:
    use_java()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[1]"]
    done = subprocess.run(
        [*command, "--conf", "spark.sql.session.timeZone=Asia/Tokyo", str(program)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "found local[1] Asia/Tokyo false false" in done.stdout


#: What people submit: the command line's own entry, with its arguments behind the file.
COMMAND = "from directkafka.cli import main\n\nmain()\n"


def page_shows(answer: str) -> list[tuple[str, int]]:
    return [(each["name"], each["batch_id"]) for each in json.loads(answer)["pipelines"]]


def test_a_run_under_spark_submit_serves_metrics_health_and_the_page(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    use_java()
    topic = create_topic(1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(WAIT_S) == 0
    file, program, log = tmp_path / "flights.toml", tmp_path / "program.py", tmp_path / "log"
    file.write_text(FILE.format(kafka=kafka_broker.bootstrap_servers, topic=topic, database=tmp_path / "flights.db"))
    program.write_text(COMMAND)
    address = f"127.0.0.1:{free_port()}"

    def get(path: str) -> str:
        with suppress(URLError, ConnectionError), urlopen(f"http://{address}{path}", timeout=30) as answer:
            return str(answer.read().decode())
        return ""

    submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[1]", str(program)]
    with log.open("w") as output:
        submitted = subprocess.Popen(
            [*submit, "run", str(file), "--http", address],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(tmp_path)},
            cwd=tmp_path, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        until(lambda: 'directkafka_records_read_total{pipeline="flights"' in get("/metrics"), log.read_text())
        assert f'directkafka_records_read_total{{pipeline="flights",topic="{topic}"}} 100.0' in get("/metrics")
        assert json.loads(get("/readyz"))["status"] == "ok"
        until(lambda: page_shows(get("/api/pipelines")) == [("flights", 1)], "the page does not show the batch")
        # spark-submit is a JVM; below it is the driver, which people stop.
        child_that_runs(str(program), below=submitted.pid).send_signal(signal.SIGTERM)
        assert submitted.wait(WAIT_S) == 0, log.read_text()
    finally:
        for process in [*psutil.Process(submitted.pid).children(recursive=True)] if submitted.poll() is None else []:
            process.kill()
        submitted.kill()
        submitted.wait()
    assert "SIGTERM: stopping after the batch in flight" in log.read_text()
