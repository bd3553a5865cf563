"""Certificates and private keys out of key stores (PEM, PKCS12, JKS): from bytes to values, without files or a JVM.

JKS is Java's own format. In its version 2 all integers are big-endian, and strings have a 2-byte length
(``JavaKeyStore.java``, ``KeyProtector.java`` of OpenJDK)::

    magic 0xFEEDFEED int32 | version int32 | count int32
    count times:
      tag 1, a private key:         alias string | made_at_ms int64 | length int32 | protected key |
                                    certificates int32, each as below
      tag 2, a trusted certificate: alias string | made_at_ms int64 | type string | length int32 | DER
    SHA-1 over the password in UTF-16, the text "Mighty Aphrodite" and everything above

A protected key is DER: an algorithm, and an octet string of salt (20 bytes), the key (PKCS8) under a chain of SHA-1
digests, and a SHA-1 digest of password and key.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_MAGIC = b"\xfe\xed\xfe\xed"
_VERSION = 2
_KEY, _CERTIFICATE = 1, 2
_SALT = b"Mighty Aphrodite"
_DIGEST_BYTES = 20


Part = Literal["content", "type", "password", "key.password"]


class StoreFaultError(ValueError):
    """Why a store cannot be read, as a sentence that goes on from the setting's name; ``part`` says which setting."""

    def __init__(self, part: Part, reason: str) -> None:
        super().__init__(reason)
        self.part: Part = part


@dataclass(frozen=True, slots=True)
class JksKey:
    """A private key as the store protects it, and its certificate chain in DER, its own first."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


def read_jks(content: bytes, password: str | None) -> tuple[tuple[bytes, ...], tuple[JksKey, ...]]:
    """The entries of a store, each kind in the store's order: trusted certificates in DER, and keys.

    Args:
        content: the whole file.
        password: the store's; without one the store's digest is not checked, as Java does it.

    Raises:
        StoreFaultError: the bytes are not a store of version 2, or the password is not the store's.
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password is not None and hashlib.sha1(_utf16(password) + _SALT + body).digest() != digest:
        raise StoreFaultError("password", "is not the store's, or the store is damaged")
    fields = _Fields(body)
    trusted: list[bytes] = []
    keys: list[JksKey] = []
    try:
        if fields.take(4) != _MAGIC or fields.integer() != _VERSION:
            raise StoreFaultError("content", f"is not a JKS store of version {_VERSION}")
        for _ in range(fields.integer()):
            tag, alias, _made_at_ms = fields.integer(), fields.text(), fields.take(8)
            if tag == _KEY:
                protected = fields.block()
                keys.append(JksKey(alias, protected, tuple(fields.certificate() for _ in range(fields.integer()))))
            elif tag == _CERTIFICATE:
                trusted.append(fields.certificate())
            else:
                raise StoreFaultError("content", f"has an entry of unknown kind {tag}")
    except (struct.error, UnicodeDecodeError) as error:
        raise StoreFaultError("content", "is a JKS store that is damaged") from error
    return tuple(trusted), tuple(keys)


def private_key(key: JksKey, password: str) -> bytes:
    """The private key, PKCS8 in DER.

    Raises:
        StoreFaultError: the password is not the key's.
    """
    protected = _octet_string(key.protected)
    salt, hidden, check = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES], protected[-_DIGEST_BYTES:]
    secret = _utf16(password)
    stream, digest = bytearray(), salt
    while len(stream) < len(hidden):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    size = len(hidden)
    plain = (int.from_bytes(hidden) ^ int.from_bytes(stream[:size])).to_bytes(size)
    if hashlib.sha1(secret + plain).digest() != check:
        raise StoreFaultError("key.password", "is not the private key's")
    return plain


class _Fields:
    """Reads one field after the other; ``struct.error`` at the end of the bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def take(self, count: int) -> bytes:
        start, self._position = self._position, self._position + count
        if count < 0 or self._position > len(self._content):
            raise struct.error(f"no {count} bytes at {start}")
        return self._content[start : self._position]

    def integer(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2))).decode()

    def block(self) -> bytes:
        return self.take(self.integer())

    def certificate(self) -> bytes:
        self.text()
        return self.block()


def _octet_string(protected: bytes) -> bytes:
    """The last of the two parts of a protected key's DER sequence."""
    start, _ = _der_value(protected, 0)
    _, algorithm_end = _der_value(protected, start)
    start, end = _der_value(protected, algorithm_end)
    return protected[start:end]


def _der_value(content: bytes, position: int) -> tuple[int, int]:
    """Where the value of the DER element at this position begins and ends."""
    header = content[position + 1 : position + 2]
    size = int.from_bytes(header)
    start = position + 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(content[position + 2 : start])
    if not header or start + size > len(content):
        raise StoreFaultError("content", "has a private key that is damaged")
    return start, start + size


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


#: Kafka's parser takes PEM whose line ends were lost, as they are in many a secret's store; so does this.
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.+?)-----END \1-----", re.DOTALL)


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
        certificates = _pem_certificates(content)
    elif content.startswith(_MAGIC):
        trusted, keys = read_jks(content, password)
        # Java trusts the certificate of a key entry too.
        certificates = (*trusted, *(key.chain[0] for key in keys if key.chain))
    else:
        store = _read_pkcs12(content, password)
        bags = (store.cert, *store.additional_certs)
        certificates = tuple(_der(bag.certificate) for bag in bags if bag is not None)
    if not certificates:
        raise StoreFaultError("content", "holds no certificate")
    return certificates


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
    elif content.startswith(_MAGIC):
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
    _, keys = read_jks(content, password)
    if not keys:
        raise StoreFaultError("content", "holds no private key")
    secret = key_password if key_password is not None else password
    if secret is None:
        raise StoreFaultError("password", "is needed to read a private key from a JKS store")
    return Identity(private_key(keys[0], secret), keys[0].chain)


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

    key_block = next(((label, body) for label, body in _PEM_BLOCK.findall(_pem_text(content)) if "KEY" in label), None)
    if key_block is None:
        raise StoreFaultError("content", "holds no private key")
    label, body = key_block
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
        own, *others = (x509.load_der_x509_certificate(certificate) for certificate in chain)
    except ValueError as error:
        raise StoreFaultError("content", f"has a certificate that is damaged ({error})") from error
    ordered = [own]
    while (signer := next((other for other in others if other.subject == ordered[-1].issuer), None)) is not None:
        others.remove(signer)
        ordered.append(signer)
    return tuple(_der(certificate) for certificate in ordered)


def _pkcs8(key: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    exported: bytes = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined]
    return exported


def _der(certificate: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    encoded: bytes = certificate.public_bytes(Encoding.DER)  # type: ignore[attr-defined]
    return encoded
