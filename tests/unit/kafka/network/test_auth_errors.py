"""What a failure to connect means, from the errors that TLS and SASL raise."""

from __future__ import annotations

import ssl

import pytest

from directkafka.errors import BrokerAccessError, BrokerUnreachableError
from directkafka.kafka.network.auth_errors import address_text, connection_failure, rights_needed
from directkafka.options.client import ClientOptions

TLS = ClientOptions(bootstrap_servers=("b:9092",), security_protocol="SSL")
LOGIN = ClientOptions(
    bootstrap_servers=("b:9092",), security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="ann"
)


class NumberedError(Exception):
    """An error that has Kafka's number, as kafka-python's have."""

    errno = 58


def of_tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] something (_ssl.c:1)")
    error.reason = reason
    return error


def failure(error: Exception, options: ClientOptions = TLS) -> BrokerAccessError | BrokerUnreachableError:
    return connection_failure(error, options, ("b:9092",), 500)


@pytest.mark.parametrize(
    ("reason", "setting"),
    [
        ("WRONG_VERSION_NUMBER", "kafka.security.protocol"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "kafka.ssl.keystore.location"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "kafka.ssl.keystore.location"),
        ("TLSV1_ALERT_UNKNOWN_CA", "kafka.ssl.keystore.location"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "ssl.enabled.protocols"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "ssl.client.auth"),
    ],
)
def test_what_tls_will_never_take_is_a_refusal(reason: str, setting: str) -> None:
    error = failure(of_tls(reason))
    assert isinstance(error, BrokerAccessError)
    assert setting in error.remedy


@pytest.mark.parametrize("reason", ["UNEXPECTED_EOF_WHILE_READING", "TLSV1_ALERT_INTERNAL_ERROR", ""])
def test_what_may_pass_is_none(reason: str) -> None:
    assert isinstance(failure(of_tls(reason)), BrokerUnreachableError)


def test_the_error_of_tls_is_found_wherever_it_stands() -> None:
    inner = of_tls("WRONG_VERSION_NUMBER")
    as_context, as_cause = RuntimeError("handshake"), RuntimeError("handshake")
    as_context.__context__, as_cause.__cause__ = inner, inner
    for error in (as_context, as_cause, RuntimeError(inner), RuntimeError(as_cause)):
        assert isinstance(failure(error), BrokerAccessError)
    circle = RuntimeError("circle")
    circle.__context__ = RuntimeError("of")
    circle.__context__.__context__ = circle
    assert isinstance(failure(circle), BrokerUnreachableError)


def test_a_login_that_is_refused_shows_who_and_the_broker_s_words() -> None:
    error = failure(NumberedError("SaslAuthenticationFailedError: Invalid username or password"), LOGIN)
    assert isinstance(error, BrokerAccessError)
    assert "refused the login of user 'ann' by PLAIN (Invalid username or password)" in str(error)


def test_a_number_of_the_operating_system_is_not_kafka_s() -> None:
    assert isinstance(failure(OSError(58, "not unique"), LOGIN), BrokerUnreachableError)


def test_an_error_without_a_text_is_named() -> None:
    error = failure(TimeoutError())
    assert isinstance(error, BrokerUnreachableError)
    assert error.cause == "TimeoutError"


@pytest.mark.parametrize(("code", "right"), [(29, "DESCRIBE and READ on the topic"), (30, "READ on the group")])
def test_a_missing_right_is_told_with_the_user(code: int, right: str) -> None:
    told = rights_needed(code, LOGIN)
    assert told is not None
    assert right in told
    assert "user 'ann'" in told
    assert "ANONYMOUS" in (rights_needed(code, TLS) or "")


def test_other_codes_need_no_right() -> None:
    assert rights_needed(6, LOGIN) is None


def test_an_ipv6_address_is_in_brackets() -> None:
    assert [address_text(host, 9092) for host in ("b", "::1")] == ["b:9092", "[::1]:9092"]
