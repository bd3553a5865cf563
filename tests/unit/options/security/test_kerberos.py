"""Settings of GSSAPI: what an entry of JAAS, and librdkafka's names, say of the ticket."""

from __future__ import annotations

import pickle

import pytest

from directkafka.errors import OptionError
from directkafka.options.client import ClientOptions
from directkafka.options.security.kerberos import KerberosLogin

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE = {"sasl.kerberos.service.name": "kafka"}
ANN = 'useKeyTab=true keyTab="/etc/ann.keytab" principal="ann@REALM"'
OF_KEYTAB = KerberosLogin(
    service_name="kafka", principal="ann@REALM", keytab="/etc/ann.keytab", setting="sasl.jaas.config"
)


def parse(params: dict[str, str], *, mechanism: str | None = "GSSAPI") -> ClientOptions:
    named = {} if mechanism is None else {"sasl.mechanism": mechanism}
    return ClientOptions.from_kafka_params(
        {"bootstrap.servers": "b:9092", "security.protocol": "SASL_PLAINTEXT", **named, **params}
    )


def entry(options: str, module: str = MODULE) -> dict[str, str]:
    return {"sasl.jaas.config": f"{module} required {options};"}


def refused(params: dict[str, str]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse(params)
    return caught.value


@pytest.mark.parametrize(
    "options",
    [
        f'{ANN} serviceName="kafka"',
        f"{ANN} serviceName=kafka storeKey=true debug=false doNotPrompt=true refreshKrb5Config=true isInitiator=true",
        f"{ANN} serviceName='kafka' useTicketCache=false renewTGT=false",
        'useKeyTab="TRUE" keyTab="FILE:/etc/ann.keytab" principal=ann@REALM serviceName="kafka"',
    ],
)
def test_an_entry_with_a_keytab_is_understood_as_java_writes_it(options: str, caplog: pytest.LogCaptureFixture) -> None:
    parsed = parse(entry(options))
    assert (parsed.sasl_mechanism, parsed.sasl_kerberos) == ("GSSAPI", OF_KEYTAB)
    assert not caplog.messages


def test_the_service_s_name_may_stand_in_the_setting_the_entry_or_both() -> None:
    assert parse({**SERVICE, **entry(ANN)}).sasl_kerberos == OF_KEYTAB
    assert parse({**SERVICE, **entry(f'{ANN} serviceName="kafka"')}).sasl_kerberos == OF_KEYTAB


@pytest.mark.parametrize(
    ("options", "principal", "cache"),
    [
        ("useTicketCache=true", None, None),
        ('useTicketCache=true principal="ann@REALM"', "ann@REALM", None),
        ('useTicketCache=true ticketCache="/tmp/krb5cc_7" renewTGT=true', None, "/tmp/krb5cc_7"),
    ],
)
def test_an_entry_may_name_a_credential_cache(options: str, principal: str | None, cache: str | None) -> None:
    login = KerberosLogin(service_name="kafka", principal=principal, ticket_cache=cache, setting="sasl.jaas.config")
    assert parse({**SERVICE, **entry(options)}).sasl_kerberos == login


def test_a_keytab_comes_before_a_cache() -> None:
    options = f'{ANN} useTicketCache=true ticketCache="/tmp/krb5cc_7"'
    assert parse({**SERVICE, **entry(options)}).sasl_kerberos == OF_KEYTAB


def test_librdkafkas_names_are_understood_and_nothing_but_the_service_is_needed() -> None:
    assert parse(SERVICE).sasl_kerberos == KerberosLogin(service_name="kafka")
    given = {**SERVICE, "sasl.kerberos.principal": "ann@REALM", "sasl.kerberos.keytab": "/etc/ann.keytab"}
    assert parse(given).sasl_kerberos == KerberosLogin(
        service_name="kafka", principal="ann@REALM", keytab="/etc/ann.keytab", setting="sasl.kerberos.keytab"
    )


@pytest.mark.parametrize(
    "params", [SERVICE, entry(f"{ANN} serviceName=kafka"), {**SERVICE, "sasl.kerberos.principal": "ann@REALM"}]
)
def test_kafka_s_default_mechanism_may_be_left_out_where_the_other_settings_are_of_kerberos(
    params: dict[str, str],
) -> None:
    assert parse(params, mechanism=None) == parse(params)
    assert parse(params, mechanism="gssapi") == parse(params)


@pytest.mark.parametrize(
    ("params", "option", "reason"),
    [
        ({}, "sasl.kerberos.service.name", "is required with GSSAPI (or serviceName in sasl.jaas.config)"),
        (entry(ANN), "sasl.kerberos.service.name", "usually kafka"),
        (
            {**SERVICE, **entry(f"{ANN} serviceName=brokers")},
            "sasl.kerberos.service.name",
            "is 'kafka', but serviceName in sasl.jaas.config is 'brokers': keep one of them",
        ),
        ({"sasl.kerberos.service.name": "kafka/b@R"}, "sasl.kerberos.service.name", "found 'kafka/b@R'"),
        (entry(f"{ANN} serviceName=kafka/b"), "sasl.jaas.config", "found 'kafka/b'"),
        ({**SERVICE, "sasl.kerberos.keytab": "/k"}, "sasl.kerberos.principal", "required with sasl.kerberos.keytab"),
        ({**SERVICE, **entry("useKeyTab=true keyTab=/k")}, "sasl.jaas.config", "which needs keyTab="),
        ({**SERVICE, **entry("useKeyTab=true principal=ann")}, "sasl.jaas.config", "which needs keyTab="),
        ({**SERVICE, **entry("keyTab=/k principal=ann")}, "sasl.jaas.config", "keyTab, which needs useKeyTab=true"),
        (
            {**SERVICE, **entry("ticketCache=/c useTicketCache=no")},
            "sasl.jaas.config",
            "ticketCache, which needs useTicketCache=true",
        ),
        ({**SERVICE, **entry("")}, "sasl.jaas.config", "says neither useKeyTab=true nor useTicketCache=true"),
        ({**SERVICE, **entry("principal=ann")}, "sasl.jaas.config", "nobody is asked for a password here"),
        ({**SERVICE, **entry(f"{ANN} useKeytab=true")}, "sasl.jaas.config", "has useKeytab; known are useKeyTab, "),
        ({**SERVICE, **entry(ANN, "IAMLoginModule")}, "sasl.jaas.config", "GSSAPI needs Krb5LoginModule"),
        (
            {**SERVICE, "sasl.jaas.config": f"{MODULE} required {ANN}"},
            "sasl.jaas.config",
            'expected \'Krb5LoginModule required useKeyTab=true keyTab="..." principal="..." serviceName="kafka";\'',
        ),
    ],
)
def test_what_is_missing_double_or_not_known_is_refused(params: dict[str, str], option: str, reason: str) -> None:
    error = refused(params)
    assert error.option == option
    assert reason in error.reason


@pytest.mark.parametrize("options", ['password="s3cret"', f'{ANN} username="ann" password="s3cret"'])
def test_a_password_is_refused_with_what_to_give_and_not_shown(options: str) -> None:
    error = refused({**SERVICE, **entry(options)})
    for word in ("keyTab=", "useTicketCache=true", "kinit", "ktadd"):
        assert word in error.reason
    assert "s3cret" not in str(error)


def test_what_java_renews_by_is_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    names = ["kinit.cmd", "min.time.before.relogin", "ticket.renew.jitter", "ticket.renew.window.factor"]
    assert parse({**SERVICE, **{f"sasl.kerberos.{name}": "1" for name in names}}) == parse(SERVICE)
    [message] = caplog.messages
    assert all(f"sasl.kerberos.{name} (the Kerberos library fetches tickets" in message for name in names)


def test_what_another_login_has_is_named_as_ignored(caplog: pytest.LogCaptureFixture) -> None:
    others = {"sasl.username": "ann", "sasl.password": "s3cret", "sasl.oauthbearer.scope": "s"}
    assert parse({**SERVICE, **others}) == parse(SERVICE)
    assert parse({**SERVICE, **entry(ANN), "sasl.kerberos.keytab": "/other"}).sasl_kerberos == OF_KEYTAB
    login = {"sasl.username": "ann", "sasl.password": "b"}
    assert parse({**SERVICE, **login}, mechanism="SCRAM-SHA-512").sasl_kerberos is None
    assert caplog.messages == [
        "ignored: sasl.oauthbearer.scope (GSSAPI has no token)",
        "ignored: sasl.username, sasl.password (GSSAPI has a ticket in their place)",
        "ignored: sasl.kerberos.keytab (the login is in sasl.jaas.config)",
        "ignored: sasl.kerberos.service.name (SCRAM-SHA-512 has no ticket)",
    ]


def test_the_login_travels_to_executors_and_is_a_key() -> None:
    options = parse({**SERVICE, **entry(ANN)})
    assert pickle.loads(pickle.dumps(options)) == options
    assert len({options, parse({**SERVICE, **entry(ANN)}), parse(SERVICE)}) == 2
