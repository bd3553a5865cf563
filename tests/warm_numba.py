"""Processes that have numba already: forked from one in which it has compiled something.

A process that imports numba and compiles one small function takes 0.9 s of processor time, nearly all for numba itself.
Ours is not imported there: each process imports it under an environment of its own, as it would after a start.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Self

_PROGRAM = """
import json, os, signal, socket, sys, tempfile, traceback
from importlib import import_module
import numba
from numba import njit, types
njit(nogil=True)(lambda number: number + 1).compile(types.int64(types.int64))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
link = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, handles, _, _ = socket.recv_fds(link, 1 << 20, 1)
    if not message:
        break
    if os.fork() == 0:
        signal.alarm(120)
        os.dup2(handles[0], 1)
        module, environment = json.loads(message)
        os.environ.clear()
        os.environ.update(environment)
        numba.core.config.reload_config()
        tempfile.tempdir = None
        sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
        try:
            import_module(module)
        except BaseException:
            print(traceback.format_exc())
        sys.stdout.flush()
        os._exit(0)
    os.close(handles[0])
"""


class WarmNumba:
    """The process that the others are forked from; it ends with the ``with`` block."""

    def __enter__(self) -> Self:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-B", "-c", _PROGRAM, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()
        self._process.wait(60)

    def start(self, module: str, environment: Mapping[str, str]) -> Printed:
        """Import a module in a new process, of which ``environment`` is the whole environment."""
        reader, writer = os.pipe()
        socket.send_fds(self._link, [json.dumps([module, dict(environment)]).encode()], [writer])
        os.close(writer)
        return Printed(reader)


class Printed:
    """What a process prints, until it ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read(self) -> str:
        with open(self._handle) as text:
            return text.read().strip()
