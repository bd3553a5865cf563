"""What the client asks of several brokers, of which none answers; the brokers and the clock are none."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest

from directkafka.errors import BrokerUnreachableError, OptionError
from directkafka.kafka.network import client as client_module
from directkafka.kafka.network.client import KafkaClient
from directkafka.options.client import ClientOptions

CONNECT_S, REQUEST_S = 10, 30


class Silent:
    """A cluster of frozen brokers: each takes the whole time for a connection."""

    def __init__(self, count: int) -> None:
        self.now_s = 0.0
        self.asked: list[int] = []
        self.named: list[dict[str, Any]] = []
        self.cluster = SimpleNamespace(
            brokers=lambda: [SimpleNamespace(node_id=number) for number in range(count)],
            broker_metadata=lambda _: None,
        )
        self._net = SimpleNamespace(poll=lambda timeout_ms: None)
        self.config: dict[str, Any] = {}
        self._conns: dict[int, object] = {}

    def least_loaded_node(self) -> int:
        return 0

    def connection_delay(self, _: int) -> float:
        return 0.0

    def get_connection(self, node_id: int, **named: Any) -> object:
        self.asked.append(node_id)
        self.named.append(named)
        return SimpleNamespace(paused=set())

    async def ready(self, _: object, timeout_ms: float) -> None:
        self.now_s += timeout_ms / 1000
        raise kafka.errors.KafkaTimeoutError

    def run(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        function(*arguments).send(None)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Silent:
    brokers = Silent(count=9)
    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=lambda: brokers.now_s, sleep=lambda _: None))
    return brokers


def ask(brokers: Silent, node_id: int | None) -> None:
    params = {
        "bootstrap.servers": "h:1",
        "socket.connection.setup.timeout.ms": CONNECT_S * 1000,
        "request.timeout.ms": REQUEST_S * 1000,
    }
    client: Any = KafkaClient(ClientOptions.from_kafka_params(params))
    client.close()
    client._manager, client._bootstrapped = brokers, True
    with pytest.raises(BrokerUnreachableError):
        client.call("Metadata", node_id)


def test_where_any_broker_will_do_others_are_asked_until_the_time_of_the_first_is_over(silent: Silent) -> None:
    ask(silent, None)
    assert len(set(silent.asked)) == len(silent.asked) == (CONNECT_S + REQUEST_S) / CONNECT_S
    assert silent.now_s == CONNECT_S + REQUEST_S


def test_a_broker_that_is_named_is_asked_alone(silent: Silent) -> None:
    ask(silent, 3)
    assert silent.asked == [3]


def test_no_failure_sets_kafka_python_looking_for_the_cluster_by_itself(silent: Silent) -> None:
    ask(silent, 3)
    ask(silent, None)
    assert {named["refresh_metadata_on_err"] for named in silent.named} == {False}
    assert {named["timeout_ms"] for named in silent.named} == {CONNECT_S * 1000}


def test_a_client_whose_named_addresses_are_down_goes_on_with_the_brokers_that_it_knows(silent: Silent) -> None:
    named, known = (
        SimpleNamespace(node_id="bootstrap-0", host="h", port=1),
        SimpleNamespace(node_id=5, host="k", port=1),
    )
    silent.cluster.bootstrap_brokers = lambda: [named]
    silent.cluster.brokers = lambda: [known]
    learned: list[Any] = []

    async def learn_from(node_id: Any, _: float) -> None:
        learned.append(node_id)
        if node_id == "bootstrap-0":
            raise kafka.errors.KafkaConnectionError("refused")

    def run(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        with suppress(StopIteration):
            function(*arguments).send(None)

    client: Any = KafkaClient(ClientOptions(bootstrap_servers=("h:1",)))
    client.close()
    silent._auth_failures = set()  # type: ignore[attr-defined]
    client._manager, client._learn_from, silent.run = silent, learn_from, run  # type: ignore[method-assign]
    client._bootstrap()
    assert learned == ["bootstrap-0", 5]


def test_a_named_address_has_half_of_the_time_however_many_brokers_are_known(silent: Silent) -> None:
    silent.cluster.bootstrap_brokers = lambda: [SimpleNamespace(node_id="bootstrap-0", host="h", port=1)]
    silent.cluster.brokers = lambda: [SimpleNamespace(node_id=number, host="k", port=1) for number in range(30)]
    shares_ms: list[float] = []

    def run(_: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        share_ms = arguments[1]
        shares_ms.append(share_ms)
        silent.now_s += share_ms / 1000
        raise kafka.errors.KafkaTimeoutError

    client: Any = KafkaClient(ClientOptions(bootstrap_servers=("h:1",), connect_timeout_ms=10_000))
    client.close()
    silent._auth_failures, silent.run = set(), run  # type: ignore[attr-defined, method-assign, assignment]
    client._manager = silent
    with pytest.raises(BrokerUnreachableError):
        client._bootstrap()
    assert shares_ms[0] == 5_000


def test_why_an_address_failed_is_told_though_the_last_try_had_no_time_left(silent: Silent) -> None:
    silent.cluster.bootstrap_brokers = lambda: [SimpleNamespace(node_id="bootstrap-0", host="h", port=1)]
    silent.cluster.brokers = list
    failures = iter([kafka.errors.KafkaConnectionError("Handshake failed")])

    def run(_: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        silent.now_s += min(4, arguments[1] / 1000)
        raise next(failures, kafka.errors.KafkaTimeoutError("timed out"))

    client: Any = KafkaClient(ClientOptions(bootstrap_servers=("h:1",), connect_timeout_ms=10_000))
    client.close()
    silent._auth_failures, silent.run = set(), run  # type: ignore[attr-defined, method-assign, assignment]
    client._manager = silent
    with pytest.raises(BrokerUnreachableError, match="Handshake failed"):
        client._bootstrap()


def test_a_process_that_is_out_of_descriptors_reaches_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(client_module, "Connections", fail)
    with pytest.raises(BrokerUnreachableError, match="too many open files"):
        KafkaClient(ClientOptions(bootstrap_servers=("h:1",)))


def test_a_new_connection_of_a_client_that_runs_reads_the_certificates_anew(
    silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have been renewed since, and the old ones be over."""
    monkeypatch.setattr(client_module, "tls_context", lambda _: "renewed")
    silent.config["ssl_context"] = "old"
    silent._conns[5] = "a connection"
    ask(silent, 5)
    assert silent.config["ssl_context"] == "old"
    ask(silent, 3)
    assert silent.config["ssl_context"] == "renewed"


def test_certificates_that_cannot_be_read_in_this_moment_stop_no_client_that_runs(
    silent: Silent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cut_off(_: ClientOptions) -> None:
        raise OptionError(option="kafka.ssl.keystore.location", reason="is cut off")

    monkeypatch.setattr(client_module, "tls_context", cut_off)
    silent.config["ssl_context"] = "old"
    ask(silent, 3)
    assert silent.config["ssl_context"] == "old"
    assert "certificates are used as they were at the last connection" in caplog.text
