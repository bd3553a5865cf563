"""Logins by Kerberos: a KDC, a broker that asks for tickets, clients with keytabs and with credential caches."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation
from tests.real.kafka.logs import host_and_port, produce, read, task_for
from tests.real.kdc import REALM, Kdc, require_kerberos
from tests.real.secure_broker import (
    Authorities,
    add_topic,
    allow,
    broker_count,
    make_authorities,
    tls_settings,
    with_prefix,
)
from tests.waiting import until

from directkafka.errors import BrokerAccessError, BrokerResponseError, BrokerUnreachableError, OptionError
from directkafka.kafka.consumer.partition_connection import PartitionConnection
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.network import kerberos
from directkafka.kafka.network.client import KafkaClient, open_channel
from directkafka.options.client import ClientOptions
from directkafka.testing import KafkaBroker
from directkafka.testing.servers.ports import LOOPBACK

pytestmark = [pytest.mark.real, pytest.mark.slow]

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
#: By listener: a login in the clear, one over TLS, one whose session ends soon.
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "CLEAR": "SASL_PLAINTEXT",
    "SECURE": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
}
#: A client logs in again at 85 % of it; a broker takes no second login within a second.
SESSION_MS = 1_500
#: How long tickets of the principal "brief" are good.
BRIEF_S = 2
SERVICE = f"kafka/{LOOPBACK}"
RECORDS = 50
AT_ONCE_S = 2.0
TRIED_MS = 500
#: On a busy machine the library may need more time than a try has; then the try's own end is told.
SLOW = "the library never tells that nobody listens"

Params = Mapping[str, object]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kerberos")


@pytest.fixture(scope="module")
def kdc(folder: Path) -> Iterator[Kdc]:
    require_kerberos()
    with Kdc(folder) as started, pytest.MonkeyPatch.context() as patch:
        for name, value in {**started.environment, "KRB5CCNAME": str(folder / "no-tickets")}.items():
            patch.setenv(name, value)
        for principal in (SERVICE, f"other/{LOOPBACK}", "ann"):
            started.add(principal)
        started.add("brief", lifetime=f"{BRIEF_S} seconds")
        yield started


@pytest.fixture(scope="module")
def authorities() -> Authorities:
    return make_authorities()


@pytest.fixture(scope="module")
def broker(kdc: Kdc, authorities: Authorities) -> Iterator[KafkaBroker]:
    keys = f'useKeyTab=true storeKey=true keyTab="{kdc.keytab(SERVICE)}" principal="{SERVICE}@{REALM}"'
    sasl = {"sasl.enabled.mechanisms": "GSSAPI", "gssapi.sasl.jaas.config": f"{MODULE} required {keys};"}
    config: dict[str, object] = {
        "sasl.kerberos.service.name": "kafka",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": True,
        "listener.name.short.gssapi.connections.max.reauth.ms": SESSION_MS,
    }
    for listener in ("clear", "secure", "short"):
        config |= with_prefix(f"listener.name.{listener}", sasl)
    config |= with_prefix("listener.name.secure.ssl", tls_settings(authorities.server, authorities))
    options = [f"-Djava.security.krb5.conf={kdc.config}"]
    with KafkaBroker(listeners=LISTENERS, config=config, jvm_options=options) as started:
        yield started


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker) -> str:
    name = add_topic(broker, "readable")
    produce(broker.bootstrap_servers, name, [b"value %d" % number for number in range(RECORDS)], batch_every=5)
    return name


@pytest.fixture(scope="module")
def ann(kdc: Kdc) -> str:
    """Her keytab."""
    return kdc.keytab("ann")


@pytest.fixture(scope="module")
def brief(kdc: Kdc) -> str:
    return kdc.keytab("brief")


def entry(keytab: str, principal: str = f"ann@{REALM}", service: str = "kafka") -> dict[str, object]:
    """A login by a keytab, as Java writes it."""
    options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}" serviceName="{service}"'
    return {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": f"{MODULE} required {options};"}


def cache_entry(path: Path | None = None, more: str = "") -> dict[str, object]:
    """A login by a credential cache."""
    cache = f' ticketCache="{path}"' if path else ""
    options = f'useTicketCache=true{cache} {more} serviceName="kafka"'
    return {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": f"{MODULE} required {options};"}


def options_for(broker: KafkaBroker, params: Params, listener: str = "CLEAR") -> ClientOptions:
    listener_settings = {"bootstrap.servers": broker.addresses(listener), "security.protocol": LISTENERS[listener]}
    return ClientOptions.from_kafka_params({**listener_settings, **params})


def connect_and_read(broker: KafkaBroker, topic: str, params: Params, listener: str = "CLEAR") -> None:
    """Both kinds of connections: the client that asks, and the channel that fetches."""
    options = options_for(broker, params, listener)
    assert broker_count(options) == 1
    assert len(read(task_for(options, topic, 0, RECORDS))) == RECORDS


def refusal(broker: KafkaBroker, params: Params) -> str:
    """What both kinds of connections say, which is the same, and at once."""
    options = options_for(broker, params)
    begun = time.monotonic()
    with pytest.raises(BrokerAccessError) as of_client:
        broker_count(options)
    with pytest.raises(BrokerAccessError) as of_channel:
        open_channel(options, *host_and_port(broker.addresses("CLEAR")))
    assert time.monotonic() - begun < 2 * AT_ONCE_S
    assert str(of_client.value) == str(of_channel.value)
    return str(of_client.value)


def unreachable(broker: KafkaBroker, params: Params) -> str:
    impatient = {"socket.connection.setup.timeout.ms": TRIED_MS, **params}
    begun = time.monotonic()
    with pytest.raises(BrokerUnreachableError) as caught:
        broker_count(options_for(broker, impatient))
    assert time.monotonic() - begun < AT_ONCE_S
    return str(caught.value)


# Logins.


def test_a_keytab_logs_in_as_java_and_as_librdkafka_write_it(broker: KafkaBroker, topic: str, ann: str) -> None:
    connect_and_read(broker, topic, entry(ann))
    connect_and_read(broker, topic, entry(ann, principal="ann"))
    given = {"sasl.kerberos.service.name": "kafka", "sasl.kerberos.keytab": ann, "sasl.kerberos.principal": "ann"}
    connect_and_read(broker, topic, given)


def test_a_keytab_logs_in_over_tls(broker: KafkaBroker, topic: str, ann: str, authorities: Authorities) -> None:
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities.trusted.pem}
    connect_and_read(broker, topic, {**entry(ann), **trusted}, "SECURE")


def test_a_ticket_logs_in_from_a_cache_that_is_named_and_from_the_environment_s(
    broker: KafkaBroker, topic: str, kdc: Kdc, ann: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "tickets"
    kdc.kinit("ann", ann, cache)
    connect_and_read(broker, topic, cache_entry(cache))
    connect_and_read(broker, topic, cache_entry(cache, f'principal="ann@{REALM}"'))
    monkeypatch.setenv("KRB5CCNAME", str(cache))
    connect_and_read(broker, topic, cache_entry())
    connect_and_read(broker, topic, {"sasl.kerberos.service.name": "kafka"})


def test_a_process_asks_the_kdc_once_for_all_its_connections(broker: KafkaBroker, topic: str, kdc: Kdc) -> None:
    kdc.add("thrifty")
    keytab = kdc.keytab("thrifty")
    for _ in range(3):
        connect_and_read(broker, topic, entry(keytab, "thrifty"))
    log = (kdc.folder / "kdc.log").read_text()
    assert log.count(f"thrifty@{REALM} for krbtgt/") == log.count(f"thrifty@{REALM} for {SERVICE}@") == 1


def test_a_right_is_denied_to_the_principal(broker: KafkaBroker, ann: str) -> None:
    name = add_topic(broker, "forbidden")
    allow(broker, name, "somebody-else", AclOperation.READ)
    options = options_for(broker, entry(ann))

    def denied() -> str | None:
        try:
            task_for(options, name, 0, 1)
        except BrokerResponseError as error:
            return str(error)
        return None

    assert f"Give the principal ann@{REALM} the rights" in until(denied, "rights reach the broker's cache later")


def test_driver_and_executors_log_in_in_the_format_in_rdds_and_in_a_pipeline(
    broker: KafkaBroker, topic: str, ann: str, tmp_path: Path
) -> None:
    params = {"bootstrap.servers": broker.addresses("CLEAR"), "security.protocol": "SASL_PLAINTEXT", **entry(ann)}
    config = {"kafka": params, "topic": topic, "records": RECORDS, "folder": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.real.kafka.kerberos_driver", json.dumps(config)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"format": RECORDS, "rdd": RECORDS, "pipeline": RECORDS}


# Logins that fail.


def test_a_keytab_that_is_not_there_or_none_is_a_mistake_in_the_options(
    broker: KafkaBroker, tmp_path: Path, ann: str
) -> None:
    (tmp_path / "text").write_text("no keytab")
    for path, reason in ((tmp_path / "lost", "No such file"), (tmp_path / "text", "which is no keytab")):
        with pytest.raises(OptionError) as caught:
            broker_count(options_for(broker, entry(str(path))))
        assert caught.value.option == "kafka.sasl.jaas.config"
        assert str(path) in caught.value.reason
        assert reason in caught.value.reason


def test_a_principal_without_a_key_in_the_keytab_is_told(broker: KafkaBroker, ann: str) -> None:
    told = refusal(broker, entry(ann, f"bob@{REALM}"))
    assert f"the keytab {ann} has no key of bob@{REALM}" in told
    assert "kafka.sasl.jaas.config" in told


def test_a_principal_that_the_kdc_does_not_know_is_told(broker: KafkaBroker, kdc: Kdc) -> None:
    kdc.add("gone")
    keytab = kdc.keytab("gone")
    kdc.admin("delprinc -force gone")
    assert f"the KDC does not know gone@{REALM}" in refusal(broker, entry(keytab, f"gone@{REALM}"))


def test_a_keytab_that_is_older_than_the_kdc_s_key_is_told(broker: KafkaBroker, kdc: Kdc) -> None:
    kdc.add("renewed")
    keytab = kdc.keytab("renewed")
    kdc.admin("cpw -randkey renewed")
    told = refusal(broker, entry(keytab, f"renewed@{REALM}"))
    assert f"the key of renewed@{REALM} in the keytab {keytab} is not the KDC's" in told
    assert "ktadd" in told


def test_a_service_that_the_kdc_does_not_know_is_told(broker: KafkaBroker, ann: str) -> None:
    told = refusal(broker, entry(ann, service="kafkaa"))
    assert f"the KDC knows no service 'kafkaa' on host {LOOPBACK}" in told
    assert "kafka.sasl.kerberos.service.name" in told


def test_a_service_whose_key_the_broker_does_not_have_is_told(broker: KafkaBroker, ann: str) -> None:
    told = refusal(broker, entry(ann, service="other"))
    assert f"it refused the login of the principal ann@{REALM} by GSSAPI" in told
    assert "kafka.sasl.kerberos.service.name" in told


def test_after_a_refusal_tickets_are_fetched_anew_since_the_broker_may_have_a_new_key(
    broker: KafkaBroker, topic: str, kdc: Kdc
) -> None:
    kdc.add("loyal")
    params = entry(kdc.keytab("loyal"), f"loyal@{REALM}")
    connect_and_read(broker, topic, params)
    of_broker = kdc.folder / f"{SERVICE.replace('/', '-')}.keytab"
    Path(kdc.keytab(SERVICE, "renewed-service")).replace(of_broker)
    try:
        with pytest.raises(BrokerAccessError, match=f"refused the login of the principal loyal@{REALM}"):
            until(lambda: broker_count(options_for(broker, params)) and None, "the broker never sees its new keytab")
        connect_and_read(broker, topic, params)
    finally:
        # What other tests have fetched is of no use any more.
        kerberos._kept.clear()


def test_a_cache_without_a_ticket_is_told(broker: KafkaBroker, folder: Path, tmp_path: Path) -> None:
    for params, cache in ((cache_entry(), folder / "no-tickets"), (cache_entry(tmp_path / "none"), tmp_path / "none")):
        told = refusal(broker, params)
        assert f"there is no ticket in {cache}" in told
        assert "Run kinit on the driver and on every executor" in told


def test_a_ticket_of_somebody_else_is_told(broker: KafkaBroker, kdc: Kdc, ann: str, tmp_path: Path) -> None:
    kdc.kinit("ann", ann, tmp_path / "tickets")
    told = refusal(broker, cache_entry(tmp_path / "tickets", f'principal="bob@{REALM}"'))
    assert f"is not one of bob@{REALM}" in told


def test_a_ticket_in_a_cache_that_is_over_is_told_until_there_is_a_new_one(
    broker: KafkaBroker, topic: str, kdc: Kdc, ann: str, tmp_path: Path
) -> None:
    cache = tmp_path / "tickets"
    kdc.kinit("ann", ann, cache, "-l", f"{BRIEF_S}s")

    def is_over() -> str | None:
        try:
            connect_and_read(broker, topic, cache_entry(cache))
        except BrokerAccessError as error:
            return str(error)
        return None

    told = until(is_over, "the ticket is never over")
    assert f"the ticket in {cache} is over" in told
    assert "Run kinit" in told
    kdc.kinit("ann", ann, cache)
    connect_and_read(broker, topic, cache_entry(cache))


def test_a_configuration_without_the_realm_is_told(
    broker: KafkaBroker, ann: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "krb5.conf").write_text("[libdefaults]\ndns_lookup_kdc = false\n")
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    for principal in ("ann", "ann@ELSEWHERE.TEST"):
        told = refusal(broker, entry(ann, principal))
        # Of a keytab's principal without a realm, and of a realm without a KDC.
        assert "krb5.conf" in told or f"has no key of {principal}" in told


# A KDC that is away.


def test_a_kdc_that_is_away_is_waited_for_and_what_is_connected_goes_on(
    broker: KafkaBroker, topic: str, kdc: Kdc, ann: str
) -> None:
    kdc.add("patient")
    keytab = kdc.keytab("patient")
    with closing(KafkaClient(options_for(broker, entry(ann)))) as connected:
        assert len(connected.call("Metadata", topics=[]).brokers) == 1
        kdc.stop()
        try:
            params = entry(keytab, f"patient@{REALM}")
            until(lambda: "Kerberos's KDC does not answer: Cannot contact any KDC" in unreachable(broker, params), SLOW)
            assert len(connected.call("Metadata", topics=[]).brokers) == 1
            # Tickets that are still good need no KDC.
            connect_and_read(broker, topic, entry(ann))
        finally:
            kdc.start()
    connect_and_read(broker, topic, entry(keytab, f"patient@{REALM}"))


def test_a_kdc_that_is_silent_is_given_up_in_time(
    broker: KafkaBroker, topic: str, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kdc.add("quick")
    keytab = kdc.keytab("quick")
    # It takes connections, and nobody ever answers.
    with socket.create_server((LOOPBACK, 0)) as silent:
        address = f"{LOOPBACK}:{silent.getsockname()[1]}"
        (tmp_path / "krb5.conf").write_text(kdc.config.read_text().replace(kdc.address, address))
        with monkeypatch.context() as patch:
            patch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
            for _ in range(2):
                told = unreachable(broker, entry(keytab, "quick"))
                assert "Kerberos gives no ticket within 0.5 s" in told
    # The library's thread meets the end of the connection, and the next one is asked anew.
    assert until(lambda: works(broker, entry(keytab, "quick")), "the first thread is never done")


def works(broker: KafkaBroker, params: Params) -> bool:
    try:
        return broker_count(options_for(broker, params)) == 1
    except BrokerUnreachableError:
        return False


# Tickets that end.


def test_a_range_that_takes_longer_than_sessions_and_tickets_is_read_without_loss(
    broker: KafkaBroker, topic: str, brief: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new session begins before the old one ends, with a new ticket: no connection is cut, which would cost a try."""

    def cut(_: PartitionConnection) -> None:
        pytest.fail("a connection was cut")

    monkeypatch.setattr(PartitionConnection, "forget", cut)
    slow = {"max_partition_fetch_bytes": 1, "fetch_max_bytes": 1}
    options = replace(options_for(broker, entry(brief, "brief"), "SHORT"), **slow)  # type: ignore[arg-type]
    begun = time.monotonic()
    offsets: list[int] = []
    # Time itself is what is tested here: sessions and tickets end by it.
    for batch in read_range(task_for(options, topic, 0, RECORDS)):
        offsets += batch.column("offset").to_pylist()
        time.sleep(2.4 * BRIEF_S / (RECORDS / 5))
    assert time.monotonic() - begun > 2 * BRIEF_S
    assert offsets == list(range(RECORDS))


