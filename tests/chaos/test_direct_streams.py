"""Direct streams that are killed, and go on from Spark's checkpoint: their state, and a program that has changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.real.kafka.logs import produce, until

from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("stateful_stream.py")
WAIT_S = 120.0
WORDS = [f"word-{number % 7}" for number in range(100)]
MORE = [f"word-{number % 5}" for number in range(40)]


@contextmanager
def running(program: Path, arguments: list[str], log: Path, faults: str = "") -> Iterator[subprocess.Popen[str]]:
    """The program's process, from the moment on when its context has started."""
    environment = {
        **os.environ, "DIRECTKAFKA_FAULTS": faults, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(use_java()),
    }  # fmt: skip
    with log.open("w") as messages:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(program), *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=messages, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "started\n", log.read_text()[-3000:]
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()


@pytest.mark.parametrize("faults", ["", "stream.planned@4=kill"], ids=["between batches", "stream.planned"])
def test_a_state_goes_on_from_the_checkpoint_and_a_changed_program_is_told(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path, faults: str
) -> None:
    servers, topic = kafka_broker.bootstrap_servers, create_topic(2)
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE totals (word text PRIMARY KEY, count bigint)")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.read_text())
    arguments = [servers, topic, database, str(tmp_path)]

    def totals() -> Counter[str]:
        with psycopg.connect(database) as connection:
            return Counter(dict(connection.execute("SELECT word, count FROM totals").fetchall()))

    def send(words: list[str]) -> None:
        for partition in range(2):
            produce(servers, topic, [one.encode() for one in words[partition::2]], partition=partition)

    with running(program, arguments, tmp_path / "first.log", faults) as process:
        send(WORDS)
        if faults:
            assert process.wait(WAIT_S) == -signal.SIGKILL
        else:
            until(lambda: totals() == Counter(WORDS), "the first words", WAIT_S)
    program.write_text(PROGRAM.read_text() + "\n# Another version.\n")
    with running(program, arguments, tmp_path / "second.log"):
        send(MORE)
        until(lambda: totals() == Counter(WORDS + MORE), "all words, each once", WAIT_S)
    said = (tmp_path / "second.log").read_text()
    assert "this stream comes from a checkpoint that another version of the program made" in said
