"""Every way to connect and to log in, against a broker that asks for it; and what is said when it does not work."""

from __future__ import annotations

import logging
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation
from kafka.net.sasl.scram import ScramClient
from tests.certificates import java_key_store, java_trust_store
from tests.real.kafka import tokens
from tests.real.kafka.logs import host_and_port, produce, read, task_for
from tests.real.secure_broker import (
    ODD_USER,
    PASSWORD,
    SESSION_MS,
    USER,
    Authorities,
    add_topic,
    add_users,
    allow,
    broker_count,
    client_options,
    jaas,
    make_authorities,
    secure_broker,
    written,
)
from tests.waiting import until

from directkafka.errors import (
    BrokerAccessError,
    BrokerResponseError,
    BrokerUnreachableError,
    EnvironmentFaultError,
    KafkaError,
    OptionError,
)
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.consumer.partition_connection import PartitionConnection
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import KafkaClient, open_channel
from directkafka.options.client import ClientOptions
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

STORE_PASSWORD = "store-password-1"
KEY_PASSWORD = "key-password-1"
CALLBACK = "sasl.oauthbearer.token.callback"
TOKENS = "tests.real.kafka.tokens"
RECORDS = 50
#: A refusal is told at once, long before the default limit of ten seconds; a connection that is cut is tried again.
AT_ONCE_S = 2.0
TRIED_MS = 500

Params = Mapping[str, object]


@pytest.fixture(scope="module")
def authorities() -> Authorities:
    return make_authorities()


@pytest.fixture(scope="module")
def broker(authorities: Authorities) -> Iterator[KafkaBroker]:
    with secure_broker(authorities) as started:
        add_users(started)
        # They reach the broker's cache a moment after they are stored.
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": ODD_USER, "sasl.password": PASSWORD}
        until(lambda: works(started, "CLEAR", login), "the users of SCRAM cannot log in")
        yield started


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker) -> str:
    name = add_topic(broker, "readable")
    produce(broker.bootstrap_servers, name, [b"value %d" % number for number in range(RECORDS)], batch_every=5)
    return name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture
def trusted(authorities: Authorities) -> Params:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities.trusted.pem}


def works(broker: KafkaBroker, listener: str, params: Params) -> bool:
    try:
        return broker_count(client_options(broker, listener, params)) == 1
    except BrokerAccessError:
        return False


def connect_and_read(broker: KafkaBroker, listener: str, params: Params, topic: str) -> None:
    """Both kinds of connections: the client that asks, and the channel that fetches."""
    options = client_options(broker, listener, params)
    assert broker_count(options) == 1
    assert len(read(task_for(options, topic, 0, RECORDS))) == RECORDS


def refusal(broker: KafkaBroker, listener: str, params: Params) -> str:
    """What both kinds of connections say, which is the same, and at once."""
    options = client_options(broker, listener, params)
    begun = time.monotonic()
    with pytest.raises(BrokerAccessError) as of_client:
        broker_count(options)
    with pytest.raises(BrokerAccessError) as of_channel:
        open_channel(options, *host_and_port(broker.addresses(listener)))
    assert time.monotonic() - begun < 2 * AT_ONCE_S
    assert of_client.value.address == broker.addresses(listener)
    assert str(of_client.value) == str(of_channel.value)
    return str(of_client.value)


def unreachable(broker: KafkaBroker, listener: str, params: Params) -> str:
    impatient = {"socket.connection.setup.timeout.ms": TRIED_MS, **params}
    begun = time.monotonic()
    with pytest.raises(BrokerUnreachableError) as caught:
        broker_count(client_options(broker, listener, impatient))
    assert time.monotonic() - begun < AT_ONCE_S
    return str(caught.value)


# TLS.