def test_the_driver_s_client_outlives_its_sessions_and_its_tickets(broker: KafkaBroker, brief: str) -> None:
    with closing(KafkaClient(options_for(broker, entry(brief, "brief"), "SHORT"))) as client:
        deadline = time.monotonic() + 2 * BRIEF_S
        while time.monotonic() < deadline:
            assert len(client.call("Metadata", topics=[]).brokers) == 1
            time.sleep(0.05)


def test_a_keytab_s_ticket_that_ended_while_the_kdc_was_away_is_fetched_anew(
    broker: KafkaBroker, topic: str, kdc: Kdc, brief: str
) -> None:
    params = entry(brief, "brief")
    connect_and_read(broker, topic, params)
    kdc.stop()
    try:
        until(lambda: not works(broker, {"socket.connection.setup.timeout.ms": TRIED_MS, **params}), "it never ends")
        until(lambda: "Cannot contact any KDC" in unreachable(broker, params), SLOW)
    finally:
        kdc.start()
    connect_and_read(broker, topic, params)


def test_nothing_of_the_environment_is_changed(broker: KafkaBroker, topic: str, ann: str, tmp_path: Path) -> None:
    before = dict(os.environ)
    connect_and_read(broker, topic, entry(ann))
    assert dict(os.environ) == before
