"""Certificates, made when a test wants them: an authority, what it signs, and stores of every kind."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)


@dataclass(frozen=True)
class Certified:
    """A private key and its certificate, and the certificates that signed it, nearest first."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    signers: tuple[x509.Certificate, ...] = ()

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return (self.certificate, *self.signers)

    @property
    def pem(self) -> str:
        """The certificate alone."""
        return pem(self.certificate)

    @property
    def chain_pem(self) -> str:
        return "".join(pem(certificate) for certificate in self.chain)

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"client", self.key, self.certificate, self.signers, _encryption(password)
        )


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def authority(name: str, signer: Certified | None = None) -> Certified:
    """An authority that signed itself, or that another one signed."""
    return _certify(name, signer, extensions=[x509.BasicConstraints(ca=True, path_length=None)])


def for_server(
    signer: Certified, *, hosts: Sequence[str] = ("localhost", "127.0.0.1"), expired: bool = False
) -> Certified:
    """What a broker shows: it names its hosts, in another way if they are addresses."""
    names = [x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts]
    return _certify("broker", signer, extensions=[x509.SubjectAlternativeName(names)], expired=expired)


def for_client(signer: Certified, name: str) -> Certified:
    return _certify(name, signer, extensions=[])


def _certify(
    name: str, signer: Certified | None, *, extensions: Sequence[x509.ExtensionType], expired: bool = False
) -> Certified:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    ends = now - timedelta(days=1) if expired else now + timedelta(days=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(ends)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(signer.key if signer else key, hashes.SHA256())
    # A root is known to whoever trusts it, and is not sent.
    sent = () if signer is None or signer.certificate.issuer == signer.certificate.subject else signer.chain
    return Certified(key, certificate, sent)


def _encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())


def java_trust_store(certificates: Sequence[x509.Certificate], path: Path, store_type: str, password: str) -> Path:
    """A trust store as Java has them, made without Java's own tool, which a JRE need not have."""
    if store_type == "JKS":
        entries = [
            _entry(2, f"authority-{number}", _jks_certificate(certificate))
            for number, certificate in enumerate(certificates)
        ]
        path.write_bytes(_jks(entries, password))
    else:
        named = [
            pkcs12.PKCS12Certificate(certificate, f"authority-{number}".encode())
            for number, certificate in enumerate(certificates)
        ]
        path.write_bytes(pkcs12.serialize_java_truststore(named, _encryption(password)))
    return path


def java_key_store(certified: Certified, path: Path, store_type: str, password: str, key_password: str) -> Path:
    """A key store as Java has them; the key of a PKCS12 store has the store's own password."""
    if store_type == "JKS":
        key = _protected(certified.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()), key_password)
        chain = b"".join(_jks_certificate(certificate) for certificate in certified.chain)
        content = struct.pack(">i", len(key)) + key + struct.pack(">i", len(certified.chain)) + chain
        path.write_bytes(_jks([_entry(1, "client", content)], password))
    else:
        assert key_password == password
        path.write_bytes(certified.pkcs12(password))
    return path


def _jks(entries: Sequence[bytes], password: str) -> bytes:
    """For the layout see :mod:`directkafka.kafka.network.keystores`; ``tests/vectors/stores`` has Java's own."""
    store = struct.pack(">Iii", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    return store + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + store).digest()


def _entry(tag: int, alias: str, content: bytes) -> bytes:
    return struct.pack(">i", tag) + _jks_text(alias) + struct.pack(">q", 0) + content


def _jks_certificate(certificate: x509.Certificate) -> bytes:
    return _jks_text("X.509") + struct.pack(">i", len(der(certificate))) + der(certificate)


def _jks_text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _protected(key: bytes, password: str) -> bytes:
    """A private key (PKCS8) under a chain of SHA-1 digests, which begins at a salt."""
    secret, salt = password.encode("utf-16-be"), bytes(range(20))
    stream, digest = b"", salt
    while len(stream) < len(key):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    hidden = bytes(key_byte ^ other for key_byte, other in zip(key, stream, strict=False))
    check = hashlib.sha1(secret + key).digest()
    algorithm = _asn1(0x30, bytes.fromhex("060a2b060104012a021101010500"))
    return _asn1(0x30, algorithm + _asn1(0x04, salt + hidden + check))


def _asn1(tag: int, content: bytes) -> bytes:
    """A value in DER."""
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + length.to_bytes(size, "big") + content
