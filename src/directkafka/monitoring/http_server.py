"""The HTTP server of a process that runs pipelines: metrics and health, in a thread of its own. It changes nothing."""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
from typing import Final, Self

import uvicorn
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from directkafka.errors import EnvironmentFaultError
from directkafka.monitoring.health import Health, liveness, readiness
from directkafka.monitoring.http import Address
from directkafka.monitoring.metrics import MetricsCollector
from directkafka.pipeline.status import StatusView, started_pipelines

log = logging.getLogger("directkafka.monitoring")

_INDEX: Final = "directkafka: /metrics /healthz /readyz\n"

#: How long the server may take to end, in seconds.
_END_S: Final = 5.0


class HttpServer:
    """Serves ``/metrics``, ``/healthz`` and ``/readyz`` until it is closed; also as a context manager.

    Args:
        address: where to listen.
        stalled_after_s: after how many seconds at one step a pipeline counts as stalled.

    Raises:
        EnvironmentFaultError: the address cannot be had.
    """

    def __init__(self, address: Address, *, stalled_after_s: float) -> None:
        self._stalled_after_s = stalled_after_s
        self._registry = CollectorRegistry()
        self._registry.register(MetricsCollector())
        ProcessCollector(registry=self._registry)
        self._socket = _listen(address)
        host, port = self._socket.getsockname()[:2]
        #: Where it listens, also if the system has chosen the port.
        self.address = Address(host=host, port=port)
        config = uvicorn.Config(
            self._application(), log_config=None, log_level="warning", access_log=False, lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="directkafka http", daemon=True
        )
        self._thread.start()
        log.info("metrics and health at http://%s", self.address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; a request that is being answered has a moment."""
        self._server.should_exit = True
        self._thread.join(_END_S)
        self._socket.close()

    def _application(self) -> Starlette:
        routes = [
            Route("/", self._index),
            Route("/metrics", self._metrics),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
        ]
        guards = []
        if ipaddress.ip_address(self.address.host).is_loopback:
            # A page of another site, in a browser of this machine, must not read this by a name that leads here.
            guards.append(
                Middleware(TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1", "[::1]", self.address.host])
            )
        return Starlette(routes=routes, middleware=guards)

    # Starlette runs these in threads: they may wait for Kafka.

    def _index(self, _: Request) -> Response:
        return PlainTextResponse(_INDEX)

    def _metrics(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), headers={"content-type": content_type})

    def _healthz(self, _: Request) -> Response:
        return _answer(liveness(_views(), stalled_after_s=self._stalled_after_s))

    def _readyz(self, _: Request) -> Response:
        return _answer(readiness(_views()))


def _views() -> list[tuple[StatusView, float]]:
    return [(status.view, status.age_s()) for status in started_pipelines()]


def _answer(health: Health) -> Response:
    return JSONResponse(health.as_record(), status_code=200 if health.is_healthy else 503)


def _listen(address: Address) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise EnvironmentFaultError(
            what=f"nothing can listen at {address}: {error.strerror}",
            remedy="Choose another port with --http, or end what listens there.",
        ) from error
