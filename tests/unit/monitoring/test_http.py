"""The server's address, and what is said where it cannot be had."""

from __future__ import annotations

import socket
from importlib import util

import pytest

import directkafka
from directkafka.errors import EnvironmentFaultError, OptionError
from directkafka.monitoring.address import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9464", "127.0.0.1", 9464),
        ("localhost:0", "localhost", 0),
        ("[::1]:80", "::1", 80),
        ("metrics.example-1.org:65535", "metrics.example-1.org", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    address = Address.parse(text, option="--http")
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "text", ["", "9464", "localhost", ":9464", "localhost:65536", "::1:80", "a b:1", "a:1\n", "x:-1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"--http.*expected HOST:PORT"):
        Address.parse(text, option="--http")


def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EnvironmentFaultError, match=f"nothing can listen at {address}.*Choose another port"):
            directkafka.serve_http(address)


def test_an_address_of_another_machine_is_told_once_with_what_to_do() -> None:
    with pytest.raises(EnvironmentFaultError) as raised:
        directkafka.serve_http("192.0.2.1:9464")
    told = str(raised.value)
    assert "Choose an address of this machine" in told
    assert told.count("192.0.2.1") == 1


@pytest.mark.parametrize("package", ["prometheus_client", "starlette", "uvicorn"])
def test_a_missing_extra_is_named_with_the_command_that_brings_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = util.find_spec
    monkeypatch.setattr(
        "directkafka.options.texts.find_spec", lambda name: None if name == package else find_spec(name)
    )
    with pytest.raises(OptionError, match=rf"{package} is not installed: run pip install '\.\[operate\]'"):
        directkafka.serve_http("127.0.0.1:0")
    if package == "prometheus_client":
        with pytest.raises(OptionError, match="operate"):
            directkafka.metrics_collector()