def test_tls_with_a_pem_file_of_authorities(
    broker: KafkaBroker, topic: str, folder: Path, authorities: Authorities
) -> None:
    path = written(folder, "ca.pem", authorities.trusted.pem)
    connect_and_read(broker, "TLS", {"ssl.truststore.type": "PEM", "ssl.truststore.location": path}, topic)
    connect_and_read(broker, "TLS", {"ssl.ca.location": path}, topic)


def test_tls_with_authorities_in_the_option_itself(broker: KafkaBroker, topic: str, trusted: Params) -> None:
    connect_and_read(broker, "TLS", trusted, topic)


def test_what_is_trusted_need_not_be_a_root(broker: KafkaBroker, topic: str, authorities: Authorities) -> None:
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities.between.pem}
    connect_and_read(broker, "TLS", store, topic)


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_tls_with_a_trust_store_of_java(
    broker: KafkaBroker, topic: str, folder: Path, authorities: Authorities, store_type: str
) -> None:
    path = java_trust_store(
        [authorities.trusted.certificate], folder / f"trust.{store_type.lower()}", store_type, STORE_PASSWORD
    )
    store = {
        "ssl.truststore.type": store_type,
        "ssl.truststore.location": str(path),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    connect_and_read(broker, "TLS", store, topic)


def test_mutual_tls_with_pem_files_as_librdkafka_names_them(
    broker: KafkaBroker, topic: str, folder: Path, authorities: Authorities
) -> None:
    files = {
        "ssl.ca.location": written(folder, "ca-2.pem", authorities.trusted.pem),
        "ssl.certificate.location": written(folder, "client.crt", authorities.client.chain_pem),
        "ssl.key.location": written(folder, "client.key", authorities.client.key_pem(KEY_PASSWORD)),
        "ssl.key.password": KEY_PASSWORD,
    }
    connect_and_read(broker, "MUTUAL", files, topic)


def test_mutual_tls_with_key_and_chain_in_the_options_themselves(
    broker: KafkaBroker, topic: str, trusted: Params, authorities: Authorities
) -> None:
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": authorities.client.key_pem(KEY_PASSWORD),
        "ssl.keystore.certificate.chain": authorities.client.chain_pem,
        "ssl.key.password": KEY_PASSWORD,
    }
    connect_and_read(broker, "MUTUAL", {**trusted, **store}, topic)


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_mutual_tls_with_a_key_store_of_java(
    broker: KafkaBroker, topic: str, folder: Path, trusted: Params, authorities: Authorities, store_type: str
) -> None:
    # keytool gives the key of a PKCS12 store the store's own password.
    key_password = KEY_PASSWORD if store_type == "JKS" else STORE_PASSWORD
    path = java_key_store(
        authorities.client, folder / f"keys.{store_type.lower()}", store_type, STORE_PASSWORD, key_password
    )
    store = {
        "ssl.keystore.type": store_type,
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": key_password,
    }
    connect_and_read(broker, "MUTUAL", {**trusted, **store}, topic)


def test_the_key_s_file_for_openssl_is_gone_and_was_of_no_use(
    broker: KafkaBroker, folder: Path, trusted: Params, authorities: Authorities, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary_folder = folder / "temporary"
    temporary_folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary_folder))
    seen: list[tuple[int, str]] = []
    load = "ssl.SSLContext.load_cert_chain"

    def look(_: object, path: str, password: str) -> None:
        seen.append((Path(path).stat().st_mode & 0o777, Path(path).read_text()))
        raise OSError(28, "stopped here")

    monkeypatch.setattr(load, look)
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": authorities.client.chain_pem}
    options = client_options(broker, "MUTUAL", {**trusted, **store, "ssl.keystore.key": authorities.client.key_pem()})
    with pytest.raises(EnvironmentFaultError, match="stopped here"):
        broker_count(options)
    assert [mode for mode, _ in seen] == [0o600]
    assert "BEGIN ENCRYPTED PRIVATE KEY" in seen[0][1]
    assert "BEGIN PRIVATE KEY" not in seen[0][1]
    assert list(temporary_folder.iterdir()) == []


