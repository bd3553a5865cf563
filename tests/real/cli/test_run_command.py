"""``directkafka run`` as a supervisor runs it: health and metrics over HTTP, log lines of JSON, an end by a signal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from tests.hostile import HOSTILE
from tests.real.monitoring.drivers import free_port
from tests.waiting import WAIT_S, until

from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java

pytestmark = pytest.mark.real

FILE = """
[pipeline]
name = "flights"
trigger = "200ms"
commit_to_group = "{topic}"
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "earliest"
[[sink]]
type = "sqlite"
path = "{database}"
table = "flights"
"""


@pytest.mark.slow  # without a process of its own: tests/real/monitoring
def test_a_run_tells_its_health_and_metrics_and_logs_lines_of_json(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    use_java()
    topic = create_topic(1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    values = [value for value in HOSTILE.values() if len(value) < 100_000]
    for value in values:
        producer.produce(topic, value.encode("utf-8", "surrogatepass"))
    assert producer.flush(WAIT_S) == 0
    file = tmp_path / "flights.toml"
    file.write_text(FILE.format(kafka=kafka_broker.bootstrap_servers, topic=topic, database=tmp_path / "flights.db"))
    address = f"127.0.0.1:{free_port()}"
    command = [str(Path(sys.executable).parent / "directkafka"), "run", str(file)]

    def get(path: str) -> str | None:
        try:
            with urlopen(f"http://{address}{path}", timeout=30) as answer:
                return str(answer.read().decode())
        except (URLError, ConnectionError):
            return None

    log = tmp_path / "log"
    with log.open("w") as stderr:
        run = subprocess.Popen(
            [*command, "--http", address, "--log-format", "json"], stderr=stderr, stdout=subprocess.PIPE, text=True
        )
    try:
        until(lambda: get("/readyz"), "it is never ready")
        until(lambda: 'directkafka_batches_total{pipeline="flights"} 1.0' in (get("/metrics") or ""), "its batch")
        assert json.loads(get("/healthz") or "")["status"] == "ok"
        assert "kafka_consumergroup_group_lag{" in (get("/metrics") or "")
        run.send_signal(signal.SIGTERM)
        assert run.wait(WAIT_S) == 0, log.read_text()
    finally:
        run.kill()
        run.communicate()
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message", "pipeline"} <= set(line) for line in lines)
    (batch,) = [line for line in lines if "ranges" in line]
    assert (batch["pipeline"], batch["generation"], batch["batch"], batch["level"]) == ("flights", 1, 1, "INFO")
    assert batch["ranges"] == [{"topic": topic, "partition": 0, "from_offset": 0, "until_offset": len(values)}]
    assert any("SIGTERM: stopping after the batch in flight" in line["message"] for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_run_is_drawn_in_a_terminal_and_nowhere_else(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path, is_terminal: bool
) -> None:
    use_java()
    topic = create_topic(1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(1_234):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(WAIT_S) == 0
    file, database = tmp_path / "flights.toml", tmp_path / "flights.db"
    file.write_text(FILE.format(kafka=kafka_broker.bootstrap_servers, topic=topic, database=database))
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    run = subprocess.Popen(
        [str(Path(sys.executable).parent / "directkafka"), "run", str(file), "--live"],
        stdout=theirs if is_terminal else subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    seen = bytearray()
    reader = threading.Thread(target=_read_all, args=(ours, seen))
    reader.start()
    try:
        if is_terminal:
            until(lambda: b"1,234 records  1,234 rows" in seen, "its batch is not drawn")
            until(lambda: f"{topic[-20:]}-0".encode() in seen, "its lag is not drawn")
        else:
            until(lambda: b"records" in seen, "its batch is not logged")
        run.send_signal(signal.SIGTERM)
        assert run.wait(WAIT_S) == 0, seen.decode()
    finally:
        run.kill()
        run.wait()
        reader.join(WAIT_S)
        os.close(ours)
    assert (b"\x1b[" in seen) is is_terminal
    assert b"stopping after the batch in flight" in seen


def _read_all(terminal: int, seen: bytearray) -> None:
    # A terminal whose other end is closed fails with EIO.
    with suppress(OSError):
        while content := os.read(terminal, 65_536):
            seen.extend(content)
