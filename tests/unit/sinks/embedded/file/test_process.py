"""What the process for files tells a driver when something goes wrong on its side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from directkafka.sinks.embedded.file import process
from directkafka.sinks.embedded.file.channel import Channel
from directkafka.sinks.embedded.file.connection import DatabaseSaidError
from directkafka.sinks.embedded.file.process import Opening

PATIENCE_S = 60.0


class BrokenFile:
    """A file that returns what cannot be sent, and does not close well."""

    def __init__(self) -> None:
        self.closing = threading.Event()

    def rows(self, *_: object) -> Any:
        return threading.Lock()

    def insert(self, *_: object) -> int:
        return 1

    def close(self) -> None:
        self.closing.set()
        raise OSError("the disk is full")


@pytest.fixture
def file() -> BrokenFile:
    return BrokenFile()


@pytest.fixture
def driver(file: BrokenFile) -> Iterator[Channel]:
    """The driver's end."""
    ours, theirs = socket.socketpair()
    with Channel(ours, timeout_s=PATIENCE_S) as channel:
        opening = Opening(kind="sqlite", path="", lock_timeout_s=1.0, durable=False, silence_s_max=0.5)

        def serve() -> None:
            with Channel(theirs, timeout_s=PATIENCE_S) as served:
                process._answer_all(served, file, opening)  # type: ignore[arg-type]

        thread = threading.Thread(target=serve)
        thread.start()
        yield channel
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def asked(channel: Channel, name: str) -> Any:
    channel.send((name, (), {}))
    return channel.receive()


def test_an_answer_that_cannot_be_sent_is_told_and_the_file_stays_open(driver: Channel) -> None:
    is_done, error = asked(driver, "rows")
    assert not is_done
    assert "pickle" in str(error)
    assert asked(driver, "insert") == (True, 1)
    assert asked(driver, "close")[0] is False


def test_a_driver_that_said_nothing_is_told_so_although_the_file_did_not_close_well(
    driver: Channel, file: BrokenFile
) -> None:
    assert file.closing.wait(PATIENCE_S)
    is_done, error = asked(driver, "insert")
    assert not is_done
    assert isinstance(error, DatabaseSaidError)
    assert "asked for nothing for 0.5 s" in str(error)
