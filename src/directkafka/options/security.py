"""TLS and SASL settings, understood as Kafka's Java clients write them."""

from __future__ import annotations

import re
from typing import Any, Final

from directkafka.options.spec import Given, OptionSpec, Secret

__all__ = ["SASL_SPECS", "SECURITY_PROTOCOL", "TLS_SPECS", "read_sasl", "read_tls"]

_STORE_TYPES: Final = ("PEM", "JKS", "PKCS12")
_LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}

SECURITY_PROTOCOL: Final = OptionSpec(
    name="security.protocol",
    kind="choice",
    choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    default="PLAINTEXT",
    doc="Whether connections are encrypted (SSL) and logged in (SASL). Settings of a layer that is "
    "not used are not looked at.",
)
TRUSTSTORE_TYPE: Final = OptionSpec(
    name="ssl.truststore.type",
    kind="choice",
    choices=_STORE_TYPES,
    default="JKS",
    doc="Only PEM is read; Kafka's default is JKS, so it must be given with a location.",
)
TRUSTSTORE_LOCATION: Final = OptionSpec(
    name="ssl.truststore.location",
    kind="text",
    doc="PEM file of the authorities that are trusted; the system's own when it is not given.",
)
KEYSTORE_TYPE: Final = OptionSpec(
    name="ssl.keystore.type",
    kind="choice",
    choices=_STORE_TYPES,
    default="JKS",
    doc="Only PEM is read; Kafka's default is JKS, so it must be given with a location.",
)
KEYSTORE_LOCATION: Final = OptionSpec(
    name="ssl.keystore.location",
    kind="text",
    doc="PEM file with this client's private key and its certificate chain.",
)
KEY_PASSWORD: Final = OptionSpec(name="ssl.key.password", kind="secret", doc="Password of this client's private key.")
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
    doc="https: the broker's certificate must name its host; empty: it need not.",
)
SASL_MECHANISM: Final = OptionSpec(
    name="sasl.mechanism",
    kind="choice",
    choices=tuple(_LOGIN_MODULES),
    aliases=("sasl.mechanisms",),
    doc="How to log in. Required with SASL: Kafka's default, GSSAPI, is not supported.",
)
JAAS_CONFIG: Final = OptionSpec(
    name="sasl.jaas.config",
    kind="secret",
    doc='The login as Java writes it, \'MODULE required username="..." password="...";\', where MODULE is '
    "Java's PlainLoginModule or ScramLoginModule with its package.",
)
SASL_USERNAME: Final = OptionSpec(
    name="sasl.username", kind="text", doc="The login's name (librdkafka's way, without JAAS)."
)
SASL_PASSWORD: Final = OptionSpec(
    name="sasl.password",
    kind="secret",
    doc="The login's password (librdkafka's way, without JAAS).",
)

TLS_SPECS: Final = (
    SECURITY_PROTOCOL,
    TRUSTSTORE_TYPE,
    TRUSTSTORE_LOCATION,
    KEYSTORE_TYPE,
    KEYSTORE_LOCATION,
    KEY_PASSWORD,
    CA_LOCATION,
    CERTIFICATE_LOCATION,
    KEY_LOCATION,
    ENDPOINT_IDENTIFICATION,
)
SASL_SPECS: Final = (SASL_MECHANISM, JAAS_CONFIG, SASL_USERNAME, SASL_PASSWORD)

#: ``name=value`` of a JAAS entry: Java quotes with either mark and escapes with a backslash.
_JAAS_OPTION = re.compile(r"""([\w.]+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+)""", re.DOTALL)
_JAAS_ENTRY = re.compile(rf"\s*([\w.$]+)\s+required((?:\s+{_JAAS_OPTION.pattern})*)\s*;\s*", re.DOTALL | re.IGNORECASE)


