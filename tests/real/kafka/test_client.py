"""The client against a real broker and against none; and what it relies on in kafka-python's private parts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import kafka.errors
import kafka.net.connection
import kafka.net.inet
import pytest
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from tests.real.kafka.logs import host_and_port, options
from tests.real.kafka.proxy import KafkaProxy, advertise
from tests.waiting import until

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.kafka.network.client import Channel, KafkaClient, open_channel, raise_for
from directkafka.kafka.network.connections import Connections
from directkafka.kafka.network.tls import tls_context
from directkafka.testing import KafkaBroker
from directkafka.testing.servers.ports import ReservedPort

pytestmark = pytest.mark.real


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens, or will: a JVM beside this test would take our requests for its worker's."""
    with ReservedPort() as port:
        yield port.address


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where connections are accepted by the kernel, and nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def broker_count(client: KafkaClient) -> int:
    return len(client.call("Metadata", topics=[]).brokers)


# Reaching a broker.


def test_an_address_where_nobody_listens_is_named_in_bounded_time(nobody: str) -> None:
    client = KafkaClient(options(nobody, socket_connection_setup_timeout_ms=700))
    begun = time.monotonic()
    with closing(client), pytest.raises(BrokerUnreachableError, match=nobody) as caught:
        broker_count(client)
    assert time.monotonic() - begun < 3.0
    assert caught.value.addresses == (nobody,)
    assert caught.value.timeout_ms == 700


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_an_address_that_never_answers_is_named_in_bounded_time(silent: str, protocol: str) -> None:
    """With TLS, it is the handshake that would wait for ever."""
    client = KafkaClient(options(silent, socket_connection_setup_timeout_ms=700, security_protocol=protocol))
    begun = time.monotonic()
    with closing(client), pytest.raises(BrokerUnreachableError, match=silent):
        broker_count(client)
    assert time.monotonic() - begun < 3.0


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_channel_to_an_address_that_never_answers_is_given_up_in_bounded_time(silent: str, protocol: str) -> None:
    client_options = options(silent, security_protocol=protocol)
    begun = time.monotonic()
    with pytest.raises(BrokerUnreachableError, match=silent) as caught:
        open_channel(client_options, *host_and_port(silent), timeout_ms=500)
    assert time.monotonic() - begun < 3.0
    assert caught.value.timeout_ms == 500


def test_a_host_that_does_not_exist_is_named() -> None:
    address = "no-such-host.invalid:9092"
    client = KafkaClient(options(address, socket_connection_setup_timeout_ms=300))
    with closing(client), pytest.raises(BrokerUnreachableError, match=address):
        broker_count(client)


@pytest.mark.parametrize("bad", ["nobody", "silent"])
def test_one_address_that_works_is_enough(servers: str, bad: str, request: pytest.FixtureRequest) -> None:
    addresses = f"{request.getfixturevalue(bad)},{servers}"
    # Which one is tried first is random.
    for _ in range(4):
        with closing(KafkaClient(options(addresses, socket_connection_setup_timeout_ms=2_000))) as client:
            assert broker_count(client) == 1


def test_a_plaintext_client_of_a_tls_port_is_told_where_to_look(servers: str) -> None:
    """Here the other way round: the plaintext broker hangs up on a TLS handshake."""
    client = KafkaClient(options(servers, security_protocol="SSL", socket_connection_setup_timeout_ms=500))
    with closing(client), pytest.raises(BrokerUnreachableError, match="Handshake failed") as caught:
        broker_count(client)
    assert "kafka.security.protocol" in str(caught.value)


def test_no_connection_is_made_before_the_first_call(servers: str) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        with closing(KafkaClient(options(f"127.0.0.1:{proxy.port}"))):
            pass
        with socket.create_connection(("127.0.0.1", proxy.port)):
            until(lambda: proxy.connections, "the proxy accepts nobody, so this proved nothing")
        # Connections are accepted in the order they were made: one of the client's would have been counted too.
        assert proxy.connections == 1


# Keeping connections.


def test_connections_are_kept_from_call_to_call(servers: str) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        proxy.change = advertise(servers, address)
        with closing(KafkaClient(options(address))) as client:
            for _ in range(5):
                assert broker_count(client) == 1
        # One to learn the cluster, one to the broker itself.
        assert proxy.connections == 2


