"""Free ports that stay free until a server takes them."""

from __future__ import annotations

import socket
import sys
from typing import Self

LOOPBACK = "127.0.0.1"


class ReservedPort:
    """A TCP port of 127.0.0.1 that no other process is given while this object holds it.

    Asking the kernel for a free port and closing the socket again is a race: until the server has started,
    anybody may be given the same port. Here the socket stays open, bound with ``SO_REUSEADDR`` and not
    listening. Linux lets a second socket with ``SO_REUSEADDR`` (as Java's and Postgres' servers set it) bind
    and listen on such a port, but hands it out to nobody who asks for any free port. So the port also survives
    a crash and restart of the server.

    macOS does not allow the second bind: there the socket is closed at once, and the race is as small as usual.

    Attributes:
        number (int): the port.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]
        if not sys.platform.startswith("linux"):
            self.release()

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``."""
        return f"{LOOPBACK}:{self.number}"

    def release(self) -> None:
        """Give the port back; may be called twice."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
