"""Direct streams that are killed, and go on from Spark's checkpoint: their state, and a program that has changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.real.kafka.logs import produce
from tests.waiting import until

from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("stateful_stream.py")
WAIT_S = 300.0
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


class World:
    """A topic, a database, and a program with a checkpoint."""

    def __init__(self, servers: str, topic: str, database: str, folder: Path) -> None:
        self._servers, self._topic, self._database, self._folder = servers, topic, database, folder
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM.read_text())
        with psycopg.connect(database) as connection:
            connection.execute("CREATE TABLE totals (word text PRIMARY KEY, count bigint)")
            connection.execute("CREATE TABLE sums (what text PRIMARY KEY, count bigint)")
            connection.execute("INSERT INTO sums VALUES ('seen', 0), ('in windows', 0)")

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def running(self, name: str, faults: str = "") -> AbstractContextManager[subprocess.Popen[str]]:
        arguments = [self._servers, self._topic, self._database, str(self._folder)]
        return running(self.program, arguments, self.log(name), faults)

    def fail(self, is_asked: bool) -> None:
        file = self._folder / "fail"
        file.touch() if is_asked else file.unlink()

    def send(self, words: list[str]) -> None:
        for number in range(2):
            produce(self._servers, self._topic, [word.encode() for word in words[number::2]], partition=number)

    def totals(self) -> Counter[str]:
        with psycopg.connect(self._database) as connection:
            return Counter(dict(connection.execute("SELECT word, count FROM totals").fetchall()))

    def sums(self) -> dict[str, int]:
        with psycopg.connect(self._database) as connection:
            return dict(connection.execute("SELECT what, count FROM sums").fetchall())

    def wait_for(self, words: list[str]) -> None:
        """Until the state has each of them once, and the other streams have had them."""
        until(lambda: self.totals() == Counter(words), "all words, each once", WAIT_S)
        until(lambda: self.sums()["seen"] >= len(words) <= self.sums()["in windows"] / 2, "the other streams", WAIT_S)


@pytest.fixture
def world(kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path) -> World:
    return World(kafka_broker.bootstrap_servers, create_topic(2), database, tmp_path)


@pytest.mark.parametrize("faults", ["", "stream.planned@8=kill"], ids=["between batches", "stream.planned"])
def test_a_state_goes_on_from_the_checkpoint_and_a_changed_program_is_told(world: World, faults: str) -> None:
    with world.running("first", faults) as process:
        world.send(WORDS)
        if faults:
            assert process.wait(WAIT_S) == -signal.SIGKILL
        else:
            world.wait_for(WORDS)
    world.program.write_text(PROGRAM.read_text() + "\n# Another version.\n")
    with world.running("second"):
        world.send(MORE)
        world.wait_for(WORDS + MORE)
    log_text = world.log("second").read_text()
    assert "this stream comes from a checkpoint that another version of the program made" in log_text


def test_a_batch_that_spark_dropped_is_done_by_the_next_start(world: World) -> None:
    """Spark writes checkpoints behind it, in which it would be over."""
    world.fail(True)
    with world.running("first") as process:
        world.send(WORDS)
        assert process.stdout is not None
        assert process.stdout.readline() == "failed\n"
        until(lambda: world.log("first").read_text().count("Error generating jobs") >= 5, "further batches", WAIT_S)
    assert world.totals() == Counter()
    world.fail(False)
    with world.running("second"):
        world.send(MORE)
        world.wait_for(WORDS + MORE)
