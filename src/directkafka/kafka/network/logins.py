"""Logins of kafka-python: our tokens, bounds on what a broker may ask for, and a log without secrets.

Whoever answers in the broker's place, where there is no TLS, chooses how often SCRAM hashes the password. After one
round, what a client sends is enough to try a dictionary against it at the full speed of a machine. RFC 5802 (section
5.1) and RFC 7677 ask for 4,096 rounds at least, and so do Kafka's own brokers of the users that they keep
(``ScramMechanism.java``). kafka-python checks the other bound only.

What kafka-python logs of a connection at DEBUG, without the secrets in it.

It logs every request and response, and the bytes of both. A login is such a request: its bytes are the password
(PLAIN) or the token (OAUTHBEARER).
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import SaslMechanismScram

from directkafka.kafka.network.oauth import TokenProvider

_LOGGERS = ("kafka.net.connection", "kafka.protocol.parser")
_LOGIN_MESSAGE = re.compile(r"Sasl\w*(Request|Response)(_v\d+)?")


def mask_logins() -> None:
    """Mask bytes, and what belongs to a login, in kafka-python's log; calling it twice is harmless."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_mask)


def _mask(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(_masked(argument) for argument in record.args)
    return True


def _masked(argument: object) -> object:
    if isinstance(argument, bytes | bytearray | memoryview):
        return f"<{len(argument)} bytes>"
    name = type(argument).__name__
    return f"<{name} ********>" if _LOGIN_MESSAGE.fullmatch(name) else argument


ITERATIONS_MIN: Final = 4096
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class _TooFewIterationsError(SaslAuthenticationFailedError):  # type: ignore[misc]
    remedy = (
        "Its users need at least 4096 (kafka-configs.sh --alter --add-config SCRAM-SHA-...=[iterations=4096,...]). "
        "Nothing made of the password was sent. Without TLS it may be somebody else who answers"
    )


class _BoundedScram(SaslMechanismScram):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        client = self._scram_client
        salt_password = client.create_salted_password

        def salt_enough(salt: bytes, iterations: int) -> None:
            if iterations < ITERATIONS_MIN:
                raise _TooFewIterationsError(f"it asks for {iterations} rounds of {self.mechanism}, which is too few")
            salt_password(salt, iterations)

        client.create_salted_password = salt_enough


def prepare_logins() -> None:
    """Log in so from now on; calling it twice is harmless."""
    AbstractTokenProvider.register(TokenProvider)
    for name in _MECHANISMS:
        register_sasl_mechanism(name, _BoundedScram, overwrite=True)
    mask_logins()
