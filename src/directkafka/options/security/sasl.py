"""SASL settings, understood as Kafka's Java clients write them, and as librdkafka does."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from directkafka.options.security.kerberos import KERBEROS_SPECS, SERVICE_NAME, read_kerberos
from directkafka.options.security.oauthbearer import TOKEN_SPECS, read_token_source
from directkafka.options.spec import OptionSpec, RawOptions, Secret, warn_unused
from directkafka.told_once import warn_once

logger = logging.getLogger("directkafka.options")

OAUTHBEARER: Final = "OAUTHBEARER"
AWS_MSK_IAM: Final = "AWS_MSK_IAM"
GSSAPI: Final = "GSSAPI"
_LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
    AWS_MSK_IAM: "IAMLoginModule",
    GSSAPI: "Krb5LoginModule",
}

SASL_MECHANISM: Final = OptionSpec(
    name="sasl.mechanism",
    kind="choice",
    choices=tuple(_LOGIN_MODULES),
    aliases=("sasl.mechanisms",),
    doc="How to log in. Required with SASL; Kafka's default, GSSAPI, counts where a setting of Kerberos or its "
    "Krb5LoginModule is given.",
)
JAAS_CONFIG: Final = OptionSpec(
    name="sasl.jaas.config",
    kind="secret",
    doc='The login as Java writes it, \'MODULE required username="..." password="...";\', where MODULE is '
    "Java's PlainLoginModule or ScramLoginModule with its package; OAuthBearerLoginModule may have clientId, "
    "clientSecret, scope and extension_NAME, Amazon's IAMLoginModule awsProfileName, Krb5LoginModule useKeyTab, "
    "keyTab, principal, useTicketCache, ticketCache and serviceName.",
)
SASL_USERNAME: Final = OptionSpec(
    name="sasl.username", kind="text", doc="The login's name (librdkafka's way, without JAAS)."
)
SASL_PASSWORD: Final = OptionSpec(
    name="sasl.password",
    kind="secret",
    doc="The login's password (librdkafka's way, without JAAS).",
)

SASL_SPECS: Final = (SASL_MECHANISM, JAAS_CONFIG, SASL_USERNAME, SASL_PASSWORD, *TOKEN_SPECS, *KERBEROS_SPECS)

_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_AWS_PROFILE: Final = "awsProfileName"
#: What an entry says behind its module, for messages.
_LOGIN_FORMS: Final = {
    **dict.fromkeys(_WITH_PASSWORD, ' username="..." password="..."'),
    GSSAPI: ' useKeyTab=true keyTab="..." principal="..." serviceName="kafka"',
}

#: These send what logs in over the wire; SCRAM proves only that it knows the password.
OPEN_MECHANISMS: Final = ("PLAIN", OAUTHBEARER)

#: ``name=value`` of a JAAS entry: Java quotes with either mark and escapes with a backslash.
_JAAS_OPTION = re.compile(r"""([\w.]+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+)""", re.DOTALL)
_JAAS_ENTRY = re.compile(rf"\s*([\w.$]+)\s+required((?:\s+{_JAAS_OPTION.pattern})*)\s*;\s*", re.DOTALL | re.IGNORECASE)


def read_sasl(given: RawOptions, *, protocol: str) -> dict[str, Any]:
    """The ``sasl_`` fields of ``ClientOptions``.

    Args:
        given: the settings.
        protocol: ``SASL_SSL`` or ``SASL_PLAINTEXT``.

    Raises:
        OptionError: no mechanism, one that is not supported, or nothing to log in with.
    """
    mechanism = _mechanism(given)
    login = _read_jaas(given, mechanism) if given.text(JAAS_CONFIG) else {}
    if mechanism != GSSAPI:
        warn_unused(given, *KERBEROS_SPECS, why=f"{mechanism} has no ticket")
    if mechanism == OAUTHBEARER:
        warn_unused(given, SASL_USERNAME, SASL_PASSWORD, why=f"{OAUTHBEARER} has a token in their place")
        return {"sasl_mechanism": mechanism, **read_token_source(given, login, JAAS_CONFIG)}
    warn_unused(given, *TOKEN_SPECS, why=f"{mechanism} has no token")
    if mechanism == GSSAPI:
        warn_unused(given, SASL_USERNAME, SASL_PASSWORD, why=f"{GSSAPI} has a ticket in their place")
        return {"sasl_mechanism": mechanism, "sasl_kerberos": read_kerberos(given, login, JAAS_CONFIG)}
    if mechanism == AWS_MSK_IAM:
        warn_unused(given, SASL_USERNAME, SASL_PASSWORD, why=f"{AWS_MSK_IAM} uses the credentials of AWS")
        if protocol != "SASL_SSL":
            raise given.error("security.protocol", f"{AWS_MSK_IAM} needs SASL_SSL")
        return {"sasl_mechanism": mechanism, "sasl_aws_profile": _read_profile(given, login)}
    if login:
        warn_unused(given, SASL_USERNAME, SASL_PASSWORD, why=f"the login is in {JAAS_CONFIG.name}")
    else:
        login = {"username": given.text(SASL_USERNAME), "password": given.text(SASL_PASSWORD)}
    username, password = login.get("username"), login.get("password")
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


def _read_profile(given: RawOptions, login: Mapping[str, str]) -> str | None:
    others = [name for name in login if name not in (_AWS_PROFILE, "awsDebugCreds")]
    if others:
        reason = (
            f"has {', '.join(sorted(others))}; write them into a profile of ~/.aws/config (role_arn, source_profile, "
            f"...) and name it here with {_AWS_PROFILE}"
        )
        raise given.error(JAAS_CONFIG.name, reason)
    return login.get(_AWS_PROFILE) or None


def _mechanism(given: RawOptions) -> str:
    mechanism = given.text(SASL_MECHANISM).upper()
    if not mechanism and _is_kerberos(given):
        return GSSAPI
    if mechanism not in _LOGIN_MODULES:
        supported = ", ".join(_LOGIN_MODULES)
        reason = f"{mechanism} is not supported; use one of {supported}"
        if not mechanism:
            reason = (
                f"is required with SASL: one of {supported}. Kafka's default, GSSAPI, counts where "
                f"{SERVICE_NAME.name} or a Krb5LoginModule is given"
            )
        raise given.error(SASL_MECHANISM.name, reason)
    return mechanism


def _is_kerberos(given: RawOptions) -> bool:
    """Whether the other settings are of Kerberos: then Kafka's default mechanism is meant, and may be left out."""
    if entry := _JAAS_ENTRY.fullmatch(given.text(JAAS_CONFIG)):
        return entry[1].rpartition(".")[2] == _LOGIN_MODULES[GSSAPI]
    return any(given.text(spec) for spec in KERBEROS_SPECS)


