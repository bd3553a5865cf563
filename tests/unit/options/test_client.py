"""The client's settings: addresses, bounds, names as Java and librdkafka spell them."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import pickle
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import directkafka
from directkafka.errors import OptionError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange
from directkafka.options.client import ClientOptions, client_specs
from directkafka.options.consumer import Assign, ConsumerOptions, Subscribe, SubscribePattern
from directkafka.options.names import (
    IGNORED_CLIENT_NAMES,
    REFUSED_SOURCE_CLIENT_NAMES,
)
from directkafka.options.payloads import payload_specs
from directkafka.options.producer import SinkOptions
from directkafka.options.source import SourceOptions, option_table
from directkafka.options.spec import OptionSpec, RawOptions, Secret

PLAIN = {"bootstrap.servers": "b:9092"}


def parse(params: Mapping[str, object]) -> ClientOptions:
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
    ignored = set(IGNORED_CLIENT_NAMES)
    assert not used & ignored
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
        "max.decompressed.batch.bytes",
        "sasl.oauthbearer.token.callback",
        "sasl.oauthbearer.token.provider",
        "security.preset",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.kerberos.principal",
        "sasl.kerberos.keytab",
        *(name for spec in payload_specs() for name in (spec.name, *spec.aliases)),
    }
    java = [name for name in used | ignored if name not in others and name.islower()]
    # The consumer's, producer's and admin client's ConfigDef of Kafka 4.3.0 have 140 names together;
    # "subscribe" and "assign" are the source's own.
    assert len([name for name in java if "." in name or name in ("acks", "retries")]) == 140


#: A value for each setting that has an effect, other than its default, beside what it needs to have one.
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "b"}
TOKEN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.callback": "m:f"}
ENDPOINT = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens/one",
    "sasl.oauthbearer.client.credentials.client.id": "a",
    "sasl.oauthbearer.client.credentials.client.secret": "b",
}
TICKET = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
NO_SOURCE = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
STORE = {"security.protocol": "SSL", "ssl.keystore.location": "/k", "ssl.truststore.location": "/t"}
KEY = {"ssl.keystore.key": "K", "ssl.keystore.certificate.chain": "C", "ssl.keystore.type": "PEM"}
CERTIFICATES = {"ssl.truststore.certificates": "C", "ssl.truststore.type": "PEM"}
FILES = {"ssl.certificate.location": "/c", "ssl.key.location": "/l"}
BESIDE: dict[str, tuple[Mapping[str, object], object]] = {
    "bootstrap.servers": ({}, "other:1"),
    "security.protocol": ({}, "SSL"),
    "sasl.mechanism": (SASL, "SCRAM-SHA-256"),
    "sasl.username": (SASL, "eve"),
    "sasl.password": (SASL, "c"),
    "sasl.jaas.config": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        'PlainLoginModule required username="a" password="b";',
    ),
    "sasl.oauthbearer.token.callback": (TOKEN, "m:g"),
    "sasl.oauthbearer.token.provider": (NO_SOURCE, "gcp"),
    "sasl.oauthbearer.token.endpoint.url": (ENDPOINT, "https://tokens/two"),
    "sasl.oauthbearer.client.credentials.client.id": (ENDPOINT, "c"),
    "sasl.oauthbearer.client.credentials.client.secret": (ENDPOINT, "c"),
    "sasl.oauthbearer.scope": (ENDPOINT, "read"),
    "sasl.oauthbearer.header.urlencode": (ENDPOINT, True),
    "sasl.oauthbearer.extensions": (TOKEN, "logicalCluster=lkc"),
    "sasl.kerberos.service.name": (TICKET, "brokers"),
    "sasl.kerberos.principal": (TICKET, "ann@R"),
    "sasl.kerberos.keytab": ({**TICKET, "sasl.kerberos.principal": "ann@R"}, "/ann.keytab"),
    "security.preset": ({}, "aws-msk"),
    "config.providers": ({"client.id": "${env:PATH}"}, "env"),
    "ssl.truststore.type": ({"security.protocol": "SSL", "ssl.truststore.location": "/t"}, "PEM"),
    "ssl.truststore.location": ({"security.protocol": "SSL"}, "/u"),
    "ssl.truststore.password": (STORE, "p"),
    "ssl.truststore.certificates": ({"security.protocol": "SSL", "ssl.truststore.type": "PEM"}, "C"),
    "ssl.keystore.type": (STORE, "PEM"),
    "ssl.keystore.location": ({"security.protocol": "SSL"}, "/u"),
    "ssl.keystore.password": (STORE, "p"),
    "ssl.keystore.key": ({"security.protocol": "SSL", **KEY}, "L"),
    "ssl.keystore.certificate.chain": ({"security.protocol": "SSL", **KEY}, "D"),
    "ssl.key.password": (STORE, "p"),
    "ssl.ca.location": ({"security.protocol": "SSL"}, "/ca"),
    "ssl.certificate.location": ({"security.protocol": "SSL", **FILES}, "/d"),
    "ssl.key.location": ({"security.protocol": "SSL", **FILES}, "/m"),
    "ssl.endpoint.identification.algorithm": ({"security.protocol": "SSL"}, ""),
}


def other_value(spec: OptionSpec) -> tuple[Mapping[str, object], object]:
    if spec.name in BESIDE:
        return BESIDE[spec.name]
    if spec.kind == "boolean":
        return {}, spec.default != "true"
    if spec.kind == "choice":
        return {}, next(choice for choice in spec.choices if choice != spec.default)
    return {}, "77" if spec.kind in ("integer", "duration") else "something"


@pytest.mark.parametrize("spec", client_specs(), ids=lambda spec: spec.name)
def test_a_setting_that_is_taken_is_in_what_is_made_of_it_and_not_warned_of(
    spec: OptionSpec, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is taken and then forgotten, under any of its names."""
    beside, value = other_value(spec)

    def made(params: Mapping[str, object]) -> object:
        try:
            return parse(params)
        except OptionError as error:
            return str(error)

    for name in (spec.name, *spec.aliases):
        params = {setting: text for setting, text in beside.items() if setting not in (spec.name, *spec.aliases)}
        with_it = made({**params, name: value})
        assert isinstance(with_it, ClientOptions), with_it
        assert with_it != made({**beside}), name
    assert not caplog.messages


