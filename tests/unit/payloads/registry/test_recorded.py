"""A registry's recorded answers, and records of Confluent's own serializers: tests/recorded/record_registry.py."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.flight_schemas import FLIGHT
from tests.registry_server import RegistryServer, running

from directkafka.errors.registry import SchemaNotFoundError
from directkafka.options.payloads import Payload, read_payloads
from directkafka.options.spec import RawOptions
from directkafka.payloads.decode import decoder_of
from directkafka.payloads.reader_schemas import with_reader_schemas
from directkafka.testing.schema_registry import APICURIO_VERSION

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[3] / "recorded" / "apicurio.json").read_text())


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry_server:
        registry_server.answers = {
            path: (status, body.encode()) for path, (status, body) in RECORDED["answers"].items()
        }
        yield registry_server


def payload_of(server: RegistryServer, topic: str, form: str, **more: str) -> Payload:
    options = {"value.format": form, "value.registry.url": server.url, **more}
    [payload] = with_reader_schemas(read_payloads(RawOptions.read(options)), [topic])
    return payload


def records(topic: str) -> pa.Array:
    return pa.array([base64.b64decode(text) for text in RECORDED["records"][topic]])


def test_the_answers_are_of_the_registry_that_the_slow_tests_run() -> None:
    assert RECORDED["version"] == APICURIO_VERSION


def test_avro_of_two_versions(server: RegistryServer) -> None:
    decoder = decoder_of(payload_of(server, "avro", "avro"))
    assert decoder.decode(records("avro")).to_pylist() == [FLIGHT | {"gate": "?"}, FLIGHT | {"id": 2, "gate": "A7"}]
    assert decoder.problems == {}
    first = decoder_of(payload_of(server, "avro", "avro", **{"value.registry.version": "1"}))
    assert first.decode(records("avro")).to_pylist() == [FLIGHT, FLIGHT | {"id": 2}]


def test_avro_that_refers_to_another_schema(server: RegistryServer) -> None:
    decoder = decoder_of(payload_of(server, "reference", "avro"))
    assert decoder.decode(records("reference")).to_pylist() == [{"to": {"code": "JFK"}}]


def test_protobuf_of_a_message_that_is_not_the_file_s_first(server: RegistryServer) -> None:
    decoder = decoder_of(payload_of(server, "protobuf", "protobuf", **{"value.message": "air.Flight"}))
    [row] = decoder.decode(records("protobuf")).to_pylist()
    assert row == {"id": 1, "carrier": "UA", "legs": ["JFK"], "miles": [("JFK", Decimal(7))]}


def test_json_by_its_schema(server: RegistryServer) -> None:
    decoder = decoder_of(payload_of(server, "json", "json"))
    assert decoder.decode(records("json")).to_pylist() == [{"id": 1, "carrier": None, "legs": ["JFK"]}]


def test_what_the_registry_does_not_have_is_known_by_its_own_words(server: RegistryServer) -> None:
    with pytest.raises(SchemaNotFoundError) as raised:
        payload_of(server, "nobody", "avro")
    assert "HTTP 404" in str(raised.value)
    with pytest.raises(SchemaNotFoundError):
        payload_of(server, "avro", "avro", **{"value.registry.version": "77"})
    decoder = decoder_of(payload_of(server, "avro", "avro"))
    with pytest.raises(SchemaNotFoundError, match="schema 999"):
        decoder.decode(pa.array([b"\0\0\0\x03\xe7" + b"\0"]))
