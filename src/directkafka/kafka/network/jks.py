"""Java's own key store format, JKS version 2: read without a JVM.

All integers are big-endian, strings have a 2-byte length (``JavaKeyStore.java``, ``KeyProtector.java`` of OpenJDK)::

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

import hashlib
import struct
from dataclasses import dataclass

__all__ = ["JksContent", "JksFaultError", "JksKey", "is_jks", "private_key", "read_jks"]

_MAGIC = b"\xfe\xed\xfe\xed"
_VERSION = 2
_KEY, _CERTIFICATE = 1, 2
_SALT = b"Mighty Aphrodite"
_DIGEST_BYTES = 20


class JksFaultError(ValueError):
    """The bytes are not a store; or, if ``password`` is true, the password is not this store's."""

    def __init__(self, reason: str, *, password: bool = False) -> None:
        super().__init__(reason)
        self.password = password


@dataclass(frozen=True, slots=True)
class JksKey:
    """A private key as the store protects it, and its certificate chain in DER, its own first."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JksContent:
    """The entries of a store, each kind in the store's order; trusted certificates in DER."""

    trusted: tuple[bytes, ...]
    keys: tuple[JksKey, ...]


def is_jks(content: bytes) -> bool:
    """Whether the bytes begin as a JKS store does."""
    return content.startswith(_MAGIC)


def read_jks(content: bytes, password: str | None) -> JksContent:
    """The entries of a store.

    Args:
        content: the whole file.
        password: the store's; without one the store's digest is not checked, as Java does it.

    Raises:
        JksFaultError: the bytes are not a store of version 2, or the password is not the store's.
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password is not None and hashlib.sha1(_utf16(password) + _SALT + body).digest() != digest:
        raise JksFaultError("is not the store's, or the store is damaged", password=True)
    fields = _Fields(body)
    trusted: list[bytes] = []
    keys: list[JksKey] = []
    try:
        if fields.take(4) != _MAGIC or fields.integer() != _VERSION:
            raise JksFaultError(f"is not a JKS store of version {_VERSION}")
        for _ in range(fields.integer()):
            tag, alias, _made_at_ms = fields.integer(), fields.text(), fields.take(8)
            if tag == _KEY:
                protected = fields.block()
                keys.append(JksKey(alias, protected, tuple(fields.certificate() for _ in range(fields.integer()))))
            elif tag == _CERTIFICATE:
                trusted.append(fields.certificate())
            else:
                raise JksFaultError(f"has an entry of unknown kind {tag}")
    except (struct.error, UnicodeDecodeError) as error:
        raise JksFaultError("is a JKS store that is damaged") from error
    return JksContent(tuple(trusted), tuple(keys))


def private_key(key: JksKey, password: str) -> bytes:
    """The private key, PKCS8 in DER.

    Raises:
        JksFaultError: the password is not the key's.
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
        raise JksFaultError("is not the private key's", password=True)
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
        raise JksFaultError("has a private key that is damaged")
    return start, start + size


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")