def read_tls(given: Given) -> dict[str, Any]:
    """The ``ssl_`` fields of ``ClientOptions`` that are given.

    Raises:
        OptionError: a key store that is not PEM, or a name given in both Kafka's and librdkafka's
            way.
    """
    cafile = _store(given, TRUSTSTORE_LOCATION, TRUSTSTORE_TYPE, CA_LOCATION)
    certfile = _store(given, KEYSTORE_LOCATION, KEYSTORE_TYPE, CERTIFICATE_LOCATION)
    keyfile = given.text(KEY_LOCATION) or None
    if keyfile and not certfile:
        raise given.error(KEY_LOCATION.name, f"needs {CERTIFICATE_LOCATION.name} beside it")
    return {
        "ssl_cafile": cafile,
        "ssl_certfile": certfile,
        "ssl_keyfile": keyfile,
        "ssl_key_password": given.value(KEY_PASSWORD) if given.text(KEY_PASSWORD) else None,
        "ssl_check_hostname": given.value(ENDPOINT_IDENTIFICATION) == "https",
    }


def _store(given: Given, location: OptionSpec, kind: OptionSpec, pem: OptionSpec) -> str | None:
    """Path of a PEM file given as a Java store of type PEM, or by librdkafka's name."""
    if given.text(location) and given.text(pem):
        raise given.error(pem.name, f"says the same as {location.name}: keep one of them")
    if not given.text(location):
        return given.text(pem) or None
    store_type = given.value(kind)
    if store_type != "PEM":
        raise given.error(
            kind.name,
            f"the store {given.text(location)!r} is of type {store_type}, and only PEM is read. "
            "Export it (keytool -importkeystore -deststoretype PKCS12; openssl pkcs12 -nodes), "
            f"set {location.name} to the PEM file and {kind.name} to PEM",
        )
    return given.text(location)


def read_sasl(given: Given) -> dict[str, Any]:
    """The ``sasl_`` fields of ``ClientOptions``.

    Raises:
        OptionError: no mechanism, one that is not supported, or no name and password.
    """
    mechanism = _mechanism(given)
    if given.text(JAAS_CONFIG):
        username, password = _read_jaas(given, mechanism)
    else:
        username, password = given.text(SASL_USERNAME), given.text(SASL_PASSWORD)
    if not (username and password):
        names = f"{JAAS_CONFIG.name}, or {SASL_USERNAME.name} and {SASL_PASSWORD.name}"
        raise given.error(SASL_MECHANISM.name, f"{mechanism} needs a name and a password: give {names}")
    return {
        "sasl_mechanism": mechanism,
        "sasl_username": username,
        "sasl_password": Secret(password),
    }


def _mechanism(given: Given) -> str:
    mechanism = given.text(SASL_MECHANISM).upper() or "GSSAPI (Kafka's default)"
    if mechanism not in _LOGIN_MODULES:
        supported = ", ".join(_LOGIN_MODULES)
        raise given.error(SASL_MECHANISM.name, f"{mechanism} is not supported; use one of {supported}")
    return mechanism


def _read_jaas(given: Given, mechanism: str) -> tuple[str, str]:
    # Messages here never quote the text: it holds the password.
    entry = _JAAS_ENTRY.fullmatch(given.text(JAAS_CONFIG))
    module = _LOGIN_MODULES[mechanism]
    if entry is None:
        form = f'{module} required username="..." password="...";'
        raise given.error(JAAS_CONFIG.name, f"cannot be parsed; expected {form!r}")
    if entry[1].rpartition(".")[2] != module:
        raise given.error(JAAS_CONFIG.name, f"names {entry[1]}, but {mechanism} needs {module}")
    login = {name: _unquote(value) for name, value in _JAAS_OPTION.findall(entry[2])}
    if login.get("tokenauth", "false").lower() == "true":
        raise given.error(JAAS_CONFIG.name, "delegation tokens (tokenauth) are not supported")
    return login.get("username", ""), login.get("password", "")


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL) if value[0] in "\"'" else value