def test_a_channel_over_tls_is_lent_again(broker: KafkaBroker, topic: str, trusted: Params) -> None:
    options = client_options(broker, "TLS", trusted)
    for _ in range(3):
        assert len(read(task_for(options, topic, 0, RECORDS))) == RECORDS
        assert len(connection_pool._idle) == 1
        assert connection_pool._idle[0][1].is_quiet()


# TLS that does not work.


@pytest.mark.parametrize("system", [False, True])
def test_an_authority_that_is_not_trusted_is_told_with_where_trust_comes_from(
    broker: KafkaBroker, authorities: Authorities, system: bool
) -> None:
    other = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities.other.pem}
    told = refusal(broker, "TLS", {} if system else other)
    assert "signed by nobody who is trusted" in told
    assert ("kafka.ssl.truststore.location" if system else "kafka.ssl.truststore.certificates") in told


def test_a_certificate_for_another_host_is_told_unless_the_check_is_off(
    broker: KafkaBroker, topic: str, trusted: Params
) -> None:
    told = refusal(broker, "OTHER_HOST", trusted)
    assert "not for this host" in told
    assert "kafka.ssl.endpoint.identification.algorithm" in told
    connect_and_read(broker, "OTHER_HOST", {**trusted, "ssl.endpoint.identification.algorithm": ""}, topic)


def test_an_expired_certificate_is_told(broker: KafkaBroker, trusted: Params) -> None:
    told = refusal(broker, "EXPIRED", trusted)
    assert "certificate has expired" in told
    assert "ssl.keystore.location" in told


def test_a_client_without_a_certificate_where_one_is_required_is_told(broker: KafkaBroker, trusted: Params) -> None:
    told = refusal(broker, "MUTUAL", trusted)
    assert "it asks for a client's certificate, and none is given" in told
    assert "kafka.ssl.keystore.location" in told


def test_a_client_s_certificate_that_the_broker_does_not_trust_is_told(
    broker: KafkaBroker, trusted: Params, authorities: Authorities
) -> None:
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": authorities.stranger.key_pem(),
        "ssl.keystore.certificate.chain": authorities.stranger.chain_pem,
    }
    told = refusal(broker, "MUTUAL", {**trusted, **store})
    assert "it refused this client's certificate" in told
    assert "kafka.ssl.keystore.key" in told


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [("TLS", "PLAINTEXT"), ("PLAINTEXT", "SSL"), ("CLEAR", "PLAINTEXT"), ("LOGIN", "SSL")],
)
def test_a_protocol_that_is_not_the_listener_s_is_told_in_bounded_time(
    broker: KafkaBroker, trusted: Params, listener: str, protocol: str
) -> None:
    told = unreachable(broker, listener, {**trusted, "security.protocol": protocol})
    assert "kafka.security.protocol" in told


@pytest.mark.parametrize(
    ("content", "params", "setting"),
    [
        (None, {"type": "PEM"}, "kafka.ssl.truststore.location"),
        ("no store", {"type": "PKCS12"}, "kafka.ssl.truststore.location"),
        ("-----BEGIN CERTIFICATE-----", {}, "kafka.ssl.truststore.type"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            {"type": "PEM"},
            "kafka.ssl.truststore.location",
        ),
        ("PKCS12", {"password": "wrong-password-1"}, "kafka.ssl.truststore.password"),
    ],
)
def test_a_trust_store_that_cannot_be_read_is_told_by_the_setting_that_is_wrong(
    broker: KafkaBroker,
    folder: Path,
    authorities: Authorities,
    content: str | None,
    params: dict[str, str],
    setting: str,
) -> None:
    path = str(folder / "not-there")
    if content is not None:
        store = authorities.client.pkcs12(STORE_PASSWORD) if content == "PKCS12" else content
        path = written(folder, f"store-{uuid.uuid4().hex}", store)
    given = {f"ssl.truststore.{name}": value for name, value in {"location": path, **params}.items()}
    options = client_options(broker, "TLS", given)
    with pytest.raises(OptionError) as caught:
        broker_count(options)
    assert caught.value.option == setting
    with pytest.raises(OptionError, match=setting):
        open_channel(options, *host_and_port(broker.addresses("TLS")))
    assert "wrong-password-1" not in str(caught.value)


