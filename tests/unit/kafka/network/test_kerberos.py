"""Tickets as a login asks for them, from a library that stands in for gssapi; and what its faults become."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import get_sasl_mechanism

from directkafka.errors import BrokerAccessError, BrokerUnreachableError, OptionError
from directkafka.kafka.network import kerberos
from directkafka.kafka.network.auth_errors import connection_failure, rights_needed
from directkafka.kafka.network.connections import connection_settings
from directkafka.kafka.network.kerberos import TicketProvider
from directkafka.kafka.network.kerberos_faults import TicketError
from directkafka.kafka.network.logins import prepare_logins
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.options.client import ClientOptions
from directkafka.options.security.kerberos import KerberosLogin

FAILURE = 13 << 16
CREDENTIALS_EXPIRED, CONTEXT_EXPIRED = 11 << 16, 12 << 16
#: Of krb5.h, as gssapi shows them.
BASE = 2**32 - 1765328384
KDC_UNREACHABLE, TICKET_EXPIRED, NO_FILE = BASE + 156, BASE + 32, BASE + 195


class GssError(Exception):
    """As gssapi's: numbers, and the library's words on them."""

    def __init__(self, major: int, minor: int, words: str = "words of the library") -> None:
        super().__init__(words)
        self.maj_code, self.min_code, self._words = major, minor, words

    def get_all_statuses(self, _: int, is_major: bool) -> list[str]:
        return ["major words" if is_major else self._words]


GssError.__module__ = "gssapi.raw.misc"


class Library(ModuleType):
    """What is used of gssapi; ``asks`` are the stores and services that were asked for."""

    MechType = SimpleNamespace(kerberos="krb5")
    NameType = SimpleNamespace(kerberos_principal="principal", hostbased_service="service")
    exceptions = SimpleNamespace(GSSError=GssError)

    def __init__(self) -> None:
        super().__init__("gssapi")
        self.asks: list[tuple[Any, str]] = []
        self.answer: Callable[[], Any] = lambda: b"first token"
        #: What the context does with the broker's answers.
        self.step: Callable[[bytes], Any] = lambda _: b""

    def Name(self, text: str, kind: str) -> str:  # noqa: N802 - gssapi's own
        return f"{kind} {text}"

    def Credentials(self, *, name: str | None, usage: str, mechs: list[str], store: Any) -> SimpleNamespace:  # noqa: N802
        assert (usage, mechs) == ("initiate", ["krb5"])
        return SimpleNamespace(name=(name or "principal ann@REALM").removeprefix("principal "), store=store)

    def SecurityContext(self, *, name: str, creds: Any, usage: str, mech: str) -> SimpleNamespace:  # noqa: N802
        assert (usage, mech) == ("initiate", "krb5")

        def step(answer: bytes | None) -> Any:
            if answer is not None:
                return self.step(answer)
            self.asks.append((creds.store, name))
            return self.answer()

        return SimpleNamespace(step=step, complete=False)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr(kerberos, "_kept", {})
    made = Library()
    monkeypatch.setitem(sys.modules, "gssapi", made)
    return made


@pytest.fixture
def keytab(tmp_path: Path) -> KerberosLogin:
    (tmp_path / "keytab").write_bytes(b"\x05\x02")
    return login(keytab=str(tmp_path / "keytab"), principal="ann@REALM", setting="sasl.jaas.config")


def login(**fields: Any) -> KerberosLogin:
    return KerberosLogin(service_name="kafka", **fields)


def options(given: KerberosLogin) -> ClientOptions:
    return ClientOptions(
        bootstrap_servers=("b:9092",), security_protocol="SASL_SSL", sasl_mechanism="GSSAPI", sasl_kerberos=given
    )


def mechanism(given: KerberosLogin) -> Any:
    """kafka-python's side of a login, made as it makes it."""
    prepare_logins()
    return get_sasl_mechanism("GSSAPI")(host="b", **connection_settings(options(given)))


def told(error: BaseException, given: KerberosLogin) -> BrokerAccessError | BrokerUnreachableError:
    assert isinstance(error, Exception)
    return connection_failure(error, options(given), ("b:9092",), 500)


