"""SASL settings, understood as Kafka's Java clients write them, and as librdkafka does."""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from directkafka.options.spec import OptionSpec, RawOptions, Secret
from directkafka.told_once import warn_once

logger = logging.getLogger("directkafka.options")

OAUTHBEARER: Final = "OAUTHBEARER"
_LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
}

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
    "Java's PlainLoginModule or ScramLoginModule with its package. With OAUTHBEARER it may name OAuthBearerLoginModule "
    "and nothing else: any setting in it is an error.",
)
SASL_USERNAME: Final = OptionSpec(
    name="sasl.username", kind="text", doc="The login's name (librdkafka's way, without JAAS)."
)
SASL_PASSWORD: Final = OptionSpec(
    name="sasl.password",
    kind="secret",
    doc="The login's password (librdkafka's way, without JAAS).",
)

TOKEN_CALLBACK: Final = OptionSpec(
    name="sasl.oauthbearer.token.callback",
    kind="text",
    doc="The function module:function that gives the token of OAUTHBEARER, called without arguments wherever a "
    "connection is made: it returns the token, or a pair of it and the time it ends (seconds since 1970). Such a pair "
    "is used again until 80 % of its time is over. Executors import the module too. This library's own name.",
)

SASL_SPECS: Final = (SASL_MECHANISM, JAAS_CONFIG, SASL_USERNAME, SASL_PASSWORD, TOKEN_CALLBACK)

#: Java gets a token with these by itself.
NO_TOKEN_ENDPOINT: Final = (
    "tokens are not fetched from an endpoint here; write a function that fetches one, name it in "
    f"{TOKEN_CALLBACK.name} as module:function, and leave this out"
)

#: These send what logs in over the wire; SCRAM proves only that it knows the password.
OPEN_MECHANISMS: Final = ("PLAIN", OAUTHBEARER)

_FUNCTION_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

#: ``name=value`` of a JAAS entry: Java quotes with either mark and escapes with a backslash.
_JAAS_OPTION = re.compile(r"""([\w.]+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+)""", re.DOTALL)
_JAAS_ENTRY = re.compile(rf"\s*([\w.$]+)\s+required((?:\s+{_JAAS_OPTION.pattern})*)\s*;\s*", re.DOTALL | re.IGNORECASE)


def read_sasl(given: RawOptions) -> dict[str, Any]:
    """The ``sasl_`` fields of ``ClientOptions``.

    Raises:
        OptionError: no mechanism, one that is not supported, or nothing to log in with.
    """
    mechanism = _mechanism(given)
    login = _read_jaas(given, mechanism) if given.text(JAAS_CONFIG) else None
    if mechanism == OAUTHBEARER:
        _warn_unused(given, SASL_USERNAME, SASL_PASSWORD, why=f"{OAUTHBEARER} has a token in their place")
        return {"sasl_mechanism": mechanism, "sasl_token_callback": _read_callback(given)}
    _warn_unused(given, TOKEN_CALLBACK, why=f"{mechanism} has no token")
    if login is not None:
        _warn_unused(given, SASL_USERNAME, SASL_PASSWORD, why=f"the login is in {JAAS_CONFIG.name}")
    username, password = login or (given.text(SASL_USERNAME), given.text(SASL_PASSWORD))
    if not (username and password):
        names = f"{JAAS_CONFIG.name}, or {SASL_USERNAME.name} and {SASL_PASSWORD.name}"
        raise given.error(SASL_MECHANISM.name, f"{mechanism} needs a name and a password: give {names}")
    return {"sasl_mechanism": mechanism, "sasl_username": username, "sasl_password": Secret(password)}


def warn_in_the_clear(mechanism: str) -> None:
    """Say, once in a program, that whoever listens between this client and a broker can log in too."""
    warn_once(
        logger,
        "%s sends the password or token as it is, and kafka.security.protocol is SASL_PLAINTEXT: whoever can listen on "
        "the way can log in with it. Use SASL_SSL, or SCRAM-SHA-512 where there is no TLS",
        mechanism,
    )


def _warn_unused(given: RawOptions, *specs: OptionSpec, why: str) -> None:
    names = [given.prefix + spec.name for spec in specs if given.has(spec)]
    if names:
        warn_once(logger, "ignored: %s (%s)", ", ".join(names), why)


def _read_callback(given: RawOptions) -> str:
    callback = given.text(TOKEN_CALLBACK)
    if not callback:
        raise given.error(
            SASL_MECHANISM.name,
            f"{OAUTHBEARER} needs a function that gives a token: give its name in "
            f"{TOKEN_CALLBACK.name}, as module:function",
        )
    if not _FUNCTION_NAME.fullmatch(callback):
        raise given.error(TOKEN_CALLBACK.name, f"expected module:function, found {callback!r}")
    return callback


def _mechanism(given: RawOptions) -> str:
    mechanism = given.text(SASL_MECHANISM).upper() or "GSSAPI (Kafka's default)"
    if mechanism not in _LOGIN_MODULES:
        supported = ", ".join(_LOGIN_MODULES)
        raise given.error(SASL_MECHANISM.name, f"{mechanism} is not supported; use one of {supported}")
    return mechanism


def _read_jaas(given: RawOptions, mechanism: str) -> tuple[str, str]:
    # Messages here never quote the text: it holds the password.
    entry = _JAAS_ENTRY.fullmatch(given.text(JAAS_CONFIG))
    module = _LOGIN_MODULES[mechanism]
    if entry is None:
        form = (
            f"{module} required;" if mechanism == OAUTHBEARER else f'{module} required username="..." password="...";'
        )
        raise given.error(JAAS_CONFIG.name, f"cannot be parsed; expected {form!r}")
    if entry[1].rpartition(".")[2] != module:
        raise given.error(JAAS_CONFIG.name, f"names {entry[1]}, but {mechanism} needs {module}")
    login = {name: _unquote(value) for name, value in _JAAS_OPTION.findall(entry[2])}
    if mechanism == OAUTHBEARER and login:
        reason = f"has {', '.join(sorted(login))}: {NO_TOKEN_ENDPOINT}"
        raise given.error(JAAS_CONFIG.name, reason)
    if login.get("tokenauth", "false").lower() == "true":
        raise given.error(JAAS_CONFIG.name, "delegation tokens (tokenauth) are not supported")
    return login.get("username", ""), login.get("password", "")


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL) if value[0] in "\"'" else value