@pytest.mark.slow
def test_a_broker_may_restart_between_two_calls_and_is_an_error_only_while_it_is_gone() -> None:
    with KafkaBroker() as broker:
        impatient = options(broker.bootstrap_servers, socket_connection_setup_timeout_ms=500)
        with closing(KafkaClient(impatient)) as client:
            assert broker_count(client) == 1
            broker.restart()
            # The connection is dead, which is noticed before it is used.
            assert broker_count(client) == 1
            broker.kill()
            with pytest.raises(BrokerUnreachableError, match=broker.bootstrap_servers):
                broker_count(client)
            broker.restart()
            assert broker_count(client) == 1


def test_calls_of_several_threads_take_their_turn(servers: str) -> None:
    counts: list[int] = []
    with closing(KafkaClient(options(servers))) as client:
        threads = [threading.Thread(target=lambda: counts.append(broker_count(client))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts == [1] * 8


def test_a_client_may_be_closed_twice_and_leaves_no_thread(servers: str) -> None:
    before = threading.enumerate()
    client = KafkaClient(options(servers))
    assert broker_count(client) == 1
    client.close()
    client.close()
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []


def test_an_answer_that_does_not_come_is_an_error_within_the_request_timeout(servers: str) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        proxy.change = advertise(servers, address)
        with closing(KafkaClient(options(address, request_timeout_ms=500))) as client:
            assert broker_count(client) == 1
            proxy.change = lambda _: None
            begun = time.monotonic()
            with pytest.raises(BrokerUnreachableError, match=address):
                broker_count(client)
            assert time.monotonic() - begun < 3.0


#: Of a response without its length, which goes on with the correlation id.
GARBAGE = {
    "ones": lambda response: b"\xff" * len(response),
    "ones after the id": lambda response: response[:4] + b"\xff" * (len(response) - 4),
    "zeros after the id": lambda response: response[:4] + bytes(len(response) - 4),
    "half": lambda response: response[: len(response) // 2],
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_server_that_answers_with_garbage_is_named_in_bounded_time(servers: str, garbage: str) -> None:
    with KafkaProxy(*host_and_port(servers), change=GARBAGE[garbage]) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        quick = options(address, socket_connection_setup_timeout_ms=400, request_timeout_ms=400)
        begun = time.monotonic()
        with closing(KafkaClient(quick)) as client, pytest.raises(BrokerUnreachableError, match=address):
            broker_count(client)
        with pytest.raises(BrokerUnreachableError, match=address):
            open_channel(quick, "127.0.0.1", proxy.port)
        assert time.monotonic() - begun < 3.0


@pytest.mark.parametrize("length", [-1, 3, 2**31 - 1], ids="length {}".format)
def test_a_server_that_lies_about_its_lengths_is_named_in_bounded_time(servers: str, length: int) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        proxy.lie = lambda _: length
        address = f"127.0.0.1:{proxy.port}"
        quick = options(address, socket_connection_setup_timeout_ms=400, request_timeout_ms=400)
        begun = time.monotonic()
        with closing(KafkaClient(quick)) as client, pytest.raises(BrokerUnreachableError, match=address):
            broker_count(client)
        assert time.monotonic() - begun < 3.0


def test_a_question_that_the_broker_is_too_old_for_is_said_to_be_that(servers: str) -> None:
    with closing(KafkaClient(options(servers))) as client:
        with pytest.raises(BrokerResponseError, match="UNSUPPORTED_VERSION") as caught:
            client.call("Metadata", version_min=99, topics=[])
        assert not caught.value.retriable
        assert broker_count(client) == 1


# Taking a socket over.


@pytest.fixture
def channel(servers: str) -> Iterator[Channel]:
    opened = open_channel(options(servers), *host_and_port(servers))
    yield opened
    opened.close()


def test_a_taken_socket_answers_after_its_manager_is_closed(channel: Channel) -> None:
    correlation_id, request = channel.encode_fetch(
        12,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )
    channel.socket.sendall(request)
    length = int.from_bytes(channel.socket.recv(4), "big")
    response = channel.socket.recv(length)
    assert int.from_bytes(response[:4], "big") == correlation_id


def test_a_taken_socket_blocks_and_is_without_anything_to_read(channel: Channel) -> None:
    assert channel.is_quiet()
    assert channel.socket.gettimeout() == 30.0
    assert channel.fetch_version == 17
    assert channel.expires_at == float("inf")


def test_correlation_ids_rise_from_request_to_request(channel: Channel) -> None:
    first, _ = channel.encode_fetch(4, topics=[])
    second, request = channel.encode_fetch(4, topics=[])
    assert second == first + 1
    assert int.from_bytes(request[8:12], "big") == second


def test_an_interrupt_wakes_the_thread_that_waits(channel: Channel) -> None:
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(channel.socket.recv(1)))
    thread.start()
    channel.interrupt()
    thread.join(10.0)
    assert received == [b""]
    assert not channel.is_quiet()
    channel.interrupt()


def test_a_broker_that_hangs_up_makes_the_channel_unquiet(servers: str) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        opened = open_channel(options(servers), "127.0.0.1", proxy.port)
        assert opened.is_quiet()
        proxy.cut()
        until(lambda: not opened.is_quiet(), "the end did not arrive")
        opened.close()


def test_an_old_broker_without_a_version_that_we_speak_is_refused(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialize = kafka.net.connection.KafkaConnection._get_api_versions

    async def as_an_old_broker(connection: kafka.net.connection.KafkaConnection, *arguments: object) -> None:
        await initialize(connection, *arguments)
        connection.broker_version_data.api_versions[1] = (0, 3)

    monkeypatch.setattr(kafka.net.connection.KafkaConnection, "_get_api_versions", as_an_old_broker)
    with pytest.raises(BrokerUnreachableError):
        open_channel(options(servers), *host_and_port(servers))


# What is relied on in kafka-python.


def test_kafka_python_has_the_private_parts_that_are_used(servers: str) -> None:
    manager = Connections(options(servers))
    net = manager._net
    assert isinstance(manager, KafkaConnectionManager)
    assert isinstance(net, NetworkSelector)

    async def connect() -> kafka.net.connection.KafkaConnection:
        assert net._current in net._pending_tasks
        connection = manager.get_connection(manager.cluster.bootstrap_brokers()[0].node_id, timeout_ms=5_000)
        await manager.wait_for(connection.init_future, 5_000)
        assert manager._tasks[connection].is_done
        return connection

    try:
        connection = manager.run(connect)
        assert connection._reauth.session_lifetime_ms == 0
        assert isinstance(connection.transport._sock, socket.socket)
        assert connection.transport._read_task in net._pending_tasks
        assert manager.least_loaded_node() is None
        assert manager.connection_delay(connection.node_id) == 0
        assert connection.transport._sock_recv() == (b"", None)
        assert manager._auth_failures == {}
        assert manager.config["ssl_context"] is None
        assert type(kafka.net.inet.KafkaNetSocket(manager.config["proxy_url"])).__module__ == Connections.__module__
        net.poll(timeout_ms=0)
    finally:
        manager.close_all()


# Error codes.


def test_an_error_code_becomes_an_error_with_its_name() -> None:
    anybody = options("b:9092")
    with pytest.raises(BrokerResponseError, match=r"ListOffsets for topic flights with error 3 \(UNKNOWN_TOPIC"):
        raise_for("ListOffsets", 3, "topic flights", anybody)
    raise_for("ListOffsets", 0, "topic flights", anybody)


# Sockets that kafka-python alone would leave to garbage collection.


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The sockets that are made for connections, in their order."""
    sockets: list[socket.socket] = []
    make = kafka.net.inet.KafkaNetSocket.socket

    def remembered(maker: object, *arguments: object) -> socket.socket:
        sockets.append(make(maker, *arguments))
        return sockets[-1]

    monkeypatch.setattr(kafka.net.inet.KafkaNetSocket, "socket", remembered)
    return sockets


@pytest.fixture
def full() -> Iterator[str]:
    """An address at which the kernel drops whoever would connect: nobody accepts those who wait already."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_connection_that_takes_too_long_leaves_no_open_socket(full: str, made: list[socket.socket]) -> None:
    with closing(KafkaClient(options(full, socket_connection_setup_timeout_ms=300))) as client:
        with pytest.raises(BrokerUnreachableError):
            broker_count(client)
        assert made
        assert [opened_socket for opened_socket in made if opened_socket.fileno() >= 0] == []


def test_an_address_of_a_host_that_is_refused_leaves_no_open_socket(
    servers: str, nobody: str, made: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where ``localhost`` is two addresses, and the broker listens at one."""
    look_up = kafka.net.inet.KafkaNetSocket.dns_lookup
    refused = int(nobody.rpartition(":")[2])

    def refused_first(maker: object, host: str, port: int, **named: object) -> list[object]:
        return [*look_up(maker, host, refused, **named), *look_up(maker, host, port, **named)]

    monkeypatch.setattr(kafka.net.inet.KafkaNetSocket, "dns_lookup", refused_first)
    with closing(KafkaClient(options(servers))) as client:
        assert broker_count(client) == 1
        port = int(servers.rpartition(":")[2])
        assert len(made) >= 4
        assert {opened_socket.getpeername()[1] for opened_socket in made if opened_socket.fileno() >= 0} == {port}
    assert [opened_socket for opened_socket in made if opened_socket.fileno() >= 0] == []


def test_a_tls_handshake_without_an_answer_is_hung_up_when_its_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        given = options(address, security_protocol="SSL", socket_connection_setup_timeout_ms=300)
        with closing(KafkaClient(given)) as client:
            with pytest.raises(BrokerUnreachableError):
                broker_count(client)
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(30)
                while accepted.recv(4096):
                    pass


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_connection_that_is_not_waited_for_any_longer_is_hung_up(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        given = options(f"127.0.0.1:{listener.getsockname()[1]}", security_protocol=protocol)
        manager = Connections(given, ssl_context=tls_context(given))

        async def wait() -> None:
            node_id = manager.cluster.bootstrap_brokers()[0].node_id
            await manager.ready(manager.get_connection(node_id, timeout_ms=60_000), 200)

        with closing(manager), pytest.raises(kafka.errors.KafkaTimeoutError):
            manager.run(wait)
        accepted, _ = listener.accept()
        with accepted:
            accepted.settimeout(30)
            while accepted.recv(4096):
                pass
        manager._net.poll(timeout_ms=0)
        manager.close_all()
    assert "already done" not in caplog.text


def test_bytes_that_were_not_sent_keep_no_socket_open(servers: str, made: list[socket.socket]) -> None:
    manager = Connections(options(servers))

    async def connect() -> None:
        connection = manager.get_connection(manager.cluster.bootstrap_brokers()[0].node_id, timeout_ms=5_000)
        await manager.ready(connection, 5_000)
        connection.transport._write_buffer.append(b"unsent")

    manager.run(connect)
    manager.close_all()
    assert made
    assert [opened_socket for opened_socket in made if opened_socket.fileno() >= 0] == []


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_broker_that_tells_an_impossible_host_is_unreachable(servers: str, host: str) -> None:
    with closing(KafkaClient(options(servers))) as client:
        assert broker_count(client) == 1
        (broker,) = client._manager.cluster.brokers()
        client._manager.close(broker.node_id)
        broker.host = host
        with pytest.raises(BrokerUnreachableError, match="is no host's name"):
            client.call("Metadata", broker.node_id, topics=[])


def test_a_broker_that_throttles_is_asked_again_when_it_lets_us(servers: str) -> None:
    with closing(KafkaClient(options(servers))) as client:
        assert broker_count(client) == 1
        (connection,) = client._manager._conns.values()
        connection.pause("throttle")
        begun = time.monotonic()
        client._manager._net.call_later(0.5, lambda: connection.unpause("throttle"))
        assert broker_count(client) == 1
        assert time.monotonic() - begun > 0.4


def test_a_broker_that_hangs_up_behind_the_last_answer_is_unreachable(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = Connections.ready

    async def hung_up(manager: Connections, connection: Any, timeout_ms: float) -> None:
        await ready(manager, connection, timeout_ms)
        connection.transport.abort()

    monkeypatch.setattr(Connections, "ready", hung_up)
    host, port = servers.split(":")
    with pytest.raises(BrokerUnreachableError, match="hung up"):
        open_channel(options(servers), host, int(port))
