"""A socket to one broker, and responses received from it into buffers that are used again."""

from __future__ import annotations

import logging
import select
import socket
import time
from dataclasses import dataclass

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
            # Not the socket's own way: that of TLS takes the encryption off first, and a thread that begins to send in
            # between would send in clear.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            log.debug("the channel to %s:%d was closed by the other side", self.host, self.port)

    def close(self) -> None:
        """End the connection and close the socket."""
        self.interrupt()
        self.socket.close()


#: A response may be this long whatever ``fetch.max.bytes`` says: one batch that is larger comes whole (KIP-74).
_RESPONSE_BYTES_MAX = 256 * 1024 * 1024
_GROWTH_BYTES_MIN = 1024 * 1024


class ResponseError(ValueError):
    """The bytes are not the response that was asked for; the connection cannot be used any further."""


def receive(channel: BrokerSocket, buffer: bytearray, bytes_max: int, deadline: float) -> int:
    """One response without its length into the buffer, which grows as bytes arrive.

    Args:
        channel: where an answer is on its way; its socket's own time limit counts for each reading.
        buffer: nobody else may hold a view of it.
        bytes_max: how long a response is expected to be; several times that, and 256 MiB in any case, are taken.
        deadline: ``time.monotonic()`` by which the whole response must be there.

    Returns:
        How long the response is.

    Raises:
        OSError: the connection is lost, or the response is not there in time.
        ResponseError: the length is none that a response can have.
    """
    head = bytearray(4)
    _receive_into(channel, head, 0, deadline)
    length = int.from_bytes(head, "big", signed=True)
    limit = max(4 * bytes_max, _RESPONSE_BYTES_MAX)
    if not 8 <= length <= limit:
        raise ResponseError(
            f"a response of {length} bytes; between 8 and {limit} can be (raise fetch.max.bytes if a record batch is "
            "as large as that)"
        )
    received = 0
    while received < length:
        if len(buffer) < length:
            # Grown in steps, so that a length that lies does not take memory before its bytes are there.
            buffer.extend(bytes(min(length, max(2 * len(buffer), _GROWTH_BYTES_MIN)) - len(buffer)))
        received = _receive_into(channel, buffer, received, deadline, end=length)
    return length


def _receive_into(channel: BrokerSocket, buffer: bytearray, start: int, deadline: float, end: int | None = None) -> int:
    """Fill the buffer from ``start`` to its end, or to ``end`` if that comes first; returns where it is filled to."""
    end = min(len(buffer), end) if end is not None else len(buffer)
    with memoryview(buffer) as whole:
        while start < end:
            with whole[start:end] as rest:
                count = channel.socket.recv_into(rest)
            if count == 0:
                raise ConnectionResetError(f"the broker {channel.host}:{channel.port} closed the connection")
            start += count
            if start < end and time.monotonic() > deadline:
                # The socket's own limit starts anew with each byte.
                raise TimeoutError(f"only {start} of at least {end} bytes came in time")
    return start
