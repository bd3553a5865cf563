"""Certificates and private keys out of the stores they come in: PEM, PKCS12, JKS. From bytes to values, no files."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from directkafka.kafka.network.jks import JksFaultError, is_jks, private_key, read_jks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

__all__ = ["Identity", "StoreFaultError", "read_identity", "read_trusted"]

#: Kafka's parser takes PEM whose line ends were lost, as they are in many a secret's store; so does this.
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.+?)-----END \1-----", re.DOTALL)

Part = Literal["content", "type", "password", "key.password"]


class StoreFaultError(ValueError):
    """Why a store cannot be read, as a sentence that goes on from the setting's name; ``part`` says which setting."""

    def __init__(self, part: Part, reason: str) -> None:
        super().__init__(reason)
        self.part: Part = part


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key (PKCS8, DER) and its certificate chain (DER), its own certificate first."""

    key: bytes
    chain: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Identity(********, {len(self.chain)} certificates)"


def read_trusted(content: bytes, store_type: str, password: str | None) -> tuple[bytes, ...]:
    """The trusted certificates of a store, in DER.

    Args:
        content: the whole store.
        store_type: ``PEM``, ``JKS`` or ``PKCS12``; the last two are told apart by the content, as Java does.
        password: of a JKS or PKCS12 store.

    Raises:
        StoreFaultError: the content is no such store, the password is not its own, or no certificate is in it.
    """
    if store_type == "PEM":
        found = _pem_certificates(content)
    elif is_jks(content):
        try:
            jks = read_jks(content, password)
        except JksFaultError as error:
            raise _store_fault(error) from error
        # Java trusts the certificate of a key entry too.
        found = (*jks.trusted, *(key.chain[0] for key in jks.keys if key.chain))
    else:
        store = _read_pkcs12(content, password)
        bags = (store.cert, *store.additional_certs)
        found = tuple(_der(bag.certificate) for bag in bags if bag is not None)
    if not found:
        raise StoreFaultError("content", "holds no certificate")
    return found


def read_identity(content: bytes, store_type: str, password: str | None, key_password: str | None) -> Identity:
    """The private key of a store and its certificate chain.

    Args:
        content: the whole store; of PEM, the key and the certificates in any order.
        store_type: ``PEM``, ``JKS`` or ``PKCS12``; the last two are told apart by the content, as Java does.
        password: of a JKS or PKCS12 store.
        key_password: of the key; that of the store when None.

    Raises:
        StoreFaultError: the content is no such store, a password is wrong, or there is no private key in it.
    """
    if store_type == "PEM":
        identity = Identity(_pem_key(content, key_password), _pem_certificates(content))
    elif is_jks(content):
        identity = _jks_identity(content, password, key_password)
    else:
        store = _read_pkcs12(content, password)
        if store.key is None:
            raise StoreFaultError("content", "holds no private key")
        bags = (store.cert, *store.additional_certs)
        identity = Identity(_pkcs8(store.key), tuple(_der(bag.certificate) for bag in bags if bag is not None))
    if not identity.chain:
        raise StoreFaultError("content", "holds no certificate for the private key")
    return Identity(identity.key, _in_order(identity.chain))


def _jks_identity(content: bytes, password: str | None, key_password: str | None) -> Identity:
    try:
        keys = read_jks(content, password).keys
    except JksFaultError as error:
        raise _store_fault(error) from error
    if not keys:
        raise StoreFaultError("content", "holds no private key")
    secret = key_password if key_password is not None else password
    if secret is None:
        raise StoreFaultError("password", "is needed to read a private key from a JKS store")
    try:
        return Identity(private_key(keys[0], secret), keys[0].chain)
    except JksFaultError as error:
        raise StoreFaultError("key.password" if error.password else "content", str(error)) from error


def _store_fault(error: JksFaultError) -> StoreFaultError:
    return StoreFaultError("password" if error.password else "content", str(error))


def _read_pkcs12(content: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    if b"-----BEGIN " in content:
        raise StoreFaultError("type", "is not that of this store, which is PEM: set it to PEM")
    # A DER sequence; what follows is for the library to judge.
    if not content.startswith(b"\x30"):
        raise StoreFaultError("content", "is neither a PKCS12 nor a JKS store")
    try:
        return load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        if password is None:
            raise StoreFaultError("password", "is needed to open this PKCS12 store") from error
        raise StoreFaultError("password", "does not open this PKCS12 store, or the store is damaged") from error
    except UnsupportedAlgorithm as error:
        raise StoreFaultError("content", f"is encrypted in a way that cannot be read ({error})") from error


def _pem_certificates(content: bytes) -> tuple[bytes, ...]:
    try:
        return tuple(
            base64.b64decode("".join(body.split()), validate=True)
            for label, body in _PEM_BLOCK.findall(_pem_text(content))
            if label.endswith("CERTIFICATE")
        )
    except StoreFaultError:
        raise
    except ValueError as error:  # binascii's, or what is not ASCII at all
        raise StoreFaultError("content", f"has a PEM certificate that is damaged ({error})") from error


def _pem_key(content: bytes, password: str | None) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = next(((label, body) for label, body in _PEM_BLOCK.findall(_pem_text(content)) if "KEY" in label), None)
    if found is None:
        raise StoreFaultError("content", "holds no private key")
    label, body = found
    encrypted = "ENCRYPTED" in label + body
    if encrypted and password is None:
        raise StoreFaultError("key.password", "is needed: the private key is encrypted")
    # The headers of an old encrypted key need their lines; all else is base64.
    lines = body.strip() if ":" in body else "\n".join(body.split())
    pem = f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()
    try:
        return _pkcs8(load_pem_private_key(pem, password.encode() if encrypted and password is not None else None))
    except (ValueError, TypeError) as error:
        part: Part = "key.password" if encrypted else "content"
        reason = "does not open the private key" if encrypted else "has a private key that is damaged"
        raise StoreFaultError(part, reason) from error
    except UnsupportedAlgorithm as error:
        raise StoreFaultError("content", f"has a private key that cannot be read ({error})") from error


def _pem_text(content: bytes) -> str:
    if b"-----BEGIN " not in content:
        raise StoreFaultError("content", "is not PEM: it has no line -----BEGIN ...-----")
    return content.decode("utf-8", "replace")


def _in_order(chain: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The chain with each certificate before the one that signed it; what does not belong to it is left out."""
    from cryptography import x509

    try:
        own, *others = (x509.load_der_x509_certificate(one) for one in chain)
    except ValueError as error:
        raise StoreFaultError("content", f"has a certificate that is damaged ({error})") from error
    ordered = [own]
    while (signer := next((one for one in others if one.subject == ordered[-1].issuer), None)) is not None:
        others.remove(signer)
        ordered.append(signer)
    return tuple(_der(one) for one in ordered)


def _pkcs8(key: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    exported: bytes = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined]
    return exported


def _der(certificate: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    encoded: bytes = certificate.public_bytes(Encoding.DER)  # type: ignore[attr-defined]
    return encoded
