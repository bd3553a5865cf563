"""A registry that answers as Confluent's and Apicurio's do, from a table."""

from __future__ import annotations

import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: As Confluent's registry tells it.
NOT_FOUND = {"error_code": 40403, "message": "Schema 9 not found io.confluent.rest.exceptions.RestNotFoundException"}


@dataclass
class RegistryServer:
    """What it answers by path, and what it was asked.

    Attributes:
        answers: by path, a status and a document, or bytes.
        failures: how many requests are answered with 503 first.
        asked: the paths, in order.
        logins: the header of each request.
        pause_s: behind each byte of an answer, in seconds.
        deleted: paths of versions that are shown to those alone who ask for deleted ones too.
        cut_bytes: how many bytes of its answers a registry that ends in the middle keeps back.
        posted: path and document of each request that brought one; its answer stands under ``POST`` and the path.
    """

    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    failures: int = 0
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    url: str = ""
    pause_s: float = 0.0
    deleted: set[str] = field(default_factory=set)
    cut_bytes: int = 0
    posted: list[tuple[str, Any]] = field(default_factory=list)

    def answer_to(self, path: str) -> tuple[int, Any]:
        known, _, with_deleted = path.partition("?deleted=")
        is_hidden = known in self.deleted and with_deleted != "true"
        return (404, NOT_FOUND) if is_hidden else self.answers.get(known, (404, NOT_FOUND))

    def add(self, number: int, schema: Any, **more: Any) -> None:
        self.add_text(number, json.dumps(schema), **more)

    def add_text(self, number: int, schema: str, **more: Any) -> None:
        self.answers[f"/schemas/ids/{number}"] = 200, {"schema": schema} | more

    def add_version(self, subject: str, version: str, number: int, schema: Any, **more: Any) -> None:
        self.add_version_text(subject, version, number, json.dumps(schema), **more)

    def add_version_text(self, subject: str, version: str, number: int, schema: str, **more: Any) -> None:
        document = {"subject": subject, "version": 1, "id": number, "schema": schema} | more
        self.answers[f"/subjects/{subject}/versions/{version}"] = 200, document


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Says nothing of a client that does not come in."""


@contextmanager
def running(context: ssl.SSLContext | None = None) -> Iterator[RegistryServer]:
    """One at work, on a port of its own; with a context it speaks TLS.

    Its address has a path of its own as well: what processes know of an address stays true, and ports are used again.
    """
    registry = RegistryServer()
    root = f"/{uuid.uuid4().hex[:8]}"

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            path = self.path.removeprefix(root)
            registry.posted.append((path, json.loads(content)))
            self._answer(f"POST {path}")

        def do_GET(self) -> None:
            path = self.path.removeprefix(root)
            registry.asked.append(path)
            self._answer(path)

        def _answer(self, path: str) -> None:
            registry.logins.append(self.headers["Authorization"])
            status, document = registry.answer_to(path)
            if registry.failures:
                registry.failures -= 1
                status, document = 503, {}
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if registry.cut_bytes:
                content, registry.cut_bytes = content[: -registry.cut_bytes], 0
            with suppress(ConnectionError):
                for piece in (content[at : at + 1] for at in range(len(content))) if registry.pause_s else (content,):
                    self.wfile.write(piece)
                    time.sleep(registry.pause_s)

        def log_message(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        # Each thread shakes hands itself, when it first reads.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    registry.url = f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}{root}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
