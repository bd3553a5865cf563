"""The TLS side of a connection: an ``ssl.SSLContext``, made of the stores that the options name.

Files are read anew for every client and every fetch connection, on the machine that connects: a certificate that was
renewed is used from the next connection on.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import tempfile
from pathlib import Path

from directkafka.errors import EnvironmentFaultError, OptionError
from directkafka.kafka.network.keystores import Identity, StoreFaultError, read_identity, read_trusted
from directkafka.options.client import ClientOptions
from directkafka.options.security.tls import KeyStore, TrustStore
from directkafka.options.spec import Secret

#: What the settings of a store's type and password begin with.
_STORES = {TrustStore: "ssl.truststore", KeyStore: "ssl.keystore"}


def tls_context(options: ClientOptions) -> ssl.SSLContext | None:
    """The context for connections with these options; None for connections without TLS.

    Args:
        options: the stores, and whether the broker's name is checked.

    Raises:
        OptionError: a store that cannot be read, by the name of the setting that is wrong.
        EnvironmentFaultError: no temporary file can be made.
    """
    if not options.security_protocol.endswith("SSL"):
        return None
    return make_context(options.ssl_trust_store, options.ssl_key_store, check_hostname=options.ssl_check_hostname)


def make_context(trust_store: TrustStore | None, key_store: KeyStore | None, *, check_hostname: bool) -> ssl.SSLContext:
    """A context for connections of a client.

    Args:
        trust_store: which certificates are trusted; None: the system's.
        key_store: who the client is; None: nobody.
        check_hostname: whether the server's certificate must name its host.

    Raises:
        OptionError: a store that cannot be read, by the name of the setting that is wrong.
        EnvironmentFaultError: no temporary file can be made.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_hostname
    if trust_store is None:
        context.load_default_certs()
    else:
        _trust(context, trust_store)
    if key_store is not None:
        _identify(context, key_store)
    return context


def _trust(context: ssl.SSLContext, store: TrustStore) -> None:
    try:
        content = store.certificates.encode() if store.certificates is not None else _read(store, store.location)
        trusted = read_trusted(content, store.type, _text(store.password))
        context.load_verify_locations(cadata=b"".join(trusted))
    except StoreFaultError as error:
        raise _option_error(store, error) from error
    except ssl.SSLError as error:
        raise _option_error(store, StoreFaultError("content", "has a certificate that is damaged")) from error
    # As in Java: what is in the trust store is trusted, whether or not it signed itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _identify(context: ssl.SSLContext, store: KeyStore) -> None:
    try:
        identity = read_identity(
            _key_store_content(store), store.type, _text(store.password), _text(store.key_password)
        )
        _load(context, identity)
    except StoreFaultError as error:
        raise _option_error(store, error) from error
    except ssl.SSLError as error:
        reason = f"has a private key and a certificate that do not fit ({error.reason})"
        raise _option_error(store, StoreFaultError("content", reason)) from error
    except OSError as error:
        raise EnvironmentFaultError(
            what=f"The private key must be in a temporary file for a moment, which cannot be made ({error})",
            remedy="Set TMPDIR to a folder that can be written.",
        ) from error


def _key_store_content(store: KeyStore) -> bytes:
    if store.key is not None:
        return f"{store.key.reveal()}\n{store.chain}".encode()
    content = _read(store, store.location)
    # The key first: a certificate's file may hold a key as well.
    return content if store.key_location is None else _read(store, store.key_location) + b"\n" + content


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    """Give the key to OpenSSL, which Python lets read it from a file only.

    Only this user can read the file; it is deleted at once, and its password is in this process alone.
    """
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_der_private_key,
    )

    password = secrets.token_bytes(32).hex()
    key = load_der_private_key(identity.key, None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    with tempfile.NamedTemporaryFile(prefix="directkafka-", suffix=".pem") as file:
        file.write(pem + "".join(ssl.DER_cert_to_PEM_cert(certificate) for certificate in identity.chain).encode())
        file.flush()
        context.load_cert_chain(file.name, password=password)


def _read(store: TrustStore | KeyStore, location: str | None) -> bytes:
    assert location is not None
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise StoreFaultError(
            "content",
            f"{location!r} cannot be read on {socket.gethostname()} ({error.strerror}); every executor needs the file",
        ) from error


def _option_error(store: TrustStore | KeyStore, error: StoreFaultError) -> OptionError:
    match error.part:
        case "content":
            option = store.setting
        case "key.password":
            option = "ssl.key.password"
        case _:
            option = f"{_STORES[type(store)]}.{error.part}"
    return OptionError(option=store.prefix + option, reason=str(error))


def _text(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()
