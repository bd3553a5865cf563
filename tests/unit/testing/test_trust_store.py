from __future__ import annotations

import hashlib
import struct

from directkafka.testing.trust_store import jks


def test_the_store_lists_every_certificate_with_its_bytes() -> None:
    store = jks([b"first", b"second!"])
    assert store[:12] == bytes.fromhex("feedfeed 00000002 00000002")
    position = 12
    certificates = []
    for number in range(2):
        alias = f"authority-{number}".encode()
        head = struct.pack(">iH", 2, len(alias)) + alias + struct.pack(">qH", 0, 5) + b"X.509"
        assert store[position : position + len(head)] == head
        position += len(head)
        (length,) = struct.unpack_from(">i", store, position)
        certificates.append(store[position + 4 : position + 4 + length])
        position += 4 + length
    assert certificates == [b"first", b"second!"]
    digest = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:position]).digest()
    assert store[position:] == digest


def test_the_same_certificates_give_the_same_bytes() -> None:
    assert jks([b"a"]) == jks([b"a"]) != jks([b"b"])
