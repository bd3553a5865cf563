"""Security through Spark: what is set on the driver works on executors, and is nowhere to be seen."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.certificates import java_trust_store
from tests.real.kafka.logs import produce
from tests.real.secure_broker import (
    PASSWORD,
    USER,
    add_topic,
    add_users,
    broker_count,
    client_options,
    jaas,
    make_authorities,
    secure_broker,
    written,
)
from tests.real.spark.conftest import QUICK
from tests.real.spark.queries import WAIT_S
from tests.waiting import until

from directkafka.errors import BrokerAccessError
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

STORE_PASSWORD = "store-password-1"
KEY_PASSWORD = "key-password-1"
WRONG = "wrong-password-1"
AUTHORITIES = make_authorities()

Options = dict[str, str]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with secure_broker(AUTHORITIES) as started:
        add_users(started)
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
        until(lambda: logs_in(started, login), "the users of SCRAM cannot log in")
        yield started


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker) -> str:
    name = add_topic(broker, "readable")
    produce(broker.bootstrap_servers, name, [b"value %d" % number for number in range(100)])
    return name


@pytest.fixture(scope="module")
def trust_store(tmp_path_factory: pytest.TempPathFactory) -> Options:
    path = tmp_path_factory.mktemp("stores") / "trust.p12"
    java_trust_store([AUTHORITIES.trusted.certificate], path, "PKCS12", STORE_PASSWORD)
    return {
        "kafka.ssl.truststore.type": "PKCS12",
        "kafka.ssl.truststore.location": str(path),
        "kafka.ssl.truststore.password": STORE_PASSWORD,
    }


@pytest.fixture
def key_store(tmp_path: Path) -> Options:
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": written(
            tmp_path, "client.pem", AUTHORITIES.client.key_pem(KEY_PASSWORD) + AUTHORITIES.client.chain_pem
        ),
        "kafka.ssl.key.password": KEY_PASSWORD,
    }


def logs_in(broker: KafkaBroker, login: Options) -> bool:
    try:
        return broker_count(client_options(broker, "CLEAR", login)) == 1
    except BrokerAccessError:
        return False


def scram(password: str = PASSWORD) -> Options:
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": jaas("SCRAM-SHA-512", USER, password),
    }


@pytest.fixture
def reading(session: SparkSession, broker: KafkaBroker, topic: str) -> Callable[[str, Options], Any]:
    """``reading(listener, options)`` is a batch reader of the topic."""

    def make(listener: str, options: Options) -> Any:
        base = {"kafka.bootstrap.servers": broker.addresses(listener), "subscribe": topic, **QUICK}
        return session.read.format("directkafka").options(**base, **options)

    return make


def shown(frame: Any) -> str:
    """Everything that Spark shows of a frame."""
    out = io.StringIO()
    with redirect_stdout(out):
        frame.explain(True)
        frame.explain("formatted")
    return out.getvalue() + frame._jdf.queryExecution().toString() + repr(frame)


def test_a_batch_read_logs_in_by_scram_over_tls_with_a_pkcs12_trust_store(
    reading: Callable[[str, Options], Any], trust_store: Options, key_store: Options
) -> None:
    """On a listener that asks for no client's certificate, it does no harm to have one."""
    frame = reading("LOGIN", {**scram(), **trust_store, **key_store}).load()
    assert frame.count() == 100
    plan = shown(frame)
    assert "directkafka" in plan
    for secret in (PASSWORD, PASSWORD[:9], STORE_PASSWORD, KEY_PASSWORD):
        assert secret not in plan


@pytest.mark.slow
def test_a_stream_logs_in_by_a_token_and_its_progress_shows_no_secret(
    session: SparkSession, broker: KafkaBroker, topic: str, trust_store: Options, tmp_path: Path
) -> None:
    options = {
        "kafka.bootstrap.servers": broker.addresses("TOKEN"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.callback": "tests.real.kafka.tokens:token_with_end",
        "subscribe": topic,
        "startingOffsets": "earliest",
        **trust_store,
    }
    stream = session.readStream.format("directkafka").options(**options).load()
    writer = stream.writeStream.format("memory").queryName("secured").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    assert session.table("secured").count() == 100
    out = io.StringIO()
    with redirect_stdout(out):
        query.explain(True)
    progress = "".join(batch_progress.json for batch_progress in query.recentProgress)
    assert json.loads(query.recentProgress[-1].json)["sources"]
    checkpoint = "".join(file.read_text(errors="replace") for file in (tmp_path / "c").rglob("*") if file.is_file())
    for text in (out.getvalue(), progress, checkpoint, repr(query), repr(stream)):
        assert text
        for secret in (STORE_PASSWORD, "token-of-ann", "eyJ"):
            assert secret not in text
    session.catalog.dropTempView("secured")


def test_a_wrong_password_fails_a_read_at_once_with_the_setting_and_without_the_password(
    reading: Callable[[str, Options], Any], trust_store: Options
) -> None:
    frame = reading("LOGIN", {**scram(WRONG), **trust_store}).load()
    with pytest.raises(Exception, match="BrokerAccessError") as caught:
        frame.count()
    message = str(caught.value)
    assert "refused the login of user 'ann' by SCRAM-SHA-512" in message
    assert "kafka.sasl.jaas.config" in message
    for secret in (WRONG, STORE_PASSWORD):
        assert secret not in message + shown(frame)
