"""Settings of GSSAPI (Kerberos): whose ticket logs in, and to which service, as Java and librdkafka write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from directkafka.options.spec import OptionSpec, RawOptions, warn_unused

SERVICE_NAME: Final = OptionSpec(
    name="sasl.kerberos.service.name",
    kind="text",
    doc="The first part of the brokers' principals, usually kafka; also serviceName in sasl.jaas.config. One of the "
    "two is required with GSSAPI.",
)
PRINCIPAL: Final = OptionSpec(
    name="sasl.kerberos.principal",
    kind="text",
    doc="The client's principal, NAME@REALM (librdkafka's name, without JAAS); required with a keytab.",
)
KEYTAB: Final = OptionSpec(
    name="sasl.kerberos.keytab",
    kind="text",
    doc="File with the principal's keys (librdkafka's name, without JAAS). The driver and every executor need it at "
    "the same path. Without one, tickets are those of the environment: KRB5CCNAME, kinit.",
)

KERBEROS_SPECS: Final = (SERVICE_NAME, PRINCIPAL, KEYTAB)

#: Options of a JAAS entry that have an effect.
_USED: Final = ("useKeyTab", "keyTab", "principal", "useTicketCache", "ticketCache", "serviceName")
#: What else Java's module knows: how Java keeps a key or renews a ticket, whom it asks for a password, what it logs.
_IGNORED: Final = frozenset(
    {"storeKey", "debug", "doNotPrompt", "refreshKrb5Config", "renewTGT", "isInitiator"}
    | {"useFirstPass", "tryFirstPass", "storePass", "clearPass"}
)
_OF_PASSWORDS: Final = frozenset({"username", "password"})
_INSTEAD: Final = (
    'give useKeyTab=true keyTab="/path" principal="NAME@REALM" (kadmin\'s ktadd makes a keytab), or '
    "useTicketCache=true and run kinit"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Whose ticket logs in, and to which service.

    Attributes:
        service_name: the first part of the brokers' principals.
        principal: the client's; None for that of the credential cache.
        keytab: the file with its keys; None for tickets of a credential cache.
        ticket_cache: the credential cache; None for the environment's.
        setting: name of the option that gives the keytab or the cache, without ``kafka.``, for messages.
    """

    service_name: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    setting: str = SERVICE_NAME.name


def read_kerberos(given: RawOptions, login: Mapping[str, str], jaas: OptionSpec) -> KerberosLogin:
    """Whose ticket logs in.

    Args:
        given: the settings.
        login: those of the JAAS entry.
        jaas: the option that has the entry.

    Raises:
        OptionError: there is no name of the service, or two; the entry asks for a password, has an option that is
            not known, or one of two that belong together.
    """
    if given.text(jaas):
        warn_unused(given, PRINCIPAL, KEYTAB, why=f"the login is in {jaas.name}")
        _check_entry(given, login, jaas)
        keytab, ticket_cache = login.get("keyTab", ""), login.get("ticketCache", "")
        principal, setting = login.get("principal", ""), jaas.name
    else:
        keytab, ticket_cache, principal = given.text(KEYTAB), "", given.text(PRINCIPAL)
        setting = KEYTAB.name if keytab else SERVICE_NAME.name
        if keytab and not principal:
            raise given.error(PRINCIPAL.name, f"is required with {KEYTAB.name}: NAME@REALM, whose keys are in the file")
    return KerberosLogin(
        service_name=_read_service_name(given, login, jaas),
        principal=principal or None,
        keytab=keytab.removeprefix("FILE:") or None,
        # With a keytab the cache is not needed: tickets are had anew from it.
        ticket_cache=None if keytab else ticket_cache or None,
        setting=setting,
    )


def _check_entry(given: RawOptions, login: Mapping[str, str], jaas: OptionSpec) -> None:
    """Refuse what Java would refuse, or ask a person for."""
    if _OF_PASSWORDS & login.keys():
        raise given.error(jaas.name, f"has a name and a password, which GSSAPI has no use for: {_INSTEAD}")
    unknown = sorted(login.keys() - _IGNORED - set(_USED))
    if unknown:
        raise given.error(jaas.name, f"has {', '.join(unknown)}; known are {', '.join(_USED)}")
    uses = {name: login.get(name, "").lower() == "true" for name in ("useKeyTab", "useTicketCache")}
    for use, name in (("useKeyTab", "keyTab"), ("useTicketCache", "ticketCache")):
        if login.get(name) and not uses[use]:
            raise given.error(jaas.name, f"has {name}, which needs {use}=true beside it")
    if not any(uses.values()):
        reason = (
            f"says neither useKeyTab=true nor useTicketCache=true, and nobody is asked for a password here: {_INSTEAD}"
        )
        raise given.error(jaas.name, reason)
    if uses["useKeyTab"] and not (login.get("keyTab") and login.get("principal")):
        raise given.error(jaas.name, 'has useKeyTab=true, which needs keyTab="/path" and principal="NAME@REALM"')


def _read_service_name(given: RawOptions, login: Mapping[str, str], jaas: OptionSpec) -> str:
    in_entry, of_setting = login.get("serviceName", ""), given.text(SERVICE_NAME)
    if in_entry and of_setting and in_entry != of_setting:
        reason = f"is {of_setting!r}, but serviceName in {jaas.name} is {in_entry!r}: keep one of them"
        raise given.error(SERVICE_NAME.name, reason)
    name = in_entry or of_setting
    if not name:
        reason = (
            "is required with GSSAPI (or serviceName in sasl.jaas.config): the first part of the brokers' principals, "
        )
        raise given.error(SERVICE_NAME.name, f"{reason}usually kafka")
    if "/" in name or "@" in name:
        where = SERVICE_NAME.name if of_setting else jaas.name
        raise given.error(where, f"expected the first part of the brokers' principals alone, found {name!r}")
    return name
