"""TLS settings as Java and librdkafka spell them: which store, of which type, with which passwords."""

from __future__ import annotations

import pickle

import pytest

from directkafka.errors import OptionError
from directkafka.options.client import ClientOptions
from directkafka.options.security.tls import KeyStore, TrustStore
from directkafka.options.spec import Secret

TLS: dict[str, object] = {"bootstrap.servers": "b:9092", "security.protocol": "SSL"}


def parse(params: dict[str, str]) -> ClientOptions:
    return ClientOptions.from_kafka_params({**TLS, **params})


def refused(params: dict[str, str]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse(params)
    return caught.value


@pytest.mark.parametrize("given", [{}, {"type": "JKS"}, {"type": "pkcs12"}, {"type": "PEM"}])
def test_stores_in_files_are_understood_as_java_writes_them(given: dict[str, str]) -> None:
    store_type = given.get("type", "JKS").upper()
    params = {"location": "/store", "password": "geheim-1", **given}
    keys = {f"ssl.keystore.{name}": value for name, value in params.items()} | {"ssl.key.password": "geheim-2"}
    options = parse({f"ssl.truststore.{name}": value for name, value in params.items()} | keys)
    assert options.ssl_trust_store == TrustStore(
        type=store_type,  # type: ignore[arg-type]
        setting="ssl.truststore.location",
        location="/store",
        password=Secret("geheim-1"),
    )
    assert options.ssl_key_store == KeyStore(
        type=store_type,  # type: ignore[arg-type]
        setting="ssl.keystore.location",
        location="/store",
        password=Secret("geheim-1"),
        key_password=Secret("geheim-2"),
    )


def test_stores_in_the_options_themselves_are_understood() -> None:
    types = {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
    keys = {"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN"}
    options = parse({**types, **keys, "ssl.truststore.certificates": "CA"})
    trust = TrustStore(type="PEM", setting="ssl.truststore.certificates", certificates="CA")
    assert options.ssl_trust_store == trust
    assert options.ssl_key_store == KeyStore(type="PEM", setting="ssl.keystore.key", key=Secret("KEY"), chain="CHAIN")


def test_pem_files_are_understood_as_librdkafka_writes_them() -> None:
    files = {"ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/crt", "ssl.key.location": "/key"}
    options = parse(files)
    assert options.ssl_trust_store == TrustStore(type="PEM", setting="ssl.ca.location", location="/ca.pem")
    assert options.ssl_key_store == KeyStore(
        type="PEM", setting="ssl.certificate.location", location="/crt", key_location="/key"
    )


def test_without_stores_the_system_s_authorities_are_trusted_and_the_host_is_checked() -> None:
    options = parse({})
    assert (options.ssl_trust_store, options.ssl_key_store, options.ssl_check_hostname) == (None, None, True)


@pytest.mark.parametrize(("algorithm", "checked"), [("https", True), ("HTTPS", True), ("", False), ("none", False)])
def test_the_host_is_checked_unless_the_algorithm_is_empty(algorithm: str, checked: bool) -> None:
    assert parse({"ssl.endpoint.identification.algorithm": algorithm}).ssl_check_hostname == checked


@pytest.mark.parametrize(
    ("params", "option", "part"),
    [
        ({"ssl.truststore.location": "/a", "ssl.ca.location": "/b"}, "ssl.ca.location", "ssl.truststore.location"),
        (
            {"ssl.truststore.location": "/a", "ssl.truststore.certificates": "CA"},
            "ssl.truststore.certificates",
            "keep one of them",
        ),
        ({"ssl.keystore.location": "/a", "ssl.keystore.key": "KEY"}, "ssl.keystore.key", "keep one of them"),
        ({"ssl.truststore.certificates": "CA"}, "ssl.truststore.certificates", "set ssl.truststore.type to PEM"),
        (
            {"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN"},
            "ssl.keystore.key",
            "set ssl.keystore.type to PEM",
        ),
        (
            {"ssl.keystore.key": "KEY", "ssl.keystore.type": "PEM"},
            "ssl.keystore.key",
            "needs ssl.keystore.certificate.chain",
        ),
        ({"ssl.keystore.certificate.chain": "C"}, "ssl.keystore.certificate.chain", "needs ssl.keystore.key"),
        ({"ssl.key.location": "/k"}, "ssl.key.location", "needs ssl.certificate.location"),
        (
            {"ssl.keystore.location": "/a", "ssl.key.location": "/k"},
            "ssl.key.location",
            "needs ssl.certificate.location",
        ),
        ({"ssl.keystore.type": "BKS", "ssl.keystore.location": "/a"}, "ssl.keystore.type", "one of PEM, JKS, PKCS12"),
    ],
)
def test_stores_that_are_given_twice_or_in_part_are_refused(params: dict[str, str], option: str, part: str) -> None:
    error = refused(params)
    assert error.option == option
    assert part in error.reason


def test_secrets_of_stores_are_masked_and_travel() -> None:
    secrets = {name: f"geheim-{name}" for name in ("ssl.keystore.key", "ssl.key.password")}
    options = parse({**secrets, "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "CHAIN"})
    stores = parse(
        {
            "ssl.truststore.location": "/a",
            "ssl.truststore.password": "geheim-3",
            "ssl.keystore.location": "/b",
            "ssl.keystore.password": "geheim-4",
        }
    )
    for tls_options in (options, stores):
        assert (
            "geheim" not in f"{tls_options} {tls_options!r} {tls_options.ssl_trust_store!r} {tls_options.ssl_key_store}"
        )
        assert pickle.loads(pickle.dumps(tls_options)) == tls_options
