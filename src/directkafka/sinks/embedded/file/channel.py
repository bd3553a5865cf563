"""Python values over a socket, between a driver and its process for files; Arrow's batches are not copied into pickles.

The rows of tasks' reports come as chunks, which are bytes of the pickle, or as the name of a file
(:class:`~directkafka.row_chunks.BatchesOfChunk`, :class:`~directkafka.row_files.BatchesOfFile`).

A message: the number of its parts, the length of each (64 bits), a pickle, and the buffers that the pickle names.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa


class Channel:
    """One end.

    Args:
        end: the socket; the channel closes it.
        timeout_s: how long the other end may let this one wait within a message.
        on_timeout: called then; the wait goes on unless it raises. Without it the wait ends with an error.
    """

    def __init__(self, end: socket.socket, *, timeout_s: float, on_timeout: Callable[[], None] | None = None) -> None:
        end.settimeout(timeout_s)
        self._end = end
        self._on_timeout = on_timeout

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether this end is closed."""
        return self._end.fileno() < 0

    def close(self) -> None:
        """The other end gets an EOFError, also while a child that this process has forked has a copy of this end."""
        with suppress(OSError):  # closed by now, on either side
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()

    def send(self, value: Any) -> None:
        """Send a value.

        Raises:
            OSError: the other end is closed, or does not take it in time.
            Exception: what pickling raises; nothing is sent then.
        """
        buffers: list[pickle.PickleBuffer] = []
        head = io.BytesIO()
        _Pickler(head, protocol=5, buffer_callback=buffers.append).dump(value)
        parts = [head.getbuffer(), *(buffer.raw() for buffer in buffers)]
        lengths = struct.pack(f"!I{len(parts)}Q", len(parts), *(part.nbytes for part in parts))
        for part in (memoryview(lengths), *parts):
            self._write(part)

    def wait(self, seconds: float | None) -> bool:
        """Whether a message begins, or the other end closes, within so many seconds; None: wait for it."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def receive(self) -> Any:
        """The next message's value.

        Raises:
            EOFError: the other end is closed.
            OSError: it does not go on in time.
            Exception: what unpickling raises; the message is read to its end then.
        """
        (count,) = struct.unpack("!I", self._read(4))
        lengths = struct.unpack(f"!{count}Q", self._read(8 * count))
        head, *buffers = [self._read(length) for length in lengths]
        return pickle.loads(head, buffers=buffers)

    def _write(self, part: memoryview) -> None:
        while part:
            try:
                part = part[self._end.send(part) :]
            except TimeoutError:
                self._wait_on()

    def _read(self, length: int) -> bytearray:
        buffer = bytearray(length)
        left = memoryview(buffer)
        while left:
            try:
                read = self._end.recv_into(left)
            except TimeoutError:
                self._wait_on()
                continue
            if not read:
                raise EOFError
            left = left[read:]
        return buffer

    def _wait_on(self) -> None:
        if self._on_timeout is None:
            raise TimeoutError
        self._on_timeout()


def _packed(batch: pa.RecordBatch) -> tuple[Callable[[Any], pa.RecordBatch], tuple[pickle.PickleBuffer]]:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, batch.schema) as stream:
        stream.write_batch(batch)
    return _unpacked, (pickle.PickleBuffer(written.getvalue()),)


def _unpacked(packed: Any) -> pa.RecordBatch:
    return pa.ipc.open_stream(pa.py_buffer(packed)).read_next_batch()


class _Pickler(pickle.Pickler):
    """Arrow's own pickles of a slice have all of what it is a slice of."""

    dispatch_table = {**copyreg.dispatch_table, pa.RecordBatch: _packed}  # noqa: RUF012 - pickle's own way
