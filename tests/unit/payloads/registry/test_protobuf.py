"""Records name a file and a message in it; each is read as the message of the columns, or told why not."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from tests.protobuf_records import compiled, message_class
from tests.registry_server import RegistryServer, running

from directkafka.options.payloads import Payload, read_payloads
from directkafka.options.registry import Registry
from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.options.spec import RawOptions
from directkafka.payloads.reader_schemas import with_reader_schemas
from directkafka.payloads.registry.client import RegistryClient
from directkafka.payloads.registry.decoder import RegisteredDecoder
from directkafka.payloads.registry.formats import columns_of
from directkafka.payloads.registry.protobuf import ProtobufRecords

HEADER = "__value_schema_id"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
OLD = 'syntax = "proto3"; package a; message Click { int32 id = 1; }'
NEW = """
syntax = "proto3"; package a;
message Other { map<string, int32> m = 1; message Click { int32 id = 1; } }
message Click { int64 id = 1; string page = 2; }
message Third { double id = 1; }
"""
PROTOBUF = {"schemaType": "PROTOBUF"}


def number(value: int) -> bytes:
    """In zig-zag; small ones alone."""
    return bytes([value * 2])


def framed(schema: int, indexes: bytes, record: bytes) -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + indexes + record


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry_server:
        for schema_id, text in ((1, OLD), (2, NEW)):
            registry_server.add_text(schema_id, text, **PROTOBUF)
        yield registry_server


def decoder_of(server: RegistryServer, text: str = NEW, message: str = "a.Click") -> RegisteredDecoder:
    client = RegistryClient(Registry(urls=(server.url,), option="value.registry.url"))
    return RegisteredDecoder(ProtobufRecords(parse_protobuf([text], message)), client, HEADER)


FIRST, SECOND = b"\0", number(1) + number(1)


def test_records_of_several_files_and_messages_may_follow_each_other(server: RegistryServer) -> None:
    decoder = decoder_of(server)
    records = [framed(1, FIRST, b"\x08\x01"), framed(2, SECOND, b"\x08\x02\x12\x02/2"), None] * 2
    for _ in range(2):
        rows = decoder.decode(pa.array(records, pa.binary())).to_pylist()
        assert rows == [{"id": 1, "page": ""}, {"id": 2, "page": "/2"}, None] * 2
        assert decoder.schema_ids.to_pylist() == [1, 2, None] * 2
        assert not decoder.problems
    assert sorted(server.asked) == ["/schemas/ids/1", "/schemas/ids/2"]


def test_what_cannot_be_read_is_told_with_its_reason(server: RegistryServer) -> None:
    server.add(3, "string")
    server.add_text(4, "{}", **PROTOBUF)
    server.add_text(5, 'syntax = "proto3"; message Click { string id = 1; }', **PROTOBUF)
    decoder = decoder_of(server)
    nested = number(2) + number(0) + number(1)
    records = [
        framed(2, FIRST, b""),
        framed(2, number(1) + number(7), b""),
        framed(2, b"", b""),
        framed(2, b"\xff" * 6, b""),
        framed(3, FIRST, b""),
        framed(4, FIRST, b""),
        framed(5, FIRST, b""),
        framed(2, number(1), b""),
        framed(2, SECOND, b"\x08\x02"),
        framed(2, nested, b"\x08\x02"),
    ]
    rows = decoder.decode(pa.array(records, pa.binary())).to_pylist()
    assert [row["id"] for row in rows] == [None] * 8 + [2, 2]
    assert [problem.removeprefix("it was written with schema ") for problem in decoder.problems.values()] == [
        "2: it is a a.Other, and the columns are those of a.Click",
        "2: the schema has no message at [7]",
        "no message of the schema is named behind its number",
        "no message of the schema is named behind its number",
        "3: it is of type AVRO, not PROTOBUF",
        "4: the schema, line 1: expected a message, an enum or the like, found {",
        "5: id: it is string there, and int64 here",
        "no message of the schema is named behind its number",
    ]


def test_places_of_messages_are_counted_with_the_entries_of_maps_or_without(server: RegistryServer) -> None:
    """Confluent's serializers for Python count them, those for Java do not."""
    decoder = decoder_of(server, message="a.Other.Click")
    for index in (0, 1):
        record = framed(2, number(2) + number(0) + number(index), b"\x08\x07")
        assert decoder.decode(pa.array([record], pa.binary())).to_pylist() == [{"id": 7}]
    assert not decoder.problems


def test_a_header_may_name_schema_and_message(server: RegistryServer) -> None:
    decoder = decoder_of(server)
    values = [framed(1, FIRST, b""), framed(2, SECOND, b""), framed(2, SECOND, b"more"), framed(2, b"", b"")]
    decoder.headers = pa.array([[(HEADER, value)] for value in values], HEADERS)
    records = pa.array([b"\x08\x01", b"\x08\x02\x12\x01p", b"\x08\x03", b"\x08\x04"], pa.binary())
    rows = decoder.decode(records).to_pylist()
    assert [row["id"] for row in rows] == [1, 2, None, None]
    assert list(decoder.problems.values()) == [f"the header {HEADER} names no schema"] * 2


