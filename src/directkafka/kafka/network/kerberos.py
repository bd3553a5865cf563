"""Kerberos tickets for GSSAPI, by the machine's own library: those of a keytab, or of a credential cache.

The tickets got with a keytab are in a cache in this process's memory. The library gets new ones after half their
lifetime. It frees such a cache when the process ends, and not before; so each login has one, and not each connection.

The library asks a KDC for as long as it sees fit, 25 s where it is silent. So a thread asks, and whoever waits for it
gives up in time. Until that thread is done, nobody asks for the same login a second time.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from directkafka.errors import OptionError
from directkafka.kafka.network.kerberos_faults import TicketError, fault_of, is_over
from directkafka.options.security.kerberos import KerberosLogin

_INSTALL: Final = (
    'Run pip install ".[kerberos]" for the driver and for every executor; the package is compiled, which needs a C '
    "compiler and the headers of libkrb5 (on Debian: apt-get install gcc python3-dev libkrb5-dev)"
)
_OLD_LIBRARY: Final = "Install MIT Kerberos (1.11 or later) and then gssapi, which is compiled against it"
#: What a keytab begins with.
_KEYTAB_MARK: Final = b"\x05"

_cache_numbers = itertools.count(1)


def _new_cache() -> str:
    return f"MEMORY:directkafka-{next(_cache_numbers)}"


@dataclass(slots=True)
class _KeptTickets:
    """What this process has for a login.

    Attributes:
        cache: name of the cache in memory.
        asking: is held by the thread that asks.
    """

    cache: str = field(default_factory=_new_cache)
    asking: threading.Lock = field(default_factory=threading.Lock)


_lock = threading.Lock()
_kept: dict[KerberosLogin, _KeptTickets] = {}


@dataclass(frozen=True, slots=True)
class BegunContext:
    """The client's side of a login that has begun.

    Attributes:
        context: gssapi's security context, which takes the broker's answer.
        token: what the broker is sent first.
        principal: who logs in.
    """

    context: Any
    token: bytes = field(repr=False)
    principal: str


class TicketProvider:
    """The source of tickets as a login asks it: at each connection, and before each session's end.

    Args:
        login: whose tickets.
        timeout_s: how long a login may take to get its tickets, in seconds.
    """

    def __init__(self, login: KerberosLogin, timeout_s: float) -> None:
        self._login = login
        self._timeout_s = timeout_s

    def begin(self, host: str) -> BegunContext:
        """Begin a login at a broker.

        Args:
            host: the broker's, as its address has it; krb5.conf says what becomes of it.

        Raises:
            OptionError: the keytab cannot be read.
            TicketError: there is no ticket, for a reason that stays until somebody does something.
            ConnectionError: the KDC does not answer.
        """
        gssapi = _library()
        login = self._login
        if login.keytab is not None:
            _check_keytab(login.keytab, login.setting)
        kept = _tickets_of(login)
        return _in_time(kept.asking, self._timeout_s, lambda: _begin(gssapi, login, kept, host))


def forget_tickets(login: KerberosLogin) -> None:
    """Use a new, empty cache after a broker has refused this login: the broker's key may have changed.

    Args:
        login: whose tickets.
    """
    _tickets_of(login).cache = _new_cache()


def _tickets_of(login: KerberosLogin) -> _KeptTickets:
    with _lock:
        return _kept.setdefault(login, _KeptTickets())


def _library() -> Any:
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise TicketError(f"GSSAPI needs the package gssapi, which cannot be loaded here ({error})", _INSTALL) from None
    return gssapi


def _check_keytab(path: str, setting: str) -> None:
    """Checked here: for the library, a keytab it cannot read is like one without the right key."""
    try:
        with open(path, "rb") as keytab:
            is_one = keytab.read(1) == _KEYTAB_MARK
    except OSError as error:
        reason = f"names the keytab {path}, which cannot be read here ({error.strerror})"
    else:
        if is_one:
            return
        reason = f"names {path}, which is no keytab"
    where = "every machine needs the keytab at this path, readable for the user who runs driver or executor"
    raise OptionError(option=f"kafka.{setting}", reason=f"{reason}; {where}")


def _in_time(asking: threading.Lock, timeout_s: float, ask: Callable[[], BegunContext]) -> BegunContext:
    deadline = time.monotonic() + timeout_s
    late = ConnectionError(f"Kerberos gives no ticket within {timeout_s:g} s: a KDC does not answer")
    if not asking.acquire(timeout=timeout_s):
        raise late
    answer: Future[BegunContext] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            answer.set_exception(error)
        finally:
            asking.release()

    try:
        threading.Thread(target=work, name="directkafka-kerberos", daemon=True).start()
    except RuntimeError:
        asking.release()
        raise
    try:
        return answer.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise late from None


def _begin(gssapi: Any, login: KerberosLogin, kept: _KeptTickets, host: str) -> BegunContext:
    cache = kept.cache
    try:
        return _ask(gssapi, login, cache, host)
    except gssapi.exceptions.GSSError as error:
        if login.keytab is None or not is_over(error):
            raise fault_of(error, login, host) from error
    # The KDC was away when new tickets were due, and the library does not ask again for a while. Of a new cache it asks
    # at once.
    if kept.cache == cache:
        kept.cache = _new_cache()
    try:
        return _ask(gssapi, login, kept.cache, host)
    except gssapi.exceptions.GSSError as error:
        raise fault_of(error, login, host) from error


def _ask(gssapi: Any, login: KerberosLogin, cache: str, host: str) -> BegunContext:
    store = None
    if login.keytab is not None:
        store = {"client_keytab": os.path.abspath(login.keytab), "ccache": cache}
    elif login.ticket_cache is not None:
        store = {"ccache": login.ticket_cache}
    kerberos, name_types = gssapi.MechType.kerberos, gssapi.NameType
    name = gssapi.Name(login.principal, name_types.kerberos_principal) if login.principal else None
    try:
        credentials = gssapi.Credentials(name=name, usage="initiate", mechs=[kerberos], store=store)
    except NotImplementedError as error:
        raise TicketError(
            f"the Kerberos library here takes no keytab and no cache by its name ({error})", _OLD_LIBRARY
        ) from None
    service = gssapi.Name(f"{login.service_name}@{host}", name_types.hostbased_service)
    context = gssapi.SecurityContext(name=service, creds=credentials, usage="initiate", mech=kerberos)
    token = context.step(None) or b""
    return BegunContext(context=context, token=token, principal=str(credentials.name))
