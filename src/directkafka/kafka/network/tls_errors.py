"""Errors of TLS: why a server and this client do not trust one another, and which settings to look at."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from directkafka.options.security.tls import KeyStore, TrustStore

#: OpenSSL's numbers of what is wrong with a certificate (``x509_vfy.h``).
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_HOST = frozenset({62, 64})

#: Parts of OpenSSL's names: two of TLS alerts from the server (RFC 8446, section 6.2), one of answers that are not TLS.
_ABOUT_OUR_CERTIFICATE = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")
_ABOUT_PROTOCOL = ("HANDSHAKE_FAILURE", "PROTOCOL_VERSION", "INSUFFICIENT_SECURITY")
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG")


class RemedyWords(NamedTuple):
    """What remedies say of one kind of server.

    Attributes:
        without_tls: what to do where it does not speak TLS.
        certificate: where its own certificate is.
        trusted: where those are that it trusts.
        handshake: what it asks of a handshake.
    """

    without_tls: str
    certificate: str
    trusted: str
    handshake: str


def tls_refusal(
    error: ssl.SSLError,
    trust_store: TrustStore | None,
    key_store: KeyStore | None,
    *,
    server: RemedyWords,
    prefix: str = "kafka.",
) -> tuple[str, str] | None:
    """Cause and remedy of a refusal; None when another try may succeed.

    Args:
        error: of the connection.
        trust_store: which certificates are trusted; None: the system's.
        key_store: who this client is; None: nobody.
        server: where to look at the server.
        prefix: of the options that name the stores.
    """
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error, trust_store, server, prefix)
    if any(part in reason for part in _NOT_TLS):
        return "it does not speak TLS", server.without_tls
    if "ALERT" in reason and any(part in reason for part in _ABOUT_OUR_CERTIFICATE):
        return _unwelcome(reason, key_store, server, prefix)
    if "ALERT" in reason and any(part in reason for part in _ABOUT_PROTOCOL):
        return (
            f"it refused the TLS handshake ({reason})",
            f"Compare {server.handshake}; TLS 1.2 and 1.3 are spoken here",
        )
    return None


def _untrusted(
    error: ssl.SSLCertVerificationError, store: TrustStore | None, server: RemedyWords, prefix: str
) -> tuple[str, str]:
    if error.verify_code in _WRONG_HOST:
        return (
            f"its certificate is not for this host ({error.verify_message.rstrip('.')})",
            "Use an address that the certificate names, or give it one more name; to go without this check, set "
            f"{prefix}ssl.endpoint.identification.algorithm to the empty text",
        )
    if error.verify_code in (_NOT_YET_VALID, _EXPIRED):
        return (
            f"its certificate, or one that signed it, is not valid now ({error.verify_message})",
            f"Renew it in {server.certificate}, and look at this machine's clock",
        )
    remedy = (
        "Only the system's own certificates are trusted: give that of the authority with "
        f"{prefix}ssl.truststore.location or {prefix}ssl.ca.location"
    )
    if store is not None:
        remedy = f"Put the certificate of the authority into what {store.prefix}{store.setting} gives"
    return f"its certificate is signed by nobody who is trusted ({error.verify_message})", remedy


def _unwelcome(reason: str, store: KeyStore | None, server: RemedyWords, prefix: str) -> tuple[str, str]:
    if store is None:
        return (
            f"it asks for a client's certificate, and none is given ({reason})",
            f"Give the certificate and its key with {prefix}ssl.keystore.location",
        )
    return (
        f"it refused this client's certificate ({reason})",
        f"Compare the certificate in {store.prefix}{store.setting} with {server.trusted}",
    )
