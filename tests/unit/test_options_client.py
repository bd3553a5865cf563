"""The client's settings: addresses, bounds, names as Java and librdkafka spell them."""

from __future__ import annotations

import logging
import pickle

import pytest

from directkafka.errors import OptionError
from directkafka.options import ClientOptions, Secret, option_table
from directkafka.options.names import (
    IGNORED_CLIENT_NAMES,
    REFUSED_CLIENT_NAMES,
    REFUSED_SOURCE_CLIENT_NAMES,
)

PLAIN = {"bootstrap.servers": "b:9092"}


def parse(params: dict[str, object]) -> ClientOptions:
    return ClientOptions.from_kafka_params({**PLAIN, **params})


def refused(params: dict[str, object]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        ClientOptions.from_kafka_params(params, where="create_rdd")
    return caught.value


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("b:9092", ("b:9092",)),
        (" b1:1 , b2:65535,", ("b1:1", "b2:65535")),
        ("PLAINTEXT://b:9092", ("b:9092",)),
        ("[::1]:9092", ("[::1]:9092",)),
        ("my_host-1.example.org:9092", ("my_host-1.example.org:9092",)),
    ],
)
def test_addresses_are_read_as_kafka_reads_them(text: str, addresses: tuple[str, ...]) -> None:
    assert parse({"bootstrap.servers": text}).bootstrap_servers == addresses


@pytest.mark.parametrize("text", ["b", "b:", ":9092", "b:0", "b:65536", "b:9092x", "::1:9092", "b 9092"])
def test_what_is_no_address_is_refused(text: str) -> None:
    error = refused({"bootstrap.servers": text})
    assert (error.option, error.where) == ("bootstrap.servers", "create_rdd")


@pytest.mark.parametrize("params", [{}, {"bootstrap.servers": ""}, {"bootstrap.servers": " ,"}])
def test_addresses_are_required(params: dict[str, object]) -> None:
    assert "is required" in refused(params).reason


def test_numbers_and_booleans_need_not_be_texts() -> None:
    options = parse({"fetch.max.bytes": 1000, "check.crcs": False, "request.timeout.ms": "5"})
    assert (options.fetch_max_bytes, options.check_crcs, options.request_timeout_ms) == (1000, False, 5)


def test_a_buffer_of_minus_one_leaves_the_socket_alone() -> None:
    assert parse({"receive.buffer.bytes": -1}).receive_buffer_bytes is None
    assert parse({"receive.buffer.bytes": 65536}).receive_buffer_bytes == 65536


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolation.level", "serializable"),
        ("request.timeout.ms", "0"),
        ("fetch.max.bytes", str(2**31)),
        ("security.protocol", "TLS"),
        ("check.crcs", "maybe"),
    ],
)
def test_a_value_out_of_bounds_is_refused(name: str, value: str) -> None:
    error = refused({**PLAIN, name: value})
    assert error.option == name
    assert repr(value) in error.reason


def test_choices_are_taken_in_any_case() -> None:
    assert parse({"isolation.level": "Read_Committed"}).isolation_level == "read_committed"
    assert parse({"security.protocol": "ssl"}).security_protocol == "SSL"


def test_names_that_the_caller_reads_itself_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    params = {**PLAIN, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with caplog.at_level(logging.WARNING, logger="directkafka.options"):
        ClientOptions.from_kafka_params(params, used_elsewhere=("group.id", "auto.offset.reset"))
    assert len(caplog.messages) == 1
    assert "enable.auto.commit" in caplog.messages[0]
    assert "group.id" not in caplog.messages[0]


def test_an_error_shows_the_name_with_the_prefix_the_user_writes() -> None:
    with pytest.raises(OptionError) as caught:
        ClientOptions.from_kafka_params({**PLAIN, "fetch.min.bytes": "x"}, prefix="kafka.")
    assert caught.value.option == "kafka.fetch.min.bytes"


def test_every_java_name_is_either_used_or_ignored_or_refused() -> None:
    used = {name for spec in option_table() for name in (spec.name, *spec.aliases)}
    ignored, refused_names = set(IGNORED_CLIENT_NAMES), set(REFUSED_CLIENT_NAMES)
    assert len(used | ignored | refused_names) == len(used) + len(ignored) + len(refused_names)
    assert set(REFUSED_SOURCE_CLIENT_NAMES) <= ignored
    # librdkafka's names, and one that is Spark's own.
    others = {
        "partition.metadata.cache.ttl.ms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        # Of Kafka's old Scala client.
        "refresh.leader.backoff.ms",
        # Ours.
        "sasl.oauthbearer.token.callback",
    }
    java = [name for name in used | ignored | refused_names if name not in others and name.islower()]
    # The consumer's, producer's and admin client's ConfigDef of Kafka 4.3.0 have 140 names together;
    # "subscribe" and "assign" are the source's own.
    assert len([name for name in java if "." in name or name in ("acks", "retries")]) == 140


@pytest.mark.parametrize("name", sorted(REFUSED_CLIENT_NAMES))
def test_settings_that_cannot_be_left_out_are_refused_with_the_replacement(name: str) -> None:
    error = refused({**PLAIN, name: "x"})
    assert (error.option, error.reason) == (name, REFUSED_CLIENT_NAMES[name])


def test_settings_of_a_layer_that_is_not_used_are_not_looked_at() -> None:
    options = parse({"ssl.truststore.location": "/store.jks", "sasl.mechanism": "GSSAPI", "sasl.jaas.config": "x"})
    assert (options.ssl_trust_store, options.sasl_mechanism) == (None, None)


def test_a_secret_is_masked_and_survives_pickling() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r}"
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert secret != Secret("other")


def test_options_can_be_a_key_of_a_pool_of_connections() -> None:
    assert len({parse({}), parse({}), parse({"client.id": "other"})}) == 2
