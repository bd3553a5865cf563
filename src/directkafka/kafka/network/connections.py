"""Connections to brokers, made by kafka-python from this library's options: bounded in time, no socket left open.

kafka-python leaves sockets to garbage collection: one that cannot be connected, one whose TLS handshake fails or takes
too long (it has no limit), and one that is closed while something is still to be sent. Here whoever makes a socket
closes it when the making fails, and all that were made are closed in the end.

What is used of kafka-python's private parts: ``_build_transport`` makes a transport; a transport's ``_sock`` is its
socket, ``_sock_recv`` returns bytes and what ended them, ``_close`` closes at once; the selector's ``_current`` is the
task that runs. A class of sockets is chosen by the scheme of ``proxy_url``.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import kafka.errors
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from directkafka.kafka.network.kerberos import TicketProvider
from directkafka.kafka.network.oauth import TokenProvider
from directkafka.options.client import ClientOptions

_RESPONSE_BYTES_MAX = 100 * 1024 * 1024


def connection_settings(options: ClientOptions) -> dict[str, Any]:
    """What kafka-python's connections are made with, but for their TLS context."""
    settings: dict[str, Any] = {
        "bootstrap_servers": list(options.bootstrap_servers),
        "client_id": options.client_id,
        "request_timeout_ms": options.request_timeout_ms,
        "socket_connection_setup_timeout_ms": options.connect_timeout_ms,
        "security_protocol": options.security_protocol,
        "receive_message_max_bytes": _RESPONSE_BYTES_MAX,
        "reconnect_backoff_ms": options.reconnect_backoff_ms,
        "reconnect_backoff_max_ms": options.reconnect_backoff_max_ms,
        "socket_options": _socket_options(options),
        "sasl_mechanism": options.sasl_mechanism,
    }
    if options.sasl_username is not None and options.sasl_password is not None:
        settings["sasl_plain_username"] = _user_name(options.sasl_mechanism, options.sasl_username)
        settings["sasl_plain_password"] = options.sasl_password.reveal()
    if options.sasl_aws_profile is not None:
        # kafka-python has no name for a profile of AWS; its AWS_MSK_IAM has no user.
        settings["sasl_plain_username"] = options.sasl_aws_profile
    if options.sasl_kerberos is not None:
        settings["sasl_kerberos_name"] = TicketProvider(options.sasl_kerberos, options.connect_timeout_ms / 1000)
    if options.sasl_token_source is not None:
        settings["sasl_oauth_token_provider"] = TokenProvider(options.sasl_token_source, options.sasl_extensions)
    return settings


def _user_name(mechanism: str | None, name: str) -> str:
    # SCRAM's messages have commas and equals signs of their own (RFC 5802, section 5.1); kafka-python leaves names be.
    return name if mechanism == "PLAIN" else name.replace("=", "=3D").replace(",", "=2C")


def _socket_options(options: ClientOptions) -> list[tuple[int, int, int]]:
    chosen = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if options.receive_buffer_bytes is not None:
        chosen.append((socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes))
    return chosen


class _ClosedOnFailure(KafkaNetSocket):  # type: ignore[misc]
    """Connects a socket, and closes it when that fails, takes too long or is cancelled."""

    SCHEMES = ("directkafka",)

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> Any:
        try:
            return super().dns_lookup(host, port, raise_error=raise_error)
        except UnicodeError as error:  # a label that is empty or longer than 63 characters
            raise kafka.errors.KafkaConnectionError(f"{host!r} is no host's name: {error}") from error

    async def connect(
        self, net: Any, addrinfo: tuple[Any, ...], socket_options: Sequence[Any] = (), timeout_at: float | None = None
    ) -> socket.socket:
        family, kind, protocol, _, address = addrinfo
        made: socket.socket = self.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            for option in socket_options:
                made.setsockopt(*option)
            return await self.sock_connect(net, made, address, timeout_at=timeout_at)  # type: ignore[no-any-return]
        except BaseException:
            made.close()
            raise


class Connections(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's connections. What a broker sends just before it hangs up, often the reason, is read first.

    Args:
        options: addresses, security, timeouts.
        chosen: settings by kafka-python's names, which override the options'.
    """

    def __init__(self, options: ClientOptions, **chosen: Any) -> None:
        net = NetworkSelector(client_id=options.client_id)
        super().__init__(net, **connection_settings(options) | {"proxy_url": "directkafka://"} | chosen)
        self._transports: list[Any] = []
        #: By connection, the task that makes it.
        self._tasks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    async def ready(self, connection: Any, timeout_ms: float) -> None:
        """Wait for a connection to be made, TLS and login included; it is given up when it takes too long.

        Raises:
            kafka.errors.KafkaError, OSError: why there is none.
        """
        try:
            await self.wait_for(connection.init_future, timeout_ms)
        except kafka.errors.KafkaTimeoutError:
            # In this order: closing wakes the task where it waits for an answer.
            connection.close()
            if connection in self._tasks:
                self._net.cancel(self._tasks[connection])
            raise
        except TypeError as error:
            raise kafka.errors.KafkaConnectionError(f"the broker's answer cannot be read: {error}") from error
        except (ValueError, LookupError) as error:
            # In SCRAM the broker proves that it knows the password too (RFC 5802, section 3). These are the errors
            # that kafka-python raises where the proof is wrong or cannot be read.
            told = f"the broker could not prove who it is: {error}"
            raise kafka.errors.SaslAuthenticationFailedError(told) from error

    def close_all(self) -> None:
        """Close all connections at once; unsent bytes are dropped. Calling it twice is harmless."""
        self.close()
        for transport in self._transports:
            transport._close()
        self._transports.clear()
        self._net.close()

    async def _connect(self, node: Any, connection: Any, **named: Any) -> None:
        self._tasks[connection] = self._net._current
        await super()._connect(node, connection, **named)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        options = self.config["socket_options"]
        made = await create_connection(
            self._net, node.host, node.port, options, proxy_url=self.config["proxy_url"], timeout_at=timeout_at
        )
        if self.ssl_enabled:
            transport = await self._secured(made, node.host, timeout_at)
        else:
            transport = KafkaTCPTransport(self._net, made, host=node.host)
        self._transports = [*(known for known in self._transports if known._sock is not None), transport]
        receive = transport._sock_recv

        def receive_before_the_end() -> tuple[bytes, Exception | None]:
            received, error = receive()
            # The next read meets the end again.
            return received, None if received else error

        transport._sock_recv = receive_before_the_end
        return transport

    async def _secured(self, connected: socket.socket, host: str, timeout_at: float | None) -> Any:
        """A transport after its TLS handshake; kafka-python's own has no time limit."""
        secured = connected
        try:
            transport = KafkaSSLTransport(self._net, connected, host=host, ssl_context=self.config["ssl_context"])
            secured = transport._sock
            while True:
                try:
                    secured.do_handshake()
                    return transport
                except ssl.SSLWantReadError:
                    await self._net.wait_read(secured, timeout_at=timeout_at)
                except ssl.SSLWantWriteError:
                    await self._net.wait_write(secured, timeout_at=timeout_at)
        except BaseException as error:
            secured.close()
            if isinstance(error, Exception):
                raise kafka.errors.KafkaConnectionError(f"Handshake failed: {error}") from error
            raise
