"""What kafka-python logs of a connection at DEBUG, without the secrets in it.

It logs every request and response, and the bytes of both. A login is such a request: its bytes are the password
(PLAIN) or the token (OAUTHBEARER).
"""

from __future__ import annotations

import logging
import re

__all__ = ["mask_logins"]

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
