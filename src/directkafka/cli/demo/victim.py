"""The demo's pipeline as a process of its own, which is killed again and again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Victim"]


class Victim:
    """``directkafka run`` in a process group of its own, with its batch reports read as they come.

    Args:
        file: the pipeline file.
        environment: the child's environment.
        log: where its messages go.
    """

    def __init__(self, file: Path, environment: Mapping[str, str], log: Path) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "directkafka", "run", str(file), "--format", "json"],
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=log.parent,
        )
        self.reports: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for_batches(self, count: int, timeout_s: float) -> bool:
        """Wait until it has reported so many batches, or ended; whether it has."""
        with self._news:
            self._news.wait_for(lambda: len(self.reports) >= count or self.has_ended, timeout_s)
            return len(self.reports) >= count

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL to the driver. Spark's JVM notices that its driver is gone and ends by itself."""
        self._process.send_signal(signal.SIGKILL)
        self._finish()

    def stop(self, timeout_s: float) -> int:
        """SIGTERM, as a supervisor would; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._finish()

    def clean_up(self) -> None:
        """End whatever is left of its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._finish()

    def _finish(self) -> int:
        if not self.has_ended:
            self._process.kill()
        code = self._process.wait()
        self._reader.join(timeout=5)
        self._log.close()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.reports.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()
