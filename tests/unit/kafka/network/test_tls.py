"""What a connection trusts is read anew for each one."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.certificates import authority

from directkafka.kafka.network.tls import tls_context
from directkafka.options.client import ClientOptions


def context(more: dict[str, str], protocol: str = "SSL") -> ssl.SSLContext | None:
    given = {"bootstrap.servers": "kafka:9093", "security.protocol": protocol, **more}
    return tls_context(ClientOptions.from_kafka_params(given))


def test_a_connection_without_tls_has_no_context() -> None:
    assert context({}, "PLAINTEXT") is None


def test_a_server_is_verified_and_its_name_unless_that_is_switched_off() -> None:
    checked, unchecked = context({}), context({"ssl.endpoint.identification.algorithm": ""})
    assert checked is not None
    assert unchecked is not None
    assert (checked.check_hostname, checked.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert (unchecked.check_hostname, unchecked.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_the_system_s_certificates_are_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle that is not there for a moment, or is renewed, changes nothing for later connections."""
    path = tmp_path / "bundle.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    before = context({})
    path.write_text(authority("renewed").pem)
    after = context({})
    assert before is not None
    assert after is not None
    assert (len(before.get_ca_certs()), len(after.get_ca_certs())) == (0, 1)


def test_a_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "trusted.pem"
    path.write_text(authority("before").pem)
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}
    before = context(settings)
    path.write_text(authority("after").pem)
    after = context(settings)
    assert before is not None
    assert after is not None
    names = [
        dict(field for (field,) in ssl_context.get_ca_certs()[0]["subject"])["commonName"]
        for ssl_context in (before, after)
    ]
    assert names == ["before", "after"]