def test_a_header_may_name_schema_by_a_guid_and_message(server: RegistryServer) -> None:
    decoder, guid = decoder_of(server), UUID(int=7)
    server.answers[f"/schemas/guids/{guid}/ids"] = 200, [{"context": ".", "id": 2}]
    values = [b"\1" + guid.bytes + indexes for indexes in (SECOND, b"", SECOND + b"more")]
    decoder.headers = pa.array([[(HEADER, value)] for value in values], HEADERS)
    records = pa.array([b"\x08\x02\x12\x01p", b"\x08\x04", b"\x08\x04"], pa.binary())
    rows = decoder.decode(records).to_pylist()
    assert [row["id"] for row in rows] == [2, None, None]
    assert decoder.schema_ids.to_pylist() == [2, None, None]
    assert list(decoder.problems.values()) == [f"the header {HEADER} names no schema"] * 2


def test_the_columns_are_those_of_a_registered_message(server: RegistryServer) -> None:
    imported = 'syntax = "proto3"; package a; message Place { string name = 1; }'
    own = 'syntax = "proto3"; import "place.proto"; message Click { a.Place at = 1; } message B { int32 b = 1; }'
    reference = {"name": "place.proto", "subject": "places", "version": 1}
    server.add_version_text("clicks-value", "latest", 7, own, references=[reference], **PROTOBUF)
    server.add_text(7, own, references=[reference], **PROTOBUF)
    server.add_version_text("places", "1", 3, imported, **PROTOBUF)

    def payload_of(**more: str) -> Payload:
        options = {"value.format": "protobuf", "value.registry.url": server.url, **more}
        [payload] = with_reader_schemas(read_payloads(RawOptions.read(options)), ["clicks"])
        return payload

    assert payload_of().type.simple_string() == "struct<at:struct<name:string>>"
    assert payload_of(**{"value.message": "B"}).type.simple_string() == "struct<b:int>"
    assert payload_of(**{"value.registry.message": "B"}).type.simple_string() == "struct<b:int>"
    client = RegistryClient(Registry(urls=(server.url,), option="value.registry.url"))
    record = framed(7, FIRST, b"\x0a\x03\x0a\x01p")
    decoder = RegisteredDecoder(columns_of(payload_of()), client, HEADER)
    assert decoder.decode(pa.array([record], pa.binary())).to_pylist() == [{"at": {"name": "p"}}]


def test_a_registry_may_have_descriptors_in_place_of_texts(server: RegistryServer) -> None:
    """Apicurio's, of files that Confluent's serializers for Python have registered."""
    text: Any = base64.b64encode(compiled(NEW)).decode()
    server.add_text(9, text, **PROTOBUF)
    record = message_class(compiled(NEW), "a.Click")(id=5, page="x").SerializeToString()
    decoder = decoder_of(server)
    assert decoder.decode(pa.array([framed(9, SECOND, record)], pa.binary())).to_pylist() == [{"id": 5, "page": "x"}]


def test_what_a_writer_does_not_tell_is_a_zero_also_where_the_columns_would_be_null(server: RegistryServer) -> None:
    """A field of proto3 that has become optional: of old records nobody can say whether a zero was meant."""
    text = 'syntax = "proto3"; package a; message Click { optional int64 id = 1; optional string page = 2; }'
    server.add_text(8, text, **PROTOBUF)
    decoder = decoder_of(server, text)
    records = [framed(1, FIRST, b""), framed(8, FIRST, b""), framed(1, FIRST, b"\x08\x05")]
    assert decoder.decode(pa.array(records, pa.binary())).to_pylist() == [
        {"id": 0, "page": None}, {"id": None, "page": None}, {"id": 5, "page": None},
    ]  # fmt: skip


def test_bytes_that_name_any_number_of_messages_cost_little(server: RegistryServer) -> None:
    decoder = decoder_of(server)
    far = [bytes([2, 0x80 | (index * 2 & 0x7F), index * 2 >> 7]) for index in range(64, 5_000)]
    rows = decoder.decode(pa.array([framed(2, indexes, b"") for indexes in far], pa.binary()))
    assert rows.null_count == 0
    assert len(decoder.problems) == len(far)
    assert "1000 schemas and messages of the registry are known" in decoder.problems[len(far) - 1]


def test_a_number_that_no_schema_has_is_not_asked_for(server: RegistryServer) -> None:
    decoder = decoder_of(server)
    decoder.decode(pa.array([framed(0xFFFFFFFF, FIRST, b""), framed(1, FIRST, b"")], pa.binary()))
    assert list(decoder.problems.values()) == ["the number of its schema is above 2147483647, which none has"]
    assert server.asked == ["/schemas/ids/1"]