def test_a_key_that_does_not_fit_its_certificate_is_told(
    broker: KafkaBroker, trusted: Params, authorities: Authorities
) -> None:
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": authorities.stranger.key_pem(),
        "ssl.keystore.certificate.chain": authorities.client.chain_pem,
    }
    with pytest.raises(OptionError, match="a private key and a certificate that do not fit") as caught:
        broker_count(client_options(broker, "MUTUAL", {**trusted, **store}))
    assert caught.value.option == "kafka.ssl.keystore.key"


# Logins.


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_by_name_and_password_in_either_way(
    broker: KafkaBroker, topic: str, trusted: Params, mechanism: str
) -> None:
    java = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, USER, PASSWORD)}
    connect_and_read(broker, "LOGIN", {**trusted, **java}, topic)
    librdkafka = {"sasl.mechanisms": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    connect_and_read(broker, "CLEAR", librdkafka, topic)


def test_a_scram_user_may_have_commas_in_the_name(broker: KafkaBroker, topic: str) -> None:
    login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas("SCRAM-SHA-256", ODD_USER, PASSWORD)}
    connect_and_read(broker, "CLEAR", login, topic)


@pytest.mark.parametrize("function", ["token", "token_with_end"])
def test_a_login_by_a_token(broker: KafkaBroker, topic: str, trusted: Params, function: str) -> None:
    tokens.calls.clear()
    login = {"sasl.mechanism": "OAUTHBEARER", CALLBACK: f"{TOKENS}:{function}"}
    connect_and_read(broker, "TOKEN", {**trusted, **login}, topic)
    # Five connections: two of each client, of which the task's is one, and a channel.
    assert len(tokens.calls) == (5 if function == "token" else 1)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_at_once_and_not_shown(broker: KafkaBroker, mechanism: str) -> None:
    wrong = "wrong-password-1"
    told = refusal(broker, "CLEAR", {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, USER, wrong)})
    assert f"refused the login of user 'ann' by {mechanism}" in told
    for setting in ("kafka.sasl.jaas.config", "kafka.sasl.password"):
        assert setting in told
    assert wrong not in told


