"""Entries to the HTTP server and to the metrics: they say what is wrong, and load what needs packages of an extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from directkafka.errors import OptionError
from directkafka.monitoring.address import Address
from directkafka.options.texts import check_installed

if TYPE_CHECKING:
    from directkafka.monitoring.http_server import HttpServer
    from directkafka.monitoring.metrics import MetricsCollector

#: After how many seconds at one step a pipeline counts as stalled, unless it is said otherwise.
STALLED_AFTER_S: Final = 600.0


def serve_http(
    address: str = "127.0.0.1:9464", *, stalled_after_s: float = STALLED_AFTER_S, option: str = "address"
) -> HttpServer:
    """Serve metrics, health and a page of all pipelines of this process, from a thread, until the server is closed.

    ``/`` is a page for a browser, ``/metrics`` is for Prometheus. ``/healthz`` answers 503 where a pipeline has failed
    or is stalled, ``/readyz`` where one has not made its first plan or is held up by a failure.

    Args:
        address: where to listen; ``127.0.0.1:0`` lets the system choose a port. Who can reach it can read it: there is
            no login.
        stalled_after_s: after how many seconds at one step a pipeline counts as stalled.
        option: where the address was given, for messages.

    Returns:
        The server; its ``address`` says where it listens.

    Raises:
        OptionError: the address is none, or the extra ``operate`` is not installed.
        EnvironmentFaultError: the address cannot be had.
    """
    parsed = Address.parse(address, option=option)
    _check_extra(option)
    from directkafka.monitoring.http_server import HttpServer

    return HttpServer(parsed, stalled_after_s=stalled_after_s)


def serve_dashboard(
    files: Sequence[Path],
    address: str,
    *,
    every_s: float,
    stalled_after_s: float,
    behind_after_s: float,
    token: str | None = None,
    option: str = "address",
) -> HttpServer:
    """Serve a page about the pipelines of these files, wherever they run, until the server is closed.

    Args:
        files: pipeline files.
        address: where to listen; as for :func:`serve_http`.
        every_s: how often ledgers and Kafka are looked at, in seconds.
        stalled_after_s: for how long nothing may be committed while records are unread, in seconds.
        behind_after_s: how old an unread record may be until its pipeline is said to be behind, in seconds.
        token: what a change must bring; None refuses all changes.
        option: where the address was given, for messages.

    Returns:
        The server; its ``address`` says where it listens.

    Raises:
        OptionError: the address is none, a file is wrong, two are of one pipeline, or the extra ``operate`` is not
            installed.
        EnvironmentFaultError: the address cannot be had.
    """
    parsed = Address.parse(address, option=option)
    _check_extra(option)
    from directkafka.monitoring.http_server import HttpServer
    from directkafka.pipeline.file import load

    by_name: dict[str, Path] = {}
    for file in files:
        spec = load(file)
        other = by_name.setdefault(spec.pipeline.name, file)
        if other is not file:
            raise OptionError(option="FILE", reason=f"{other} and {file} are both of pipeline {spec.pipeline.name!r}")
        # What is wrong with these is told now, and not by the page.
        spec.source_parsed()
        spec.sinks()
    return HttpServer(
        parsed, stalled_after_s=stalled_after_s, files=by_name, every_s=every_s, behind_after_s=behind_after_s,
        token=token,
    )  # fmt: skip


def _check_extra(option: str) -> None:
    for package in ("prometheus_client", "starlette", "uvicorn"):
        check_installed(package, extra="operate", option=option)


def metrics_collector() -> MetricsCollector:
    """The metrics of all pipelines of this process, for a program that has a server of its own for its metrics.

    ``prometheus_client.REGISTRY.register(dk.metrics_collector())``

    Raises:
        OptionError: the extra ``operate`` is not installed.
    """
    check_installed("prometheus_client", extra="operate", option="metrics")
    from directkafka.monitoring.metrics import MetricsCollector

    return MetricsCollector()
