"""Stores of every kind, as Java and OpenSSL make them, and what is said of those that cannot be read."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)
from tests.certificates import Certified, authority, der, java_key_store, java_trust_store, pem

from directkafka.kafka.network.keystores import Identity, StoreFaultError, read_identity, read_trusted

#: Stores that keytool made, and what is in them: see ``java_stores.py`` beside them.
STORES = Path(__file__).parents[3] / "vectors" / "stores"
PASSWORD = "store-pass"
KEY_PASSWORD = "key-pass"


def _client_and_signers() -> tuple[Certified, x509.Certificate, x509.Certificate]:
    text = (STORES / "client.pem").read_bytes()
    key = load_pem_private_key(text, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    client, between, root = x509.load_pem_x509_certificates(text)
    return Certified(key, client, (between,)), between, root


CLIENT, BETWEEN, ROOT = _client_and_signers()


@pytest.fixture(scope="module")
def jks_trust() -> bytes:
    return (STORES / "trust.jks").read_bytes()


@pytest.fixture(scope="module")
def jks_keys() -> bytes:
    return (STORES / "keys.jks").read_bytes()


@pytest.fixture(scope="module")
def pkcs12_trust() -> bytes:
    return (STORES / "trust.p12").read_bytes()


def is_clients(identity: Identity) -> bool:
    key = load_der_private_key(identity.key, None)
    chain = tuple(der(certificate) for certificate in CLIENT.chain)
    return key.public_key() == CLIENT.key.public_key() and identity.chain == chain


def fault(content: bytes, *, store_type: str, password: str | None = None, key_password: str | None = None) -> str:
    with pytest.raises(StoreFaultError) as caught:
        read_identity(content, store_type, password, key_password)
    return f"{caught.value.part}: {caught.value}"


def trust_fault(content: bytes, *, store_type: str, password: str | None = None) -> str:
    with pytest.raises(StoreFaultError) as caught:
        read_trusted(content, store_type, password)
    return f"{caught.value.part}: {caught.value}"


# Trust stores.


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
@pytest.mark.parametrize("made_by_keytool", ["jks_trust", "pkcs12_trust"])
def test_a_trust_store_of_java_is_read_whichever_of_the_two_types_is_said(
    made_by_keytool: str, store_type: str, request: pytest.FixtureRequest
) -> None:
    content = request.getfixturevalue(made_by_keytool)
    assert read_trusted(content, store_type, PASSWORD) == (der(ROOT),)


def test_a_jks_trust_store_needs_no_password(jks_trust: bytes) -> None:
    assert read_trusted(jks_trust, "JKS", None) == (der(ROOT),)


def test_the_certificate_of_a_key_in_a_trust_store_is_trusted_too(jks_keys: bytes) -> None:
    assert read_trusted(jks_keys, "JKS", PASSWORD) == (der(CLIENT.certificate),)


def test_pem_certificates_may_stand_between_other_text_and_on_one_line() -> None:
    text = f"subject=root\n{pem(ROOT)}\nsubject=between\n{pem(BETWEEN)}"
    expected = (der(ROOT), der(BETWEEN))
    assert read_trusted(text.encode(), "PEM", None) == expected
    assert read_trusted(text.replace("\n", " ").encode(), "PEM", None) == expected


def test_a_wrong_password_of_a_trust_store_is_told(jks_trust: bytes, pkcs12_trust: bytes) -> None:
    assert trust_fault(jks_trust, store_type="JKS", password="wrong").startswith("password: is not the store's")
    told = trust_fault(pkcs12_trust, store_type="PKCS12", password="wrong")
    assert told.startswith("password: does not open this PKCS12 store")
    assert trust_fault(pkcs12_trust, store_type="PKCS12").startswith("password: is needed")


@pytest.mark.parametrize(
    ("content", "store_type", "told"),
    [
        (b"", "PEM", "content: is not PEM"),
        (b"", "JKS", "content: is neither a PKCS12 nor a JKS store"),
        (b"\xce\xce\xce\xce rest", "JKS", "content: is neither a PKCS12 nor a JKS store"),
        (pem(ROOT).encode(), "JKS", "type: is not that of this store, which is PEM"),
        (CLIENT.key_pem().encode(), "PEM", "content: holds no certificate"),
        (b"-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----", "PEM", "content: has a PEM certificate"),
        ("-----BEGIN CERTIFICATE-----\né\n-----END CERTIFICATE-----".encode(), "PEM", "content: has a PEM certificate"),
        (b"\xfe\xed\xfe\xed" + bytes(40), "JKS", "content: is not a JKS store of version 2"),
    ],
)
def test_what_is_no_trust_store_is_told(content: bytes, store_type: str, told: str) -> None:
    assert trust_fault(content, store_type=store_type).startswith(told)


# Key stores.


def test_a_jks_key_store_has_passwords_for_itself_and_for_its_key(jks_keys: bytes) -> None:
    assert is_clients(read_identity(jks_keys, "JKS", PASSWORD, KEY_PASSWORD))
    assert fault(jks_keys, store_type="JKS", password=PASSWORD).startswith("key.password: is not the private key's")
    assert fault(jks_keys, store_type="JKS", password="wrong").startswith("password: is not the store's")
    assert fault(jks_keys, store_type="JKS").startswith("password: is needed")


def test_a_key_without_a_password_of_its_own_has_the_store_s() -> None:
    assert is_clients(read_identity((STORES / "same.jks").read_bytes(), "JKS", PASSWORD, None))


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_the_stores_that_tests_make_are_as_java_s(store_type: str, tmp_path: Path) -> None:
    trust = java_trust_store([ROOT], tmp_path / "trust", store_type, PASSWORD).read_bytes()
    assert read_trusted(trust, store_type, PASSWORD) == (der(ROOT),)
    keys = java_key_store(CLIENT, tmp_path / "keys", store_type, PASSWORD, PASSWORD).read_bytes()
    assert is_clients(read_identity(keys, store_type, PASSWORD, None))


def test_a_pkcs12_key_store_is_read() -> None:
    content = CLIENT.pkcs12(PASSWORD)
    assert is_clients(read_identity(content, "PKCS12", PASSWORD, None))
    assert fault(content, store_type="PKCS12", password="wrong").startswith("password: does not open")


@pytest.mark.parametrize("key_format", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("key_password", [None, KEY_PASSWORD])
def test_a_pem_key_is_read_encrypted_or_not_in_the_new_form_and_the_old(
    key_format: PrivateFormat, key_password: str | None
) -> None:
    encryption = BestAvailableEncryption(KEY_PASSWORD.encode())
    key = CLIENT.key.private_bytes(Encoding.PEM, key_format, encryption).decode() if key_password else CLIENT.key_pem()
    for content in (key + CLIENT.chain_pem, CLIENT.chain_pem + key):
        assert is_clients(read_identity(content.encode(), "PEM", None, key_password))


def test_a_pem_key_may_stand_on_one_line() -> None:
    content = (CLIENT.key_pem(KEY_PASSWORD) + CLIENT.chain_pem).replace("\n", " ")
    assert is_clients(read_identity(content.encode(), "PEM", None, KEY_PASSWORD))


def test_a_password_for_a_key_that_has_none_does_no_harm() -> None:
    content = CLIENT.key_pem() + CLIENT.chain_pem
    assert is_clients(read_identity(content.encode(), "PEM", None, "not needed"))


def test_a_pem_key_with_a_wrong_password_or_none_is_told() -> None:
    content = (CLIENT.key_pem(KEY_PASSWORD) + CLIENT.chain_pem).encode()
    assert fault(content, store_type="PEM").startswith("key.password: is needed")
    assert fault(content, store_type="PEM", key_password="wrong").startswith("key.password: does not open")


def test_a_chain_is_put_in_order_and_what_is_not_of_it_is_left_out() -> None:
    stranger = authority("stranger")
    shuffled = pkcs12.serialize_key_and_certificates(
        b"client",
        CLIENT.key,
        CLIENT.certificate,
        [stranger.certificate, BETWEEN],
        BestAvailableEncryption(b"x"),
    )
    assert is_clients(read_identity(shuffled, "PKCS12", "x", None))


def test_a_root_in_a_chain_ends_it() -> None:
    chain = (CLIENT.certificate, BETWEEN, ROOT)
    whole = Certified(CLIENT.key, CLIENT.certificate, (ROOT, BETWEEN))
    content = (whole.key_pem() + whole.chain_pem).encode()
    assert read_identity(content, "PEM", None, None).chain == tuple(der(certificate) for certificate in chain)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (CLIENT.chain_pem, "content: holds no private key"),
        (CLIENT.key_pem(), "content: holds no certificate"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "content: has a private key that is damaged"),
        ("-----BEGIN PRIVATE KEY-----\né\n-----END PRIVATE KEY-----", "content: has a private key that is damaged"),
        (
            f"{CLIENT.key_pem()}-----BEGIN CERTIFICATE-----\né\n-----END CERTIFICATE-----",
            "content: has a PEM certificate that is damaged",
        ),
    ],
)
def test_what_is_no_pem_key_store_is_told(content: str, told: str) -> None:
    assert fault(content.encode(), store_type="PEM").startswith(told)


def test_a_trust_store_is_no_key_store(jks_trust: bytes, pkcs12_trust: bytes) -> None:
    assert fault(jks_trust, store_type="JKS", password=PASSWORD).startswith("content: holds no private key")
    assert fault(pkcs12_trust, store_type="PKCS12", password=PASSWORD).startswith("content: holds no private key")


def test_a_damaged_jks_store_is_told_whatever_the_damage(jks_keys: bytes) -> None:
    """Without a password, which would see any damage by the digest."""
    chance = random.Random(5)
    for _ in range(300):
        damaged = bytearray(jks_keys[: chance.randrange(len(jks_keys) + 1)])
        for _ in range(chance.randrange(4)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with contextlib.suppress(StoreFaultError):
            assert len(read_identity(bytes(damaged), "JKS", None, KEY_PASSWORD).chain) > 0


def test_an_identity_does_not_show_its_key() -> None:
    identity = Identity(b"secret-key", (b"certificate",))
    assert "secret-key" not in f"{identity!r} {identity}"
