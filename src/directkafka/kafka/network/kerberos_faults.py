"""Faults of Kerberos: what the library's number says of a ticket that is not to be had, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from directkafka.options.security.kerberos import PRINCIPAL, SERVICE_NAME, KerberosLogin

#: What the library's own numbers (``krb5.h``) are counted from.
_BASE: Final = -1765328384
#: GSS_S_CREDENTIALS_EXPIRED and GSS_S_CONTEXT_EXPIRED (RFC 2744, section 3.9.1).
_EXPIRED: Final = (11 << 16, 12 << 16)


class _Fault(IntEnum):
    """Numbers of ``krb5.h``, and two of the library's GSSAPI, without their first parts."""

    CLIENT_UNKNOWN = _BASE + 6
    SERVER_UNKNOWN = _BASE + 7
    PREAUTH_FAILED = _BASE + 24
    SERVICE_UNAVAILABLE = _BASE + 29
    BAD_INTEGRITY = _BASE + 31
    TICKET_EXPIRED = _BASE + 32
    SKEW = _BASE + 37
    CONFIG_CANTOPEN = _BASE + 135
    CONFIG_BADFORMAT = _BASE + 136
    CACHE_NOTFOUND = _BASE + 141
    REPLY_SKEW = _BASE + 148
    REALM_UNKNOWN = _BASE + 154
    KDC_UNREACHABLE = _BASE + 156
    KEYTAB_NOTFOUND = _BASE + 181
    CACHE_NOFILE = _BASE + 195
    REALM_CANT_RESOLVE = _BASE + 220
    CONFIG_NO_DEFAULT_REALM = _BASE + 224
    CACHE_NO_MATCH = 39756032
    CACHE_EMPTY = 39756044


_MAY_PASS: Final = (_Fault.KDC_UNREACHABLE, _Fault.REALM_CANT_RESOLVE, _Fault.SERVICE_UNAVAILABLE)
_NO_TICKET: Final = (_Fault.CACHE_NOTFOUND, _Fault.CACHE_NOFILE, _Fault.CACHE_EMPTY, _Fault.KEYTAB_NOTFOUND)
_OTHER_KEY: Final = (_Fault.PREAUTH_FAILED, _Fault.BAD_INTEGRITY)
_CONFIG: Final = (
    *(_Fault.CONFIG_CANTOPEN, _Fault.CONFIG_BADFORMAT, _Fault.CONFIG_NO_DEFAULT_REALM),
    _Fault.REALM_UNKNOWN,
)
_SKEW: Final = (_Fault.SKEW, _Fault.REPLY_SKEW)

_KINIT: Final = "Run kinit on the driver and on every executor, as the user who runs them"


class TicketError(Exception):
    """There is no ticket for a broker, for a reason that stays until somebody does something.

    Args:
        cause: what happened.
        remedy: what to do.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


def is_over(error: Any) -> bool:
    """Whether the ticket's time is over.

    Args:
        error: gssapi's.
    """
    return error.maj_code in _EXPIRED or _number(error) == _Fault.TICKET_EXPIRED


def fault_of(error: Any, login: KerberosLogin, host: str) -> TicketError | ConnectionError:
    """The error to raise for one of the library's. Its words name principals, realms and files; none is a secret.

    Args:
        error: gssapi's, with ``maj_code`` and ``min_code``.
        login: whose ticket was asked for.
        host: of the broker.
    """
    words, number = _words(error), _number(error)
    if number in _MAY_PASS:
        return ConnectionError(f"Kerberos's KDC does not answer: {words}")
    if number in _CONFIG:
        return TicketError(
            f"Kerberos is not set up here ({words})",
            "Name the realm and its KDC in /etc/krb5.conf, or in the file that KRB5_CONFIG names, on the driver and on "
            "every executor",
        )
    if number in _SKEW:
        return TicketError(f"the KDC has another time than this machine ({words})", "Set the clocks of both")
    if number == _Fault.SERVER_UNKNOWN:
        return _unknown_service(words, login, host)
    explain = _of_cache if login.keytab is None else _of_keytab
    fault = explain(error, login, words)
    if fault is not None:
        return fault
    service = f"{login.service_name}/{host}"
    return TicketError(
        f"Kerberos gives no ticket for {service} ({words})",
        f"See what kinit and then kvno {service} say on this machine, and the KDC's log",
    )


def _unknown_service(words: str, login: KerberosLogin, host: str) -> TicketError:
    return TicketError(
        f"the KDC knows no service {login.service_name!r} on host {host} ({words})",
        f"Compare kafka.{SERVICE_NAME.name} and the host with the broker's principal, SERVICE/HOST@REALM; krb5.conf "
        "says which name and which realm a host has (dns_canonicalize_hostname, rdns, domain_realm)",
    )


def _of_keytab(error: Any, login: KerberosLogin, words: str) -> TicketError | None:
    number, keytab, principal = _number(error), login.keytab, login.principal
    if number in _NO_TICKET:
        return TicketError(
            f"the keytab {keytab} has no key of {principal}",
            f"Correct the principal, its realm too, in kafka.{_principal_option(login)}; klist -k shows whose keys "
            "the keytab has",
        )
    if number == _Fault.CLIENT_UNKNOWN:
        return TicketError(
            f"the KDC does not know {principal} ({words})",
            f"Correct the principal, its realm too, in kafka.{_principal_option(login)}, or add it to the KDC",
        )
    if number in _OTHER_KEY:
        return TicketError(
            f"the key of {principal} in the keytab {keytab} is not the KDC's ({words})",
            "Make the keytab anew (kadmin's ktadd): a new key or a new password makes an older keytab useless",
        )
    return None


def _of_cache(error: Any, login: KerberosLogin, words: str) -> TicketError | None:
    number, cache = _number(error), login.ticket_cache or os.environ.get("KRB5CCNAME") or "the default credential cache"
    if is_over(error):
        remedy = f"{_KINIT}, or give a keytab, whose tickets are renewed by themselves"
        return TicketError(f"the ticket in {cache} is over", remedy)
    if number in _NO_TICKET:
        return TicketError(f"there is no ticket in {cache} ({words})", f"{_KINIT}, or give a keytab and a principal")
    if number == _Fault.CACHE_NO_MATCH:
        return TicketError(
            f"the ticket in {cache} is not one of {login.principal}",
            f"{_KINIT}, for this principal, or correct it in kafka.{_principal_option(login)}",
        )
    return None


def _principal_option(login: KerberosLogin) -> str:
    """The option in which the principal stands."""
    return login.setting if login.setting.endswith("jaas.config") else PRINCIPAL.name


def _number(error: Any) -> int:
    """The library's number, which gssapi shows without its sign."""
    number = int(error.min_code)
    return number - 2**32 if number >= 2**31 else number


def _words(error: Any) -> str:
    """The library's own words on it."""
    statuses: Callable[[int, bool], list[str]] = error.get_all_statuses
    is_told_by_number = error.min_code and error.maj_code not in _EXPIRED
    return " ".join(statuses(error.min_code, False) if is_told_by_number else statuses(error.maj_code, True))