def test_a_broker_that_does_not_know_the_password_is_told(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """SCRAM is for both sides: somebody else at the broker's address cannot sign its last message."""
    sign = ScramClient.process_server_final_message
    monkeypatch.setattr(ScramClient, "process_server_final_message", lambda self, _: sign(self, b"v=bm90IGl0"))
    told = refusal(
        broker, "CLEAR", {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": USER, "sasl.password": PASSWORD}
    )
    assert "the broker could not prove who it is" in told


def test_a_token_that_the_broker_does_not_take_is_told_and_not_shown(broker: KafkaBroker, trusted: Params) -> None:
    login = {"sasl.mechanism": "OAUTHBEARER", CALLBACK: f"{TOKENS}:token_that_nobody_takes"}
    told = refusal(broker, "TOKEN", {**trusted, **login})
    assert f"kafka.{CALLBACK}" in told
    assert "no-jwt" not in told


def test_a_function_that_fails_is_told_without_what_it_said(broker: KafkaBroker, trusted: Params) -> None:
    login = {"sasl.mechanism": "OAUTHBEARER", CALLBACK: f"{TOKENS}:failing"}
    options = client_options(broker, "TOKEN", {**trusted, **login})
    for connect in (
        broker_count,
        lambda connection_options: open_channel(connection_options, *host_and_port(broker.addresses("TOKEN"))),
    ):
        with pytest.raises(OptionError, match="raised PermissionError") as caught:
            connect(options)
        assert caught.value.option == f"kafka.{CALLBACK}"
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_mechanism_that_the_broker_does_not_take_is_told(broker: KafkaBroker, trusted: Params) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    assert "kafka.sasl.mechanism" in refusal(broker, "TOKEN", {**trusted, **login})


def test_a_login_where_none_is_taken_is_told(broker: KafkaBroker) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    told = refusal(broker, "PLAINTEXT", {**login, "security.protocol": "SASL_PLAINTEXT"})
    assert "kafka.security.protocol" in told


def test_a_login_that_is_allowed_later_is_tried_again(broker: KafkaBroker) -> None:
    """A client that was refused is not refused for ever."""
    tokens_by_turn = iter(["no-token", tokens.token()])
    login = {"sasl.mechanism": "OAUTHBEARER", CALLBACK: f"{TOKENS}:by_turn"}
    options = client_options(broker, "SHORT_TOKEN", login)
    with pytest.MonkeyPatch.context() as patch, closing(KafkaClient(options)) as client:
        patch.setattr(tokens, "by_turn", lambda: next(tokens_by_turn, tokens.token()), raising=False)
        with pytest.raises(BrokerAccessError):
            client.call("Metadata", topics=[])
        assert len(client.call("Metadata", topics=[]).brokers) == 1


# Sessions that end.


def short_login(broker: KafkaBroker, mechanism: str) -> ClientOptions:
    login: dict[str, object] = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return client_options(broker, "SHORT_TOKEN", {**login, CALLBACK: f"{TOKENS}:token"})
    return client_options(broker, "SHORT", {**login, "sasl.jaas.config": jaas(mechanism, USER, PASSWORD)})


# Of each mechanism the quick run has one of the two.
@pytest.mark.parametrize("mechanism", [pytest.param("SCRAM-SHA-256", marks=pytest.mark.slow), "OAUTHBEARER"])
def test_a_range_that_takes_longer_than_a_session_is_read_without_loss(
    broker: KafkaBroker, topic: str, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new session begins before the old one ends: no connection is cut, which would cost a try."""

    def cut(_: PartitionConnection) -> None:
        pytest.fail("a connection was cut")

    monkeypatch.setattr(PartitionConnection, "forget", cut)
    # A response holds one batch of five records, and whoever takes it does not hurry.
    slow = {"max_partition_fetch_bytes": 1, "fetch_max_bytes": 1}
    options = replace(short_login(broker, mechanism), **slow)  # type: ignore[arg-type]
    begun = time.monotonic()
    offsets: list[int] = []
    # Time itself is what is tested here and below: a session ends by it.
    for batch in read_range(task_for(options, topic, 0, RECORDS)):
        offsets += batch.column("offset").to_pylist()
        time.sleep(2.4 * SESSION_MS / 1000 / (RECORDS / 5))
    assert time.monotonic() - begun > 2 * SESSION_MS / 1000
    assert offsets == list(range(RECORDS))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", pytest.param("OAUTHBEARER", marks=pytest.mark.slow)])
def test_the_driver_s_client_outlives_its_sessions(broker: KafkaBroker, mechanism: str) -> None:
    """Both with pauses longer than a session and with questions all the time."""
    with closing(KafkaClient(short_login(broker, mechanism))) as client:
        deadline = time.monotonic() + 1.2 * SESSION_MS / 1000
        while time.monotonic() < deadline:
            assert len(client.call("Metadata", topics=[]).brokers) == 1
            time.sleep(0.05)
        time.sleep(1.2 * SESSION_MS / 1000)
        assert len(client.call("Metadata", topics=[]).brokers) == 1


def test_a_channel_ends_before_its_session(broker: KafkaBroker) -> None:
    options = short_login(broker, "SCRAM-SHA-256")
    channel = open_channel(options, *host_and_port(broker.addresses("SHORT")))
    left_s = channel.expires_at - time.monotonic()
    channel.close()
    assert 0 < left_s < 0.9 * SESSION_MS / 1000


# Rights.


@pytest.mark.parametrize("operation", [None, AclOperation.DESCRIBE])
def test_a_topic_without_a_right_is_told_with_the_topic_the_user_and_the_rights(
    broker: KafkaBroker, operation: AclOperation | None
) -> None:
    name = add_topic(broker, f"forbidden-{uuid.uuid4().hex[:8]}")
    produce(broker.bootstrap_servers, name, [b"1", b"2"])
    allow(broker, name, "somebody-else", AclOperation.READ)
    if operation is not None:
        allow(broker, name, USER, operation)
    login = {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    options = client_options(broker, "CLEAR", login)
    begun = time.monotonic()

    def denied() -> str | None:
        try:
            if operation is None:
                with closing(KafkaClient(options)) as client:
                    AdminClient(client).topics([name])
            else:
                read(task_for(options, name, 0, 2))
        except BrokerResponseError as error:
            return str(error)
        return None

    told = until(denied, "rights reach the broker's cache a moment after they are stored")
    assert time.monotonic() - begun < 10.0
    for part in (name, "user 'ann'", "DESCRIBE and READ", "TOPIC_AUTHORIZATION_FAILED"):
        assert part in told


def test_a_range_of_a_topic_that_may_not_even_be_described_is_told_before_the_time_limit(broker: KafkaBroker) -> None:
    """With Fetch by topic id, the broker first says that it does not know the id."""
    name = add_topic(broker, f"hidden-{uuid.uuid4().hex[:8]}")
    produce(broker.bootstrap_servers, name, [b"1", b"2"])
    options = client_options(
        broker, "CLEAR", {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    )
    task = task_for(options, name, 0, 2)
    allow(broker, name, "somebody-else", AclOperation.READ)

    def denied() -> str | None:
        try:
            read(task)
        except KafkaError as error:
            return str(error)
        return None

    begun = time.monotonic()
    told = until(denied, "the topic can be read")
    assert time.monotonic() - begun < 10.0
    assert "DESCRIBE and READ" in told


# Secrets.


def test_no_log_of_a_login_shows_a_secret(
    broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture, trusted: Params, authorities: Authorities
) -> None:
    """Whatever is logged, by this library and by kafka-python, at any level."""
    logins: list[tuple[str, Params]] = [
        ("CLEAR", {"sasl.mechanism": name, "sasl.jaas.config": jaas(name, USER, PASSWORD)})
        for name in ("PLAIN", "SCRAM-SHA-256")
    ]
    logins.append(("CLEAR", {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": "wrong-password-1"}))
    logins.append(("TOKEN", {**trusted, "sasl.mechanism": "OAUTHBEARER", CALLBACK: f"{TOKENS}:token"}))
    key = authorities.client.key_pem(KEY_PASSWORD)
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.key.password": KEY_PASSWORD}
    chain = {"ssl.keystore.certificate.chain": authorities.client.chain_pem}
    logins.append(("MUTUAL", {**trusted, **store, **chain}))
    with caplog.at_level(logging.DEBUG):
        for listener, params in logins:
            options = client_options(broker, listener, params)
            logging.getLogger("directkafka.tests").info("%r %s", options, options)
            if works(broker, listener, params):
                task = task_for(options, topic, 0, RECORDS)
                logging.getLogger("directkafka.tests").info("%r %s", task, task)
                read(task)
    shown = caplog.text + "".join(repr(record.args) for record in caplog.records)
    assert "Sasl" in shown
    token_start = tokens.token()[:40]
    for secret in (PASSWORD, PASSWORD[:9], "wrong-password-1", KEY_PASSWORD, token_start, key.splitlines()[2]):
        assert secret not in shown
