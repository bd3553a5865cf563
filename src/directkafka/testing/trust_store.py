"""The certificates that this machine trusts, as a file that a JVM reads.

A Java that the machine's owner installed trusts what he made it trust. The JRE of a wheel brings a list of its
own, and so cannot fetch anything where the network's TLS is signed by a company's authority. Python uses the
machine's list; this hands it on. (``keytool`` would take one process per certificate.)

The format is JKS version 2: all integers big-endian, strings with a 2-byte length::

    magic 0xFEEDFEED int32 | version int32 | count int32
    count times: tag 2 (a trusted certificate) int32 | alias string | made_at_ms int64 | "X.509" string |
                 length int32 | the certificate (DER)
    SHA-1 over the password in UTF-16, the text "Mighty Aphrodite" and everything above

A JVM that is given no password does not check the digest; it stands here for tools that do.
"""

from __future__ import annotations

import hashlib
import ssl
import struct
from collections.abc import Sequence

_MAGIC = 0xFEEDFEED
_VERSION = 2
_TAG_TRUSTED_CERTIFICATE = 2
_PASSWORD = "changeit"  # Java's customary one; it hides nothing
_SALT = b"Mighty Aphrodite"


def trusted_certificates() -> Sequence[bytes]:
    """The authorities that Python trusts on this machine, in DER; respects ``SSL_CERT_FILE``."""
    return ssl.create_default_context().get_ca_certs(binary_form=True)


def jks(certificates: Sequence[bytes]) -> bytes:
    """A JKS trust store with these certificates (DER), the same bytes for the same certificates."""
    store = bytearray(struct.pack(">Iii", _MAGIC, _VERSION, len(certificates)))
    for number, certificate in enumerate(certificates):
        store += struct.pack(">i", _TAG_TRUSTED_CERTIFICATE)
        store += _string(f"authority-{number}")
        store += struct.pack(">q", 0)
        store += _string("X.509")
        store += struct.pack(">i", len(certificate)) + certificate
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + _SALT + store).digest()
    return bytes(store) + digest


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded
