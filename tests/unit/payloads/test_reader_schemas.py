"""The schema of the columns is looked up once, where a registry has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.registry_server import RegistryServer, running

from directkafka.errors import OptionError
from directkafka.offsets import TopicPartition
from directkafka.options.payloads import Payload, read_payloads
from directkafka.options.source import AssignedPartitions, TopicNames, TopicPattern
from directkafka.options.spec import RawOptions
from directkafka.payloads.reader_schemas import reader_schema_ids, topics_of, with_reader_schemas, with_schemas_of

CLICK = {"type": "record", "name": "Click", "fields": [{"name": "at", "type": "Airport"}]}
AIRPORT = {"type": "enum", "name": "Airport", "symbols": ["IAH"]}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry_server:
        yield registry_server


def payloads_of(server: RegistryServer, **more: str) -> tuple[Payload, ...]:
    named = {f"value.registry.{name}": text for name, text in more.items()}
    return read_payloads(RawOptions.read({"value.format": "avro", "value.registry.url": server.url, **named}))


def test_the_subject_is_that_of_the_only_topic_and_the_schema_is_one_text(server: RegistryServer) -> None:
    reference = {"name": "Airport", "subject": "airports", "version": 1}
    server.add_version("clicks-value", "latest", 7, CLICK, references=[reference])
    server.add_version("airports", "1", 3, AIRPORT)
    [payload] = with_reader_schemas(payloads_of(server), ["clicks", "clicks"])
    assert payload.type.simple_string() == "struct<at:string>"
    assert json.loads(payload.reader_schema)["fields"][0]["type"]["symbols"] == ["IAH"]
    assert reader_schema_ids((payload,)) == {"value": 7}
    assert with_reader_schemas((payload,), ["clicks"]) == (payload,)
    assert len(server.asked) == 2
    # The client knows it by its id.
    assert with_schemas_of(payloads_of(server), {"value": 7}) == (payload,)
    assert with_schemas_of((payload,), {"value": 7, "key": 3}) == (payload,)
    assert len(server.asked) == 2


def test_a_subject_and_a_version_may_be_named(server: RegistryServer) -> None:
    server.add_version("s", "2", 7, "string")
    [payload] = with_reader_schemas(payloads_of(server, subject="s", version="2"), [])
    assert payload.type.simple_string() == "string"


@pytest.mark.parametrize("topics", [[], ["a", "b"]])
def test_with_several_topics_the_subject_must_be_named(topics: list[str], server: RegistryServer) -> None:
    with pytest.raises(OptionError, match=r"value\.registry\.subject.*not one topic is read"):
        with_reader_schemas(payloads_of(server), topics)


@pytest.mark.parametrize(
    ("schema", "more", "error_message"),
    [
        ("null", {}, "version latest of the subject a-value: the schema: is always null"),
        ("string", {"schemaType": "PROTOBUF"}, "it is of type PROTOBUF, not AVRO"),
    ],
)
def test_a_schema_that_no_column_is_for_is_told(
    schema: Any, more: Any, error_message: str, server: RegistryServer
) -> None:
    server.add_version("a-value", "latest", 7, schema, **more)
    with pytest.raises(OptionError) as caught:
        with_reader_schemas(payloads_of(server), ["a"])
    assert error_message in str(caught.value)


def test_the_topics_that_are_read_are_known_unless_a_pattern_names_them() -> None:
    assert list(topics_of(TopicNames(("a", "b")))) == ["a", "b"]
    assert list(topics_of(AssignedPartitions((TopicPartition("a", 0),)))) == ["a"]
    assert list(topics_of(TopicPattern("a.*"))) == []