def test_every_field_of_the_options_is_read_somewhere() -> None:
    """What is parsed and kept has an effect; see also ``test_a_setting_that_is_taken...``."""
    root = Path(directkafka.__file__).parent
    texts = [path.read_text() for path in root.rglob("*.py") if path.relative_to(root).parts[0] != "options"]
    fields = [field.name for field in dataclasses.fields(ClientOptions)]
    unread = [name for name in fields if not any(re.search(rf"\.{name}\b", text) for text in texts)]
    assert not unread


@pytest.mark.parametrize("name", sorted(IGNORED_CLIENT_NAMES))
def test_a_setting_that_means_nothing_is_named_in_a_warning_with_why(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert parse({name: "x"}) == parse({})
    assert [IGNORED_CLIENT_NAMES[name] in message and name in message for message in caplog.messages] == [True]


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


def test_what_holds_secrets_shows_them_in_no_form() -> None:
    """However options are printed: on their own, in a task, as a dict, or in an error's frame."""
    secrets = {
        "sasl.jaas.config": 'PlainLoginModule required username="ann" password="hunter2";',
        "ssl.truststore.password": "hunter2",
        "ssl.keystore.password": "hunter2",
        "ssl.key.password": "hunter2",
    }
    texts = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"} | secrets
    texts |= {"ssl.truststore.location": "/t", "ssl.keystore.location": "/k"}
    params = {**PLAIN, **texts}
    kafka = {f"kafka.{name}": text for name, text in params.items()}
    client = ClientOptions.from_kafka_params(params)
    strategy = Subscribe("flights", params)
    holders: list[Any] = [
        client,
        RawOptions.read(params),
        SourceOptions.parse({**kafka, "subscribe": "flights"}, streaming=False),
        SinkOptions.parse({**kafka, "topic": "flights"}),
        ConsumerOptions.read(strategy),
        RangeTask(range=OffsetRange("flights", 0, 0, 1), topic_id="", host="", port=0, leader_epoch=0, client=client),
    ]
    for holder in holders:
        as_dict = dataclasses.asdict(holder)
        assert "hunter2" not in f"{holder} {holder!r} {as_dict}", type(holder)
    assert "hunter2" not in repr([strategy, SubscribePattern("x", params), Assign([], params)])


def test_every_type_of_options_is_looked_at_for_secrets() -> None:
    """A field that is a text, or texts by name, and is called like a secret is none of the plain ones."""
    option_types = []
    for module_info in pkgutil.iter_modules(directkafka.options.__path__, "directkafka.options."):
        for member in vars(importlib.import_module(module_info.name)).values():
            if dataclasses.is_dataclass(member) and isinstance(member, type) and member.__module__ == module_info.name:
                option_types.append(member)
    assert ClientOptions in option_types
    for option_type in option_types:
        for field in dataclasses.fields(option_type):
            if re.search("password|secret|token$|(^|_)key$", field.name) and "Secret" not in str(field.type):
                assert not field.repr, f"{option_type.__name__}.{field.name}"
