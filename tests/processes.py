"""Other processes of a test's: found by what they run, made to stand still, and ended with the test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import psutil

_STOP_S_MAX = 120.0


class Started(Protocol):
    """A process that a test has started, with what belongs to it."""

    def clean_up(self) -> None:
        """End it, also where it has ended."""


Process = TypeVar("Process", bound=Started)


@contextmanager
def running(process: Process) -> Iterator[Process]:
    """The process, which ends with the ``with`` block."""
    try:
        yield process
    finally:
        process.clean_up()


def child_that_runs(program: str, *, below: int | None = None) -> psutil.Process:
    """The one process below another one, or below this one, that has the program among its arguments."""
    children = psutil.Process(below).children(recursive=True)
    (process,) = [child for child in children if program in arguments_of(child)]
    return process


def arguments_of(process: psutil.Process) -> list[str]:
    """Its command and arguments; nothing where it has just ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def suspend(process: psutil.Process) -> None:
    """Stop a process, and wait until it stands still: on a busy machine it may answer a few requests more before."""
    process.suspend()
    wait_until_stopped(process)


def wait_until_stopped(process: psutil.Process) -> None:
    """Wait until a process stands still.

    Raises:
        psutil.NoSuchProcess: it has ended.
    """
    deadline = time.monotonic() + _STOP_S_MAX
    while process.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, f"process {process.pid} has not stopped within {_STOP_S_MAX:g} s"
        time.sleep(0.001)


def run_without_reader_of_stderr(program: str) -> tuple[int, str]:
    """The exit code and the output of Python code whose messages nobody reads any more, with Python's own buffers."""
    read, written = os.pipe()
    os.close(read)
    try:
        process = subprocess.run(
            [sys.executable, "-c", program],
            stderr=written,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    finally:
        os.close(written)
    return process.returncode, process.stdout
