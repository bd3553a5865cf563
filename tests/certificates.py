"""Certificates, made when a test wants them: an authority, what it signs, and stores of every kind."""

from __future__ import annotations

import subprocess
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

from directkafka.testing.java import java_home

KEYTOOL_TIMEOUT_S = 60.0


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
        return "".join(pem(one) for one in self.chain)

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
    names = [x509.IPAddress(ip_address(one)) if one[0].isdigit() else x509.DNSName(one) for one in hosts]
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


def keytool(*arguments: str | Path) -> None:
    """Java's own tool for stores."""
    command = [str(java_home() / "bin" / "keytool"), "-J-XX:TieredStopAtLevel=1", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=KEYTOOL_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def java_trust_store(certificates: Sequence[x509.Certificate], path: Path, store_type: str, password: str) -> Path:
    """A trust store as keytool makes it."""
    for number, one in enumerate(certificates):
        source = path.with_name(f"{path.name}-{number}.crt")
        source.write_text(pem(one))
        keytool(
            *("-importcert", "-noprompt", "-alias", f"authority-{number}", "-file", source),
            *("-keystore", path, "-storetype", store_type, "-storepass", password),
        )
    return path


def java_key_store(certified: Certified, path: Path, store_type: str, password: str, key_password: str) -> Path:
    """A key store as keytool makes it."""
    source = path.with_name(f"{path.name}.p12")
    source.write_bytes(certified.pkcs12(password))
    keytool(
        *("-importkeystore", "-noprompt", "-srckeystore", source, "-srcstoretype", "PKCS12"),
        *("-srcstorepass", password, "-srcalias", "client", "-destkeystore", path),
        *("-deststoretype", store_type, "-deststorepass", password, "-destkeypass", key_password),
    )
    return path
