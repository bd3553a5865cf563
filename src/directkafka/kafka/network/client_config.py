"""Our options under kafka-python's names."""

from __future__ import annotations

import socket
from typing import Any

from directkafka.kafka.network.oauth import TokenProvider
from directkafka.options import ClientOptions

__all__ = ["connection_settings"]

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
    if options.sasl_token_callback is not None:
        settings["sasl_oauth_token_provider"] = TokenProvider(options.sasl_token_callback)
    return settings


def _user_name(mechanism: str | None, name: str) -> str:
    # SCRAM's messages have commas and equals signs of their own (RFC 5802, section 5.1); kafka-python leaves names be.
    return name if mechanism == "PLAIN" else name.replace("=", "=3D").replace(",", "=2C")


def _socket_options(options: ClientOptions) -> list[tuple[int, int, int]]:
    chosen = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if options.receive_buffer_bytes is not None:
        chosen.append((socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes))
    return chosen
