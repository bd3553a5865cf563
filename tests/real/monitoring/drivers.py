"""Drivers as processes that can be killed, and records that keep coming."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from tests.waiting import WAIT_S

from directkafka.testing.servers.ports import ReservedPort

_reserved: list[ReservedPort] = []


def free_port() -> int:
    """A port for a server of another process; nobody else is given it until this process ends."""
    _reserved.append(ReservedPort())
    return _reserved[-1].number


class Driver:
    """``directkafka run FILE`` as a process, its log beside the file (``log``).

    Args:
        file: the pipeline file.
        arguments: others of the command.
        environment: variables of the process besides this one's.
    """

    def __init__(self, file: Path, *arguments: str, **environment: str) -> None:
        command = [str(Path(sys.executable).parent / "directkafka"), "run", str(file), *arguments]
        world = {**os.environ, "TMPDIR": str(file.parent), **environment}
        self.log = file.parent / f"run-{len(list(file.parent.glob('run-*.log')))}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=world, start_new_session=True)

    def kill(self) -> None:
        """The driver, its JVM and all workers, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """After the batch in flight."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT_S) == 0, self.log.read_text()


class Records:
    """Writes records into a topic, 200 a second, from a thread; a burst when it is asked for one.

    Three of four are in partition 0.

    Args:
        servers, topic: where.
        value: of a record, by its number.
    """

    def __init__(self, servers: str, topic: str, value: Callable[[int], bytes]) -> None:
        self._producer = Producer({"bootstrap.servers": servers})
        self._topic = topic
        self._value = value
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.count = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def burst(self, count: int) -> None:
        """Write so many at once."""
        with self._lock:
            for number in range(self.count, self.count + count):
                partition = 0 if number % 4 else number // 4 % 3
                self._producer.produce(self._topic, self._value(number), partition=partition)
                if number % 10_000 == 0:
                    self._producer.poll(0)
            self.count += count
            assert self._producer.flush(WAIT_S) == 0

    def end(self) -> None:
        """Write no more; may be called twice."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            self.burst(40)