def failing(library: Library, major: int, minor: int) -> None:
    def fail() -> None:
        raise GssError(major, minor)

    library.answer = fail


def failure(library: Library, given: KerberosLogin, major: int, minor: int) -> BrokerAccessError:
    failing(library, major, minor)
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        mechanism(given)
    error = told(caught.value, given)
    assert isinstance(error, BrokerAccessError)
    return error


def test_tickets_of_a_keytab_lie_in_one_cache_in_memory_for_each_login(
    library: Library, keytab: KerberosLogin, tmp_path: Path
) -> None:
    other = login(keytab=keytab.keytab, principal="eve@REALM")
    begun = [TicketProvider(kerberos_login, 1.0).begin("b") for kerberos_login in (keytab, keytab, other)]
    assert [(context.token, context.principal) for context in begun[1:]] == [
        (b"first token", "ann@REALM"),
        (b"first token", "eve@REALM"),
    ]
    stores, services = zip(*library.asks, strict=True)
    assert set(services) == {"service kafka@b"}
    assert {store["client_keytab"] for store in stores} == {str(tmp_path / "keytab")}
    caches = [store["ccache"] for store in stores]
    assert caches[0] == caches[1] != caches[2]
    assert all(cache.startswith("MEMORY:") for cache in caches)
    assert "first token" not in repr(begun)


def test_tickets_of_a_cache_are_the_environment_s_or_those_of_the_one_that_is_named(library: Library) -> None:
    for given in (login(), login(ticket_cache="/tmp/tickets")):
        TicketProvider(given, 1.0).begin("b")
    assert [store for store, _ in library.asks] == [None, {"ccache": "/tmp/tickets"}]


def test_after_a_broker_s_refusal_tickets_are_fetched_anew(library: Library, keytab: KerberosLogin) -> None:
    TicketProvider(keytab, 1.0).begin("b")
    error = told(SaslAuthenticationFailedError("no"), keytab)
    TicketProvider(keytab, 1.0).begin("b")
    first, second = (store["ccache"] for store, _ in library.asks)
    assert first != second
    assert "it refused the login of the principal ann@REALM by GSSAPI (no)" in str(error)
    assert "kafka.sasl.kerberos.service.name" in str(error)


@pytest.mark.parametrize(("major", "minor"), [(CREDENTIALS_EXPIRED, 100001), (FAILURE, TICKET_EXPIRED)])
def test_a_ticket_of_a_keytab_that_is_over_is_fetched_anew_at_once(
    library: Library, keytab: KerberosLogin, major: int, minor: int
) -> None:
    answers = iter([GssError(major, minor), b"token"])

    def answer() -> Any:
        next_answer = next(answers)
        if isinstance(next_answer, Exception):
            raise next_answer
        return next_answer

    library.answer = answer
    assert TicketProvider(keytab, 1.0).begin("b").token == b"token"
    first, second = (store["ccache"] for store, _ in library.asks)
    assert first != second


def test_where_a_ticket_is_over_and_the_kdc_is_away_the_kdc_is_told_of(library: Library, keytab: KerberosLogin) -> None:
    faults = iter([GssError(CREDENTIALS_EXPIRED, 100001), GssError(FAILURE, KDC_UNREACHABLE)])

    def answer() -> None:
        raise next(faults)

    library.answer = answer
    with pytest.raises(ConnectionError, match="KDC does not answer: words of the library"):
        mechanism(keytab)


def test_a_library_that_does_not_come_back_is_not_asked_again_meanwhile(
    library: Library, keytab: KerberosLogin
) -> None:
    come_back = threading.Event()

    def answer() -> bytes:
        assert come_back.wait(60)
        return b"late"

    library.answer = answer
    for _ in range(3):
        with pytest.raises(ConnectionError, match=r"no ticket within 0\.05 s"):
            TicketProvider(keytab, 0.05).begin("b")
    assert len(library.asks) == 1
    assert isinstance(told(ConnectionError("late"), keytab), BrokerUnreachableError)
    come_back.set()
    assert TicketProvider(keytab, 60.0).begin("b").token == b"late"


