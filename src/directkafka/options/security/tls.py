"""TLS settings, understood as Kafka's Java clients write them, and as librdkafka does.

Only the settings are read here: the files they name are opened where a connection is made
(:mod:`directkafka.kafka.network.tls`), so that each executor reads its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from directkafka.options.spec import OptionSpec, RawOptions, Secret

StoreType = Literal["PEM", "JKS", "PKCS12"]

_STORE_TYPES: Final = ("PEM", "JKS", "PKCS12")
#: Most bytes of a certificate's or a key's text.
_PEM_BYTES_MAX: Final = 2**20
_STORE_TYPE_DOC = "JKS and PKCS12 name the same: the file's content says which of the two it is, as in Java."

TRUSTSTORE_TYPE: Final = OptionSpec(
    name="ssl.truststore.type",
    kind="choice",
    choices=_STORE_TYPES,
    default="JKS",
    doc=f"What the trust store is. {_STORE_TYPE_DOC}",
)
TRUSTSTORE_LOCATION: Final = OptionSpec(
    name="ssl.truststore.location",
    kind="text",
    doc="File with the certificates that are trusted; without one, the system's own are. Every executor needs "
    "it at the same path.",
)
TRUSTSTORE_PASSWORD: Final = OptionSpec(
    name="ssl.truststore.password",
    kind="secret",
    doc="Password of a JKS or PKCS12 trust store; a JKS store is read without it, but then not checked.",
)
TRUSTSTORE_CERTIFICATES: Final = OptionSpec(
    name="ssl.truststore.certificates",
    kind="text",
    bytes_max=_PEM_BYTES_MAX,
    doc="The trusted certificates themselves, as PEM; needs ssl.truststore.type PEM.",
)
KEYSTORE_TYPE: Final = OptionSpec(
    name="ssl.keystore.type",
    kind="choice",
    choices=_STORE_TYPES,
    default="JKS",
    doc=f"What the key store is. {_STORE_TYPE_DOC}",
)
KEYSTORE_LOCATION: Final = OptionSpec(
    name="ssl.keystore.location",
    kind="text",
    doc="File with this client's private key and its certificate chain. Every executor needs it at the same path.",
)
KEYSTORE_PASSWORD: Final = OptionSpec(
    name="ssl.keystore.password",
    kind="secret",
    doc="Password of a JKS or PKCS12 key store.",
)
KEYSTORE_KEY: Final = OptionSpec(
    name="ssl.keystore.key",
    kind="secret",
    bytes_max=_PEM_BYTES_MAX,
    doc="This client's private key itself, as PEM; needs ssl.keystore.type PEM and ssl.keystore.certificate.chain.",
)
KEYSTORE_CHAIN: Final = OptionSpec(
    name="ssl.keystore.certificate.chain",
    kind="text",
    bytes_max=_PEM_BYTES_MAX,
    doc="This client's certificate and those that signed it, as PEM, beside ssl.keystore.key.",
)
KEY_PASSWORD: Final = OptionSpec(
    name="ssl.key.password",
    kind="secret",
    doc="Password of this client's private key; that of the key store counts when it is not given.",
)
CA_LOCATION: Final = OptionSpec(
    name="ssl.ca.location",
    kind="text",
    doc="PEM file of the authorities that are trusted (librdkafka's name for a PEM trust store).",
)
CERTIFICATE_LOCATION: Final = OptionSpec(
    name="ssl.certificate.location",
    kind="text",
    doc="PEM file of this client's certificate chain (librdkafka's name).",
)
KEY_LOCATION: Final = OptionSpec(
    name="ssl.key.location",
    kind="text",
    doc="PEM file of this client's private key (librdkafka's name).",
)
ENDPOINT_IDENTIFICATION: Final = OptionSpec(
    name="ssl.endpoint.identification.algorithm",
    kind="choice",
    choices=("https", "none", ""),
    default="https",
    doc="https: the broker's certificate must name its host; none or empty: it need not.",
)

TLS_SPECS: Final = (
    TRUSTSTORE_TYPE,
    TRUSTSTORE_LOCATION,
    TRUSTSTORE_PASSWORD,
    TRUSTSTORE_CERTIFICATES,
    KEYSTORE_TYPE,
    KEYSTORE_LOCATION,
    KEYSTORE_PASSWORD,
    KEYSTORE_KEY,
    KEYSTORE_CHAIN,
    KEY_PASSWORD,
    CA_LOCATION,
    CERTIFICATE_LOCATION,
    KEY_LOCATION,
    ENDPOINT_IDENTIFICATION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStore:
    """Which certificates are trusted.

    Attributes:
        type: format of the content; JKS and PKCS12 mean the same.
        setting: name of the option that gives it, without its prefix, for messages.
        prefix: of that option and those beside it.
        location: the file; None when ``certificates`` has the content.
        certificates: PEM text.
        password: of a JKS or PKCS12 store.
    """

    type: StoreType
    setting: str
    prefix: str = "kafka."
    location: str | None = None
    certificates: str | None = None
    password: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """Who this client is: its private key and its certificate chain.

    Attributes:
        type: format of the content; JKS and PKCS12 mean the same.
        setting: name of the option that gives it, without its prefix, for messages.
        prefix: of that option and those beside it.
        location: the file; None when ``key`` and ``chain`` have the content.
        key_location: the PEM file of the private key, when it is not in ``location``.
        key: the private key as PEM text.
        chain: the certificate chain as PEM text.
        password: of a JKS or PKCS12 store.
        key_password: of the private key, if it has one of its own.
    """

    type: StoreType
    setting: str
    prefix: str = "kafka."
    location: str | None = None
    key_location: str | None = None
    key: Secret | None = None
    chain: str | None = None
    password: Secret | None = None
    key_password: Secret | None = None


def read_tls(given: RawOptions, prefix: str = "kafka.") -> dict[str, Any]:
    """The ``ssl_`` fields of ``ClientOptions``.

    Args:
        given: the options.
        prefix: what users write before their names, for messages about the files that they name.

    Raises:
        OptionError: a store is given in two ways or in part only, or PEM text is given and the type is not PEM.
    """
    stores = _read_trust_store(given), _read_key_store(given)
    trusted, own = (None if store is None else replace(store, prefix=prefix) for store in stores)
    return {
        "ssl_trust_store": trusted,
        "ssl_key_store": own,
        "ssl_check_hostname": given.value(ENDPOINT_IDENTIFICATION) == "https",
    }


def _read_trust_store(given: RawOptions) -> TrustStore | None:
    way = _the_one_given(given, TRUSTSTORE_LOCATION, TRUSTSTORE_CERTIFICATES, CA_LOCATION)
    if way is TRUSTSTORE_LOCATION:
        return TrustStore(
            type=given.value(TRUSTSTORE_TYPE),
            setting=way.name,
            location=given.text(way),
            password=_secret(given, TRUSTSTORE_PASSWORD),
        )
    if way is TRUSTSTORE_CERTIFICATES:
        _must_be_pem(given, way, TRUSTSTORE_TYPE)
        return TrustStore(type="PEM", setting=way.name, certificates=given.text(way))
    return None if way is None else TrustStore(type="PEM", setting=way.name, location=given.text(way))


def _read_key_store(given: RawOptions) -> KeyStore | None:
    way = _the_one_given(given, KEYSTORE_LOCATION, KEYSTORE_KEY, CERTIFICATE_LOCATION)
    for part, whole in ((KEYSTORE_CHAIN, KEYSTORE_KEY), (KEY_LOCATION, CERTIFICATE_LOCATION)):
        if given.text(part) and way is not whole:
            raise given.error(part.name, f"needs {whole.name} beside it")
    key_password = _secret(given, KEY_PASSWORD)
    if way is KEYSTORE_LOCATION:
        return KeyStore(
            type=given.value(KEYSTORE_TYPE),
            setting=way.name,
            location=given.text(way),
            password=_secret(given, KEYSTORE_PASSWORD),
            key_password=key_password,
        )
    if way is KEYSTORE_KEY:
        _must_be_pem(given, way, KEYSTORE_TYPE)
        if not given.text(KEYSTORE_CHAIN):
            raise given.error(way.name, f"needs {KEYSTORE_CHAIN.name} beside it")
        key, chain = given.value(way), given.text(KEYSTORE_CHAIN)
        return KeyStore(type="PEM", setting=way.name, key=key, chain=chain, key_password=key_password)
    if way is None:
        return None
    return KeyStore(
        type="PEM",
        setting=way.name,
        location=given.text(way),
        key_location=given.text(KEY_LOCATION) or None,
        key_password=key_password,
    )


def _the_one_given(given: RawOptions, *ways: OptionSpec) -> OptionSpec | None:
    """Which one of several options that say the same is given."""
    given_ways = [way for way in ways if given.text(way)]
    if len(given_ways) > 1:
        raise given.error(given_ways[1].name, f"says the same as {given_ways[0].name}: keep one of them")
    return given_ways[0] if given_ways else None


def _must_be_pem(given: RawOptions, way: OptionSpec, store_type: OptionSpec) -> None:
    if given.value(store_type) != "PEM":
        raise given.error(
            way.name, f"is PEM, but {store_type.name} is {given.value(store_type)}: set {store_type.name} to PEM"
        )


def _secret(given: RawOptions, spec: OptionSpec) -> Secret | None:
    return given.value(spec) if given.text(spec) else None
