"""The HTTP server: metrics and health of the pipelines of this process, and the page, in a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import uvicorn
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from directkafka.errors import EnvironmentFaultError
from directkafka.monitoring.address import Address
from directkafka.monitoring.dashboard.board import OBSERVED_EVERY_S, Board
from directkafka.monitoring.dashboard.conditions import BEHIND_AFTER_S, Limits
from directkafka.monitoring.dashboard.details import Details
from directkafka.monitoring.dashboard.routes import DashboardRoutes
from directkafka.monitoring.health import Health, liveness, readiness
from directkafka.monitoring.metrics import MetricsCollector
from directkafka.pipeline.status import StatusView, started_pipelines

log = logging.getLogger("directkafka.monitoring")

#: How many clients may be connected.
CONNECTIONS_MAX: Final = 200

#: How many clients the loop accepts in one step: each has a descriptor before the protocol can refuse it.
_ACCEPTED_AT_ONCE: Final = 64

#: How long closing waits for the server's thread, and how long requests in progress have to finish, in seconds.
_END_S: Final = 5.0
_LAST_ANSWERS_S: Final = 1


class BoundedProtocol(H11Protocol):
    """HTTP over a bounded number of connections. A connection that sends no request is closed.

    Each connection takes a descriptor of the driver's process, which needs descriptors for Kafka and the stores.
    uvicorn checks its own limit only when a request has come, and its idle timeout starts only after an answer. Here
    the head of a request must be complete within uvicorn's keep-alive timeout, counted from the connection or from the
    answer before.
    """

    #: When the head of the next request must be complete, in seconds of the loop's clock.
    _head_until = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        if len(self.connections) >= CONNECTIONS_MAX:
            transport.close()
            return
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Some of a request has come."""
        super().data_received(data)
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self.timeout_keep_alive_task is None and not is_answering:
            self._close_at(self._head_until)

    def on_response_complete(self) -> None:
        """The next request may come."""
        super().on_response_complete()
        self._head_until = self.loop.time() + self.timeout_keep_alive

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed. uvicorn does not know one that was refused."""
        if self in self.connections:
            super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_until = self.loop.time() + self.timeout_keep_alive
        self._close_at(self._head_until)

    def _close_at(self, time_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_at(time_s, self.timeout_keep_alive_handler)


class HttpServer:
    """Serves ``/metrics``, ``/healthz``, ``/readyz`` and the page until it is closed; also as a context manager.

    Args:
        address: where to listen.
        stalled_after_s: after how many seconds at one step a pipeline counts as stalled.
        files: pipeline files by the pipelines' names, which the page shows beside the pipelines of this process.
        every_s: how often the page's pipelines are observed, in seconds.
        behind_after_s: how old an unread record may be until the page says that its pipeline is behind.
        token: what a change by the page must bring, and at an address that others reach a look at dead letters or a
            reset as well; None refuses all of these.

    Raises:
        EnvironmentFaultError: the server cannot listen at the address.
    """

    def __init__(
        self,
        address: Address,
        *,
        stalled_after_s: float,
        files: Mapping[str, Path] | None = None,
        every_s: float = OBSERVED_EVERY_S,
        behind_after_s: float = BEHIND_AFTER_S,
        token: str | None = None,
    ) -> None:
        self._stalled_after_s = stalled_after_s
        self._registry = CollectorRegistry()
        self._registry.register(MetricsCollector())
        ProcessCollector(registry=self._registry)
        self._socket = _listen(address)
        host, port = self._socket.getsockname()[:2]
        #: Where it listens, also if the system has chosen the port.
        self.address = Address(host=host, port=port)
        limits = Limits(stalled_after_s=stalled_after_s, behind_after_s=behind_after_s)
        self._board = Board(files or {}, limits=limits, every_s=every_s)
        self._page = DashboardRoutes(self._board, Details(files or {}), is_loopback=self._is_loopback(), token=token)
        config = uvicorn.Config(
            self._application(),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_LAST_ANSWERS_S,
            http=BoundedProtocol,
            backlog=_ACCEPTED_AT_ONCE,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="directkafka http", daemon=True
        )
        self._thread.start()
        self._board.start()
        log.info("page, metrics and health at http://%s", self.address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server; requests in progress have a second to finish."""
        self._board.close()
        self._server.should_exit = True
        self._thread.join(_END_S)
        self._socket.close()

    def _is_loopback(self) -> bool:
        return ipaddress.ip_address(self.address.host).is_loopback

    def _application(self) -> Starlette:
        routes = [
            *self._page.routes(),
            Route("/metrics", self._metrics),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
        ]
        guards = []
        if self._is_loopback():
            # Against DNS rebinding: another site can give this address a name of its own, and its page, in a browser of
            # this machine, could then read the answers.
            guards.append(
                Middleware(TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1", "[::1]", self.address.host])
            )
        return Starlette(routes=routes, middleware=guards)

    # Not async, so that Starlette calls it in a thread: it may wait for Kafka.

    def _metrics(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), headers={"content-type": content_type})

    # Async, so that they need no free thread: a supervisor restarts a process whose health check does not answer.

    async def _healthz(self, _: Request) -> Response:
        return _answer(liveness(_views(), stalled_after_s=self._stalled_after_s))

    async def _readyz(self, _: Request) -> Response:
        return _answer(readiness(_views()))


def _views() -> list[tuple[StatusView, float]]:
    return [(status.view, status.idle_s()) for status in started_pipelines()]


def _answer(health: Health) -> Response:
    return JSONResponse(health.as_record(), status_code=200 if health.is_healthy else 503)


def _listen(address: Address) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            remedy = "Choose another port, or end the program that listens there."
        else:
            remedy = "Choose an address of this machine, and a port that you may listen at."
        reason = str(error.strerror).partition(" (while attempting")[0]
        raise EnvironmentFaultError(what=f"nothing can listen at {address}: {reason}", remedy=remedy) from error