def test_another_login_does_not_wait_for_the_one_that_is_being_asked_for(
    library: Library, keytab: KerberosLogin
) -> None:
    come_back = threading.Event()
    library.answer = lambda: come_back.wait(60) and b""
    with pytest.raises(ConnectionError):
        TicketProvider(keytab, 0.05).begin("b")
    library.answer = lambda: b"token"
    assert TicketProvider(login(), 60.0).begin("b").token == b"token"
    come_back.set()


@pytest.mark.parametrize(
    ("number", "cause", "remedy"),
    [
        (NO_FILE, "the keytab {keytab} has no key of ann@REALM", "klist -k"),
        (BASE + 6, "the KDC does not know ann@REALM", "kafka.sasl.jaas.config"),
        (BASE + 7, "the KDC knows no service 'kafka' on host b", "kafka.sasl.kerberos.service.name"),
        (BASE + 24, "the key of ann@REALM in the keytab {keytab} is not the KDC's", "ktadd"),
        (BASE + 31, "the key of ann@REALM in the keytab {keytab} is not the KDC's", "ktadd"),
        (BASE + 37, "the KDC has another time than this machine", "clocks"),
        (BASE + 154, "Kerberos is not set up here", "/etc/krb5.conf"),
        (BASE + 224, "Kerberos is not set up here", "KRB5_CONFIG"),
        (BASE + 18, "Kerberos gives no ticket for kafka/b (words of the library)", "kvno kafka/b"),
        (0, "Kerberos gives no ticket for kafka/b (major words)", "kvno kafka/b"),
    ],
)
def test_a_fault_with_a_keytab_is_told_with_what_to_do(
    library: Library, keytab: KerberosLogin, number: int, cause: str, remedy: str
) -> None:
    error = failure(library, keytab, FAILURE, number)
    assert cause.format(keytab=keytab.keytab) in error.cause
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("major", "number", "cause", "remedy"),
    [
        (FAILURE, NO_FILE, "there is no ticket in /tmp/tickets", "Run kinit on the driver and on every executor"),
        (FAILURE, BASE + 141, "there is no ticket in /tmp/tickets", "Run kinit"),
        (FAILURE, 39756044, "there is no ticket in /tmp/tickets", "Run kinit"),
        (FAILURE, 39756032, "the ticket in /tmp/tickets is not one of ann@REALM", "for this principal"),
        (FAILURE, TICKET_EXPIRED, "the ticket in /tmp/tickets is over", "or give a keytab"),
        (CREDENTIALS_EXPIRED, 100001, "the ticket in /tmp/tickets is over", "Run kinit"),
    ],
)
def test_a_fault_with_a_cache_is_told_with_what_to_do(
    library: Library, major: int, number: int, cause: str, remedy: str
) -> None:
    given = login(principal="ann@REALM", ticket_cache="/tmp/tickets", setting="sasl.jaas.config")
    error = failure(library, given, major, number)
    assert cause in error.cause
    assert remedy in error.remedy


