"""A driver as a process under test: forked from a server that has imported what drivers need, and opened nothing.

Without the server, imports would take most of so short a life.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from tests.processes import wait_until_stopped

from directkafka.errors import FencedError

FENCED = 3
WAIT_S = 120.0

_FORK_SERVER = multiprocessing.get_context("forkserver")
_FORK_SERVER.set_forkserver_preload(
    [f"tests.chaos.{name}" for name in ("engine_driver", "kafka_driver", "store_writer")]
)


class ForkedDriver:
    """A process that runs a function, and can be killed or stopped at each fault point.

    Args:
        function: what it runs; it is pickled, and so are its arguments.
        arguments: of the function.
        folder: for its log.
        faults: what is armed in it, as in ``DIRECTKAFKA_FAULTS``.
    """

    def __init__(self, function: Callable[..., object], *arguments: Any, folder: Path, faults: str = "") -> None:
        self._log = folder / f"driver-{os.urandom(3).hex()}.log"
        self.process = _FORK_SERVER.Process(
            target=_run, args=(str(self._log), faults, function, arguments), daemon=True
        )
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def wait(self) -> int | None:
        """Its exit code, as of ``directkafka run``: 0 at the end, 3 when a newer driver owns the pipeline, else 1.

        Minus the signal's number when a signal ended it; None if it still runs after ``WAIT_S``.
        """
        self.process.join(WAIT_S)
        return self.process.exitcode

    def wait_until_stopped(self) -> None:
        """Wait until it has stopped itself with SIGSTOP."""
        try:
            wait_until_stopped(psutil.Process(self.pid))
        except psutil.NoSuchProcess:
            pytest.fail(f"it ended instead of stopping:\n{self.messages()}")

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def messages(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def clean_up(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()


def _run(log: str, faults: str, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if faults:
        os.environ["DIRECTKAFKA_FAULTS"] = faults
    pa.set_cpu_count(1)
    try:
        function(*arguments)
    except FencedError as error:
        print(error, flush=True)
        sys.exit(FENCED)
