"""A Spark application that a command starts: who can reach it, what it shows, and how it ends with its driver."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.processes import arguments_of
from tests.waiting import until

from directkafka.testing import KafkaBroker
from directkafka.testing.java import java_home

pytestmark = pytest.mark.real

#: More than enough on two loaded cores; a command that needs it hangs.
PATIENCE_S = 180.0

SECRET = "a-secret-of-the-settings"
#: What belongs on the terminal: a log line of ours, or a message of the command.
OURS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ (INFO|WARNING) directkafka[\w.]*: |SIGTERM|stopping after")

FILE = """
[pipeline]
name = "numbers"
trigger = "100ms"

[spark]
master = "local[2]"
conf."spark.hadoop.secret.of.a.store" = "{secret}"

[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "earliest"

[transform]
sql = "SELECT topic, partition, offset, string(value) AS value FROM source"

[[sink]]
type = "sqlite"
path = "{folder}/numbers.db"
table = "numbers"
"""


def command_line(process: psutil.Process) -> str:
    """As ``ps`` shows it; empty when the process has just ended."""
    return " ".join(arguments_of(process))


class Command:
    """``directkafka run`` in a process group of its own, as a terminal or a supervisor starts it."""

    def __init__(self, file: Path, temporary: Path) -> None:
        self.temporary = temporary
        self._error_path = file.with_suffix(".err")
        environment = {**os.environ, "JAVA_HOME": str(java_home()), "TMPDIR": str(temporary)}
        with self._error_path.open("w") as error_file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "directkafka", "run", str(file)],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=error_file,
                process_group=0,
            )

    def messages(self) -> str:
        return self._error_path.read_text()

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.messages() or self.process.poll() is not None, f"it never said {text!r}", PATIENCE_S)
        assert text in self.messages(), self.messages()

    def tree(self) -> list[psutil.Process]:
        driver = psutil.Process(self.process.pid)
        return [driver, *driver.children(recursive=True)]

    def jvm(self) -> psutil.Process:
        return next(
            process for process in self.tree() if "org.apache.spark.deploy.SparkSubmit" in command_line(process)
        )


@pytest.fixture
def command(kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path) -> Iterator[Command]:
    from confluent_kafka import Producer

    topic = create_topic()
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(10):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    file = tmp_path / "numbers.toml"
    file.write_text(FILE.format(kafka=kafka_broker.bootstrap_servers, topic=topic, folder=tmp_path, secret=SECRET))
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="d") as temporary:
        # As the system's is: what is closed in it is closed by whoever made it.
        Path(temporary).chmod(0o1777)
        started = Command(file, Path(temporary))
        try:
            yield started
        finally:
            if started.process.poll() is None:
                for process in started.tree():
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
            started.process.wait()


@pytest.mark.slow
def test_an_application_of_one_machine_is_its_user_s_alone_and_outlives_a_signal_to_the_group(
    command: Command,
) -> None:
    command.wait_for("batch 1")
    jvm = command.jvm()
    assert SECRET not in " ".join(map(command_line, command.tree()))
    listening = [
        connection.laddr.ip for connection in jvm.net_connections("tcp") if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
    reached = [path for path in command.temporary.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]
    assert reached, "the workers use no Unix sockets, so this proved nothing"
    for path in reached:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not list(command.temporary.rglob("settings"))
    (log,) = command.temporary.rglob("numbers-*.log")
    assert "WARN" in log.read_text(), "Spark printed nothing, so its absence from the terminal proves nothing"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600

    # A JVM of the group would end with the signal, and the command would take that for the stop as well.
    groups = {os.getpgid(process.pid) for process in (jvm, *jvm.children(recursive=True))}
    assert command.process.pid not in groups
    os.killpg(command.process.pid, signal.SIGTERM)
    assert command.process.wait(PATIENCE_S) == 0, command.messages()
    assert [line for line in command.messages().splitlines() if not OURS.match(line)] == []
    assert not log.exists()
    jvm.wait(PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["starting Spark", "runs after", "the executors answered", "batch 1"])
def test_a_signal_to_every_process_is_a_stop_as_well(command: Command, moment: str) -> None:
    command.wait_for(moment)
    for process in command.tree():
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    assert command.process.wait(PATIENCE_S) == 0, command.messages()
    assert [line for line in command.messages().splitlines() if not OURS.match(line)] == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["runs after", "asking the executors", "the executors answered"])
def test_a_jvm_that_is_killed_is_told_as_such(command: Command, moment: str) -> None:
    """As the kernel does where memory is short. Py4J then has an error of its own for each call, and of the socket."""
    command.wait_for(moment)
    command.jvm().kill()
    assert command.process.wait(PATIENCE_S) == 1
    assert "Traceback" not in command.messages(), command.messages()
    assert "Spark's JVM ended" in command.messages()


def test_a_jvm_that_does_not_start_is_told_in_a_line_with_its_own_words(tmp_path: Path) -> None:
    file = tmp_path / "numbers.toml"
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        file.write_text(FILE.format(kafka=address, topic="t", folder=tmp_path, secret=SECRET))
        done = subprocess.run(
            [sys.executable, "-m", "directkafka", "run", str(file)],
            env={**os.environ, "JAVA_HOME": str(tmp_path / "no-java"), "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(r"error Spark's JVM did not start: .*no-java", done.stderr)
    (log,) = tmp_path.rglob("numbers-*.log")
    assert f"What Spark printed: {log}" in done.stderr
