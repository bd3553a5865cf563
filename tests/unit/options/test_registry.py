"""The options of a registry: an address, at most one login, and nothing of it in messages."""

from __future__ import annotations

import pytest

from directkafka.errors import OptionError
from directkafka.options.payloads import payload_params, read_payloads
from directkafka.options.registry import Registry, read_registry
from directkafka.options.source import SourceOptions
from directkafka.options.spec import RawOptions

PREFIX = "value.registry."


def read(**given: str) -> Registry | None:
    return read_registry(
        RawOptions.read({PREFIX + name.replace("__", "."): text for name, text in given.items()}), PREFIX
    )


def test_without_an_address_there_is_no_registry() -> None:
    assert read() is None
    with pytest.raises(OptionError, match=r"value\.registry\.bearer\.auth\.token.*there is no value\.registry\.url"):
        read(bearer__auth__token="t")


def test_addresses_lose_their_last_slash() -> None:
    registry = read(url="https://one:8081/, http://localhost/registry/")
    assert registry is not None
    assert registry.urls == ("https://one:8081", "http://localhost/registry")
    assert registry.shown == "https://one:8081, http://localhost/registry"
    assert registry.check_hostname


def test_logins_are_secrets_and_there_is_one() -> None:
    registry = read(url="https://one", basic__auth__user__info="ann:secret-word")
    assert registry is not None
    assert registry.user is not None
    assert registry.user.reveal() == "ann:secret-word"
    assert "secret-word" not in repr(registry)
    with pytest.raises(OptionError, match="two ways to log in") as caught:
        read(url="https://one", basic__auth__user__info="ann:secret-word", bearer__auth__token="secret-word")
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "one:8081",
        "ftp://one",
        "https:///x",
        "https://ann:word@one",
        "https://one?key=word",
        "https://o ne",
        "https://one:0",
    ],
)
def test_what_is_no_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(OptionError, match=r"option 'value\.registry\.url'") as caught:
        read(url=url)
    assert url not in str(caught.value)


@pytest.mark.parametrize("given", [{"bearer__auth__token": "abc\ndef"}, {"basic__auth__user__info": "a:b\x7fc"}])
def test_a_login_that_cannot_be_sent_is_refused_and_not_shown(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="has a line break or another character that cannot be sent") as caught:
        read(url="https://one", **given)
    assert "abc" not in str(caught.value)


def test_certificates_are_those_of_kafka_s_options_and_errors_have_their_whole_name() -> None:
    registry = read(url="https://one", ssl__ca__location="/ca.pem", ssl__endpoint__identification__algorithm="none")
    assert registry is not None
    assert registry.trust_store is not None
    assert (registry.trust_store.location, registry.trust_store.prefix, registry.check_hostname) == (
        "/ca.pem",
        PREFIX,
        False,
    )
    with pytest.raises(OptionError, match=r"value\.registry\.ssl\.key\.location"):
        read(url="https://one", ssl__key__location="/key.pem")


@pytest.mark.parametrize(
    ("given", "error_message"),
    [
        ({"value.format": "avro"}, "is missing: value.format = avro needs the schema, as JSON"),
        (
            {"value.format": "string", "value.registry.url": "https://r"},
            "means nothing to value.format",
        ),
        ({"value.format": "avro", "value.schema": '"int"', "value.registry.version": "2"}, "is for a registry"),
        (
            {
                "value.format": "avro",
                "value.schema": '"int"',
                "value.registry.url": "https://r",
                "value.registry.subject": "s",
            },
            "says the same as value.schema",
        ),
        (
            {"value.format": "avro", "value.registry.url": "https://r", "value.registry.version": "0"},
            "from 1, or latest",
        ),
        ({"value.registry.url": "https://r"}, "there is no value.format"),
    ],
)
def test_options_of_payloads_that_make_no_sense_beside_a_registry(given: dict[str, str], error_message: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_payloads(RawOptions.read(given))
    assert error_message in str(caught.value)


def test_a_payload_under_a_registry_has_a_column_of_schemas() -> None:
    given = {"value.format": "avro", "value.registry.url": "https://r", "value.on.error": "null"}
    [payload] = read_payloads(RawOptions.read(given))
    assert payload.added_columns == {"value_schema_id": "int", "value_error": "string"}
    assert (payload.subject, payload.version, payload.reader_schema) == (None, "latest", "")


def test_the_other_name_of_a_message_is_taken_wherever_payloads_are_named() -> None:
    named = {
        "value.format": "protobuf", "value.registry.url": "http://registry:8081",
        "value.registry.message": "air.Flight",
    }  # fmt: skip
    source = {"kafka.bootstrap.servers": "b:9092", "subscribe": "air", **named}
    assert SourceOptions.parse(source, streaming=False).payloads[0].message == "air.Flight"
    payloads, rest = payload_params({"bootstrap.servers": "b:9092", **named})
    assert (payloads[0].message, rest) == ("air.Flight", {"bootstrap.servers": "b:9092"})
