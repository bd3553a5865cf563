"""Logins in kafka-python's log; ``tests/real/kafka/test_security.py`` has real ones."""

from __future__ import annotations

import logging

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest

from directkafka.kafka.network.logins import mask_logins


@pytest.mark.parametrize("name", ["kafka.net.connection", "kafka.protocol.parser"])
def test_a_login_s_messages_and_all_bytes_are_masked_and_nothing_else(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    mask_logins()
    mask_logins()
    logger = logging.getLogger(name)
    with caplog.at_level(logging.DEBUG, logger=name):
        logger.debug("%s %s", SaslAuthenticateRequest(b"secret"), SaslBytesRequest(b"secret"))
        logger.debug("%r %r", b"secret", bytearray(b"secret"))
        logger.debug("%s %d", MetadataRequest(topics=[]), 4711)
        logger.debug("nothing to fill in")
    assert "secret" not in caplog.text
    assert "<SaslAuthenticateRequest ********> <SaslBytesRequest ********>" in caplog.text
    assert "<6 bytes>" in caplog.text
    assert "MetadataRequest" in caplog.text
    assert "4711" in caplog.text
