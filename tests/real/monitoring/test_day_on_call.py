"""The day on call of docs/guide/operations.md: its commands as they stand there, and a real Prometheus beside them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import psycopg
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from tests.real.monitoring.drivers import Driver, Records, free_port
from tests.topics import make_topic
from tests.waiting import WAIT_S, until

from directkafka.monitoring.http import serve_dashboard
from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[3]

FILE = """
[pipeline]
name = "flights"
trigger = "200ms"
[source]
"kafka.bootstrap.servers" = "${KAFKA}"
subscribe = "air"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 300
[transform]
sql = "SELECT topic, partition, offset, timestamp, CAST(CAST(value AS STRING) AS BIGINT) AS minutes FROM source"
[[sink]]
type = "postgres"
dsn = "${DSN}"
table = "flights"
[spark]
master = "local[1]"
conf."spark.ui.enabled" = "false"
conf."spark.driver.bindAddress" = "127.0.0.1"
conf."spark.driver.host" = "127.0.0.1"
"""
WRONG = "CAST(NULL AS BIGINT) AS minutes"


def section() -> str:
    text = (ROOT / "docs" / "guide" / "operations.md").read_text()
    return text.partition("\n## A day on call\n")[2].partition("\n## ")[0]


@pytest.fixture
def commands() -> dict[str, list[str]]:
    """The commands of each step, by its number, and the query."""
    lines_by_step = {}
    for step in re.split(r"^\*\*(?=\d\. )", section(), flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```(?:sh|sql)\n(.*?)^```", step, re.DOTALL | re.MULTILINE)
        lines_by_step[step[0]] = [line for block in blocks for line in block.splitlines()]
    return lines_by_step


def run(line: str, folder: Path, **variables: str) -> tuple[int, str]:
    """A command line in a shell: its exit code, and what it has printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env={**os.environ, **variables, "PATH": path}, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@contextmanager
