"""What is sent to whoever answers in a broker's place."""

from __future__ import annotations

import base64

import pytest
from kafka.net.sasl import get_sasl_mechanism

from directkafka.errors import BrokerAccessError
from directkafka.kafka.network.auth_errors import connection_failure
from directkafka.kafka.network.logins import prepare_logins
from directkafka.options.client import ClientOptions

OPTIONS = ClientOptions(
    bootstrap_servers=("b:9092",), security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_username="a"
)


def answered(iterations: int) -> bytes:
    """What a client sends to a broker that asks for so many rounds."""
    prepare_logins()
    config = {"sasl_plain_username": "a", "sasl_plain_password": "pencil", "sasl_mechanism": "SCRAM-SHA-256"}
    mechanism = get_sasl_mechanism("SCRAM-SHA-256")(host="b", **config)
    nonce = mechanism.auth_bytes().rpartition(b"r=")[2]
    salt = base64.b64encode(b"salt")
    mechanism.receive(b"r=" + nonce + b"more,s=" + salt + b",i=%d" % iterations)
    proof: bytes = mechanism.auth_bytes()
    return proof


def test_as_many_rounds_as_kafka_asks_for_are_done() -> None:
    assert b",p=" in answered(4096)


@pytest.mark.parametrize("iterations", [1, 0, -5, 4095])
def test_too_few_rounds_are_refused_before_anything_made_of_the_password_is_sent(iterations: int) -> None:
    with pytest.raises(Exception, match="too few") as caught:
        answered(iterations)
    told = connection_failure(caught.value, OPTIONS, ("b:9092",), 500)
    assert isinstance(told, BrokerAccessError)
    assert f"it asks for {iterations} rounds of SCRAM-SHA-256" in str(told)
    assert "at least 4096" in told.remedy