def _read_jaas(given: RawOptions, mechanism: str) -> dict[str, str]:
    """The settings of the login, by Java's names."""
    # Messages here never quote the text: it holds the password.
    entry = _JAAS_ENTRY.fullmatch(given.text(JAAS_CONFIG))
    module = _LOGIN_MODULES[mechanism]
    if entry is None:
        form = f"{module} required{_LOGIN_FORMS.get(mechanism, '')};"
        raise given.error(JAAS_CONFIG.name, f"cannot be parsed; expected {form!r}")
    # Amazon's identity is also taken by Java's OAUTHBEARER, whose entry says the same.
    modules = (module, _LOGIN_MODULES[OAUTHBEARER]) if mechanism == AWS_MSK_IAM else (module,)
    if entry[1].rpartition(".")[2] not in modules:
        raise given.error(JAAS_CONFIG.name, f"names {entry[1]}, but {mechanism} needs {module}")
    login = {name: _unquote(value) for name, value in _JAAS_OPTION.findall(entry[2])}
    if login.get("tokenauth", "false").lower() == "true":
        raise given.error(JAAS_CONFIG.name, "delegation tokens (tokenauth) are not supported")
    # So that an entry that says nothing is still one that was given.
    return {"username": "", "password": "", **login} if mechanism in _WITH_PASSWORD else login


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL) if value[0] in "\"'" else value
