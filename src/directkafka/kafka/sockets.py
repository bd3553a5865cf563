"""The selector under kafka-python's connections, which closes the sockets that kafka-python forgets.

kafka-python leaves some sockets to garbage collection: one whose connecting or whose TLS handshake fails or takes too
long, and one that is closed before its request is sent. But a task that waits for a socket registers it first, and here
that is seen.
"""

from __future__ import annotations

import selectors
import socket
from typing import Any

__all__ = ["SocketSelector"]


class SocketSelector(selectors.DefaultSelector):
    """A selector that knows which sockets were registered with it, and are open. It closes them when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        #: The task that waited for it last.
        self._task_of: dict[socket.socket, object] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Register a file object, as every selector does.

        Args:
            fileobj: most often a socket.
            events: which events to wait for.
            data: kafka-python's tasks, the one that waits to read and the one that waits to write; either may be None.
        """
        if isinstance(fileobj, socket.socket):
            self._task_of = {known: task for known, task in self._task_of.items() if known.fileno() >= 0}
            self._task_of[fileobj] = next((task for task in data or () if task is not None), None)
        return super().register(fileobj, events, data)

    def close_sockets_of(self, task: object) -> None:
        """Close the sockets for which a task has waited, when what it made of them has failed."""
        for made in [known for known, found in self._task_of.items() if found is task]:
            made.close()
            del self._task_of[made]

    def let_go(self, taken: socket.socket) -> None:
        """Leave a socket open: somebody else closes it."""
        self._task_of.pop(taken, None)

    def close(self) -> None:
        """Close the selector, and its sockets."""
        super().close()
        for forgotten in self._task_of:
            forgotten.close()
        self._task_of.clear()