@pytest.mark.parametrize("variable", ["/tmp/of-the-environment", None])
def test_the_environment_s_cache_is_named(
    library: Library, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    monkeypatch.delenv("KRB5CCNAME", raising=False)
    if variable:
        monkeypatch.setenv("KRB5CCNAME", variable)
    error = failure(library, login(), FAILURE, NO_FILE)
    assert f"there is no ticket in {variable or 'the default credential cache'}" in error.cause


@pytest.mark.parametrize("number", [KDC_UNREACHABLE, BASE + 220, BASE + 29])
def test_a_kdc_that_is_away_may_be_back_later(library: Library, keytab: KerberosLogin, number: int) -> None:
    failing(library, FAILURE, number)
    with pytest.raises(ConnectionError) as caught:
        mechanism(keytab)
    error = told(caught.value, keytab)
    assert isinstance(error, BrokerUnreachableError)
    assert "Kerberos's KDC does not answer: words of the library" in str(error)


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), (b"no keytab", "which is no keytab")])
@pytest.mark.usefixtures("library")
def test_a_keytab_that_is_none_is_told_by_its_setting(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "keytab"
    if content is not None:
        path.write_bytes(content)
    for setting in ("sasl.kerberos.keytab", "sasl.jaas.config"):
        with pytest.raises(OptionError, match=reason) as caught:
            mechanism(login(keytab=str(path), principal="ann", setting=setting))
        assert caught.value.option == f"kafka.{setting}"
        assert "every machine needs the keytab at this path" in caught.value.reason


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(TicketError) as caught:
        TicketProvider(login(), 1.0).begin("b")
    with pytest.raises(SaslAuthenticationFailedError) as of_login:
        mechanism(login())
    error = told(of_login.value, login())
    assert isinstance(error, BrokerAccessError)
    assert (error.cause, error.remedy) == (caught.value.cause, caught.value.remedy)
    assert "GSSAPI needs the package gssapi" in error.cause
    for word in ('pip install ".[kerberos]"', "every executor", "C compiler", "libkrb5"):
        assert word in error.remedy


def test_a_library_that_takes_no_keytab_is_told(library: Library, keytab: KerberosLogin) -> None:
    def credentials(**_: Any) -> None:
        raise NotImplementedError("no support for credential stores")

    library.Credentials = credentials  # type: ignore[assignment,method-assign]
    with pytest.raises(TicketError, match="takes no keytab") as caught:
        TicketProvider(keytab, 1.0).begin("b")
    assert "MIT Kerberos" in caught.value.remedy


# Behind the first token.


def test_a_broker_that_cannot_prove_who_it_is_is_told(library: Library, keytab: KerberosLogin) -> None:
    def forged(_: bytes) -> None:
        raise GssError(FAILURE, BASE + 41)

    library.step = forged
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        mechanism(keytab).receive(b"answer")
    error = told(caught.value, keytab)
    assert "it could not prove who it is: words of the library" in str(error)
    assert "kafka.sasl.kerberos.service.name" in str(error)


def test_an_answer_that_is_none_of_gssapi_s_is_told(library: Library, keytab: KerberosLogin) -> None:
    broken = mechanism(keytab)
    broken._client_ctx.complete = True
    broken._client_ctx.unwrap = lambda _: SimpleNamespace(message=b"")
    with pytest.raises(SaslAuthenticationFailedError, match="none of GSSAPI's"):
        broken.receive(b"")


def test_a_ticket_that_ends_during_the_login_is_no_refusal(library: Library, keytab: KerberosLogin) -> None:
    def late(_: bytes) -> None:
        raise GssError(CONTEXT_EXPIRED, 100001)

    library.step = late
    with pytest.raises(ConnectionError, match="over during the login"):
        mechanism(keytab).receive(b"answer")


def test_an_error_that_is_not_the_library_s_is_not_taken_for_the_broker_s(
    library: Library, keytab: KerberosLogin
) -> None:
    def bug(_: bytes) -> None:
        raise AttributeError("a bug")

    library.step = bug
    with pytest.raises(AttributeError):
        mechanism(keytab).receive(b"answer")


def test_a_whole_login_says_who_logs_in_and_asks_for_no_protection_of_what_follows(
    library: Library, keytab: KerberosLogin
) -> None:
    whole = mechanism(keytab)
    context = whole._client_ctx
    wrapped: list[bytes] = []
    context.unwrap = lambda _: SimpleNamespace(message=b"\x07\x00\x01\x00")
    context.wrap = lambda message, _: wrapped.append(message) or SimpleNamespace(message=b"wrapped")
    assert whole.auth_bytes() == b"first token"
    whole.receive(b"answer")
    context.complete = True
    assert whole.auth_bytes() == b""
    whole.receive(b"layers")
    assert (whole.auth_bytes(), wrapped) == (b"wrapped", [b"\x01\x00\x01\x00ann@REALM"])
    assert whole.is_done()
    assert whole.is_authenticated()
    assert whole.auth_details() == "Authenticated as ann@REALM via SASL / GSSAPI"


def test_rights_are_those_of_the_principal() -> None:
    for given, who in ((login(principal="ann@REALM"), "ann@REALM"), (login(), "of the credential cache")):
        assert f"Give the principal {who} the rights" in str(
            rights_needed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, options(given))
        )
