"""A connected and authenticated socket to one broker: how it is kept, woken and ended, whatever it carries."""

from __future__ import annotations

import logging
import select
import socket
from dataclasses import dataclass

__all__ = ["BrokerSocket"]

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class BrokerSocket:
    """A socket that was taken over from kafka-python.

    Attributes:
        socket: blocking; reads and writes time out after ``request.timeout.ms``.
        host, port: the broker.
        expires_at: ``time.monotonic()`` at which the SASL session ends, or infinity. The broker cuts a session
            that goes on past its end (KIP-368): the owner opens a new channel before.
        used_at: ``time.monotonic()`` at which it was last given back.
    """

    socket: socket.socket
    host: str
    port: int
    expires_at: float
    used_at: float = 0.0

    def is_quiet(self) -> bool:
        """Whether nothing has arrived: on an idle channel, anything is the broker hanging up."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def interrupt(self) -> None:
        """End the connection, so that a thread that waits in it is woken with an error; it is still to be closed.

        Only the thread that uses a socket may close it: the number of a closed one goes to the next that is opened,
        while that thread may be about to read from it.
        """
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("the channel to %s:%d was closed by the other side", self.host, self.port)

    def close(self) -> None:
        """End the connection and close the socket."""
        self.interrupt()
        self.socket.close()