def prometheus(binary: Path, folder: Path, target: str) -> Iterator[str]:
    """A server that scrapes a run twice a second, with our alerts and limits of a pipeline in a hurry."""
    rules = (ROOT / "deploy" / "alerts.yml").read_text()
    hurried = rules.replace("max_lag_seconds > 300", "max_lag_seconds > 5").replace("for: 5m", "for: 1s")
    assert hurried.count("max_lag_seconds > 5\n") == 1
    (folder / "alerts.yml").write_text(hurried)
    scrape = {"job_name": "directkafka", "static_configs": [{"targets": [target]}]}
    # JSON is YAML.
    (folder / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
                "rule_files": ["alerts.yml"],
                "scrape_configs": [scrape],
            }
        )
    )
    port = free_port()
    arguments = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/prometheus"]
    with (folder / "prometheus.log").open("wb") as log:
        server = subprocess.Popen(
            [binary, *arguments, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(WAIT_S)


def firing(server: str) -> set[str]:
    with suppress(URLError, ConnectionError), urlopen(f"{server}/api/v1/alerts", timeout=30) as answer:
        alerts: list[dict[str, Any]] = json.load(answer)["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}
    return set()


def furthest_on_page(page: str) -> str:
    """The partition that the page lists first."""
    with urlopen(f"http://{page}/api/pipeline?{urlencode({'name': 'flights'})}", timeout=30) as answer:
        positions = json.load(answer)["positions"]
    return f"{positions[0]['topic']}-{positions[0]['partition']}" if positions and positions[0]["lag"] > 1_000 else ""


def records_in_kafka(servers: str) -> dict[tuple[int, int], int]:
    """Every record by partition and offset, read by another client."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "oracle", "enable.partition.eof": True})
    consumer.assign([Place("air", partition, 0) for partition in range(3)])
    values: dict[tuple[int, int], int] = {}
    ended = 0
    while ended < 3:
        record = consumer.poll(30)
        assert record is not None
        if record.error():
            ended += 1
        else:
            values[int(record.partition() or 0), int(record.offset() or 0)] = int(record.value() or b"")
    consumer.close()
    return values


def test_the_day_of_the_guide_ends_with_every_row_right(
    commands: dict[str, list[str]],
    database: str,
    prometheus_binary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_java()
    assert {step: len(lines) for step, lines in commands.items()} == {"1": 1, "2": 2, "3": 3, "4": 2}
    with KafkaBroker() as broker:
        make_topic(broker.bootstrap_servers, "air", 3)
        monkeypatch.setenv("KAFKA", broker.bootstrap_servers)
        monkeypatch.setenv("DSN", database)
        records = Records(broker.bootstrap_servers, "air", b"%d".__mod__)
        try:
            live(commands, broker, database, prometheus_binary, tmp_path, records)
        finally:
            records.end()


def live(
    commands: dict[str, list[str]], broker: KafkaBroker, database: str, binary: Path, folder: Path, records: Records
) -> None:
    file = folder / "flights.toml"
    file.write_text(FILE)
    address = f"127.0.0.1:{free_port()}"
    driver = Driver(file, "--http", address)
    try:
        with (
            prometheus(binary, folder, address) as server,
            serve_dashboard([file], "127.0.0.1:0", every_s=0.5, stalled_after_s=600, behind_after_s=5) as page,
        ):
            # 1. It falls behind.
            records.burst(20_000)
            until(lambda: "DirectkafkaFallsBehind" in firing(server), "the alert does not fire")
            code, output = run(commands["1"][0], folder)
            assert code == 1, output
            assert "air-0 is" in output
            until(lambda: furthest_on_page(str(page.address)) == "air-0", "the page does not show the partition")
            file.write_text(FILE.replace("maxOffsetsPerTrigger = 300", "maxOffsetsPerTrigger = 50000"))
            before, driver = driver, Driver(file, "--http", f"127.0.0.1:{free_port()}")
            assert before.process.wait(WAIT_S) == 3, before.log.read_text()
            until(lambda: run(commands["1"][0], folder)[0] == 0, "it does not catch up")

            # 2. A bad deploy, and a pause.
            driver.stop()
            right = file.read_text()
            file.write_text(re.sub(r"CAST\(CAST\(value.*? AS minutes", WRONG, right))
            driver = Driver(file)
            until(lambda: nulls(database) > 1_000, "nothing wrong is written")
            pause, query = commands["2"]
            assert run(pause, folder)[0] == 0
            driver.stop()
            file.write_text(right)
            driver = Driver(file)
            until(lambda: "is paused, until directkafka resume" in driver.log.read_text(), "it does not wait")
            with psycopg.connect(database) as connection:
                since = connection.execute(query.encode()).fetchone()
            assert since is not None

            # 3. Back.
            look, *do = commands["3"]
            code, output = run(look, folder, SINCE=since[0])
            assert code == 0, output
            assert "deleted" in output
            assert "nothing was changed" in output
            assert nulls(database) > 1_000
            for line in do:
                code, output = run(line, folder, SINCE=since[0])
                assert code == 0, output
            assert nulls(database) == 0
            assert driver.process.wait(WAIT_S) == 3, driver.log.read_text()
            driver = Driver(file)

            # 4. Is it right?
            records.end()
            lag, verify = commands["4"]
            until(lambda: run(lag.replace("1000", "0"), folder)[0] == 0, "it does not catch up")
            assert run(lag, folder)[0] == 0
            code, output = run(verify, folder)
            assert code == 0, output
            driver.stop()
    finally:
        if driver.process.poll() is None:
            driver.kill()
    expected = records_in_kafka(broker.bootstrap_servers)
    assert len(expected) == records.count
    with psycopg.connect(database) as connection:
        rows = connection.execute('SELECT partition, "offset", minutes FROM flights').fetchall()
    assert len(rows) == len(expected)
    assert {(partition, offset): minutes for partition, offset, minutes in rows} == expected


def nulls(database: str) -> int:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT count(*) FROM flights WHERE minutes IS NULL").fetchone()
    assert row is not None
    return int(row[0])
