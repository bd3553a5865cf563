"""Records are read with the schemas that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from tests.avro_records import written
from tests.registry_server import RegistryServer, running

from directkafka.errors.registry import RegistryUnavailableError, SchemaNotFoundError
from directkafka.options.registry import Registry
from directkafka.options.schemas.avro import parse_schema
from directkafka.payloads.registry import client as client_module
from directkafka.payloads.registry.avro import AvroRecords, parse_registered
from directkafka.payloads.registry.client import RegistryClient
from directkafka.payloads.registry.decoder import RegisteredDecoder

HEADER = "__value_schema_id"


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
OLD = record({"name": "id", "type": "int"})
NEW = record(ID, {"name": "page", "type": ["null", "string"], "default": None})


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry_server:
        registry_server.add(1, OLD)
        registry_server.add(2, NEW)
        yield registry_server


@pytest.fixture
def decoder(server: RegistryServer) -> RegisteredDecoder:
    client = RegistryClient(Registry(urls=(server.url,), option="value.registry.url"))
    return RegisteredDecoder(AvroRecords(parse_schema(json.dumps(NEW))), client, HEADER)


def framed(number: int, schema: Any, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + written(schema, [value])[0]


def test_records_of_several_schemas_may_follow_each_other(decoder: RegisteredDecoder, server: RegistryServer) -> None:
    texts = [framed(1, OLD, {"id": 1}), framed(2, NEW, {"id": 2, "page": ("string", "/2")}), None] * 2
    rows = [{"id": 1, "page": None}, {"id": 2, "page": "/2"}, None] * 2
    for _ in range(2):
        assert decoder.decode(pa.array(texts, pa.binary())).to_pylist() == rows
        assert decoder.schema_ids.to_pylist() == [1, 2, None] * 2
        assert not decoder.problems
    assert sorted(server.asked) == ["/schemas/ids/1", "/schemas/ids/2"]


def test_what_cannot_be_read_is_told_with_its_reason(decoder: RegisteredDecoder, server: RegistryServer) -> None:
    server.add(3, {"type": "record", "name": "Other", "fields": [ID]})
    server.add(4, "message M {}", schemaType="PROTOBUF")
    server.add(5, record({"name": "id", "type": "string"}))
    server.answers["/schemas/ids/6"] = 200, {"schema": '{"type": "nothing"}'}
    good = framed(2, NEW, {"id": 2, "page": None})
    texts = [good, b"{}", *(framed(number, OLD, {"id": 1}) for number in (3, 4, 5, 6, 9)), good]
    rows = decoder.decode(pa.array(texts, pa.binary())).to_pylist()
    nothing = {"id": None, "page": None}
    assert rows == [{"id": 2, "page": None}, *[nothing] * 6, {"id": 2, "page": None}]
    problems = decoder.problems
    assert sorted(problems) == [1, 2, 3, 4, 5, 6]
    assert "it has 2 bytes" in problems[1]
    assert (
        problems[2]
        == "it was written with schema 3: the writer's record Other does not resolve to the reader's record R"
    )
    assert problems[3] == "it was written with schema 4: it is of type PROTOBUF, not AVRO"
    assert problems[4] == "id: the writer's string does not resolve to the reader's long"
    assert problems[5] == 'it was written with schema 6: the schema, at type: there is no type "nothing"'
    assert "does not have schema 9: HTTP 404" in problems[6]
    assert decoder.schema_ids.to_pylist() == [2, None, 3, 4, 5, 6, 9, 2]


def test_a_schema_that_comes_later_is_asked_for_again(
    decoder: RegisteredDecoder, server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_MISSED_S", 0.0)
    text = pa.array([framed(9, OLD, {"id": 1})], pa.binary())
    assert decoder.decode(text).to_pylist() == [{"id": None, "page": None}]
    server.add(9, OLD)
    assert decoder.decode(text).to_pylist() == [{"id": 1, "page": None}]


def test_what_looks_like_many_numbers_is_not_asked_for_one_by_one(
    decoder: RegisteredDecoder, server: RegistryServer
) -> None:
    texts = [b"\0" + number.to_bytes(4, "big") for number in range(1000, 2000)]
    decoder.decode(pa.array([*texts, framed(2, NEW, {"id": 1, "page": None})], pa.binary()))
    assert len(decoder.problems) == 1000
    assert "was not asked for: 20 others of this batch are unknown" in decoder.problems[999]
    assert len(server.asked) == 21


def test_where_records_are_set_apart_a_schema_must_be_there(server: RegistryServer) -> None:
    """A record that is set apart today and read tomorrow would be in both places, or in none."""
    client = RegistryClient(Registry(urls=(server.url,), option="value.registry.url"))
    strict = RegisteredDecoder(AvroRecords(parse_schema(json.dumps(NEW))), client, HEADER, is_strict=True)
    with pytest.raises(SchemaNotFoundError, match=r"does not have schema 9: .* set on\.error = null"):
        strict.decode(pa.array([framed(2, NEW, {"id": 1, "page": None}), framed(9, OLD, {"id": 1})], pa.binary()))
    assert strict.missed_row == 1


def test_known_schemas_need_no_registry(decoder: RegisteredDecoder, server: RegistryServer) -> None:
    text = pa.array([framed(1, OLD, {"id": 1})], pa.binary())
    decoder.decode(text)
    server.failures = 1_000
    assert decoder.decode(text).to_pylist() == [{"id": 1, "page": None}]
    with pytest.raises(RegistryUnavailableError, match="does not answer for schema 2"):
        decoder.decode(pa.array([framed(2, OLD, {"id": 1})], pa.binary()))


def test_a_header_may_name_the_schema(decoder: RegisteredDecoder) -> None:
    headers = pa.array(
        [[(HEADER, b"\0\0\0\0\1")], []], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    texts = pa.array([written(OLD, [{"id": 1}])[0], framed(2, NEW, {"id": 2, "page": None})], pa.binary())
    decoder.headers = headers
    assert [row["id"] for row in decoder.decode(texts).to_pylist()] == [1, 2]
    assert decoder.schema_ids.to_pylist() == [1, 2]


def test_a_schema_may_refer_to_others() -> None:
    inner = {"type": "enum", "name": "a.E", "symbols": ["A"]}
    outer = record({"name": "e", "type": "a.E"})
    schema = parse_registered((json.dumps(inner), json.dumps(outer)))
    assert schema.definition(schema.type.fields[0].type).symbols == ("A",)


#: Bytes at the end that are zero are bytes too.
GUIDS = [UUID(int=number << 64) for number in range(1, 4)]


def in_headers(*values: bytes) -> pa.Array:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.array([[(HEADER, value)] for value in values], kind)


def named(guid: UUID) -> bytes:
    return b"\1" + guid.bytes


def add_guid(server: RegistryServer, guid: UUID, number: int) -> None:
    server.answers[f"/schemas/guids/{guid}/ids"] = 200, [{"context": ".", "id": number}]


BARE = written(NEW, [{"id": 2, "page": ("string", "/2")}])[0]


def test_a_header_may_name_the_schema_by_its_guid(decoder: RegisteredDecoder, server: RegistryServer) -> None:
    add_guid(server, GUIDS[0], 2)
    add_guid(server, GUIDS[1], 1)
    old = written(OLD, [{"id": 1}])[0]
    rows = pa.array([BARE, old, old, BARE, framed(2, NEW, {"id": 5, "page": None})], pa.binary())
    for _ in range(2):
        numbered = in_headers(*(named(GUIDS[index]) for index in (0, 1, 2)), b"\0\0\0\0\2").to_pylist()
        decoder.headers = pa.array([*numbered, None], in_headers().type)
        decoded_rows = decoder.decode(rows).to_pylist()
        assert [row["id"] for row in decoded_rows] == [2, 1, None, 2, 5]
        assert decoder.schema_ids.to_pylist() == [2, 1, None, 2, 2]
        [(number, problem)] = decoder.problems.items()
        assert number == 2
        assert f"does not have the schema with the GUID {GUIDS[2]}: HTTP 404" in problem
    assert len(server.asked) == len({*server.asked}) == 5


def test_guids_that_nobody_knows_are_not_asked_for_one_by_one(
    decoder: RegisteredDecoder, server: RegistryServer
) -> None:
    """And take nothing from records whose schemas are known."""
    good = UUID(int=(1 << 128) - 1)
    add_guid(server, good, 2)
    decoder.headers = in_headers(named(good))
    assert decoder.decode(pa.array([BARE], pa.binary())).to_pylist() == [{"id": 2, "page": "/2"}]
    server.asked.clear()
    decoder.headers = in_headers(*(named(UUID(int=number)) for number in range(100)), named(good))
    rows = decoder.decode(pa.array([b"\2"] * 100 + [BARE], pa.binary())).to_pylist()
    assert rows[100] == {"id": 2, "page": "/2"}
    assert len(decoder.problems) == 100
    assert "was not asked for: 20 others of this batch are unknown" in decoder.problems[99]
    assert len(server.asked) == 20


def test_numbers_that_nobody_knows_take_nothing_from_those_that_the_process_knows(server: RegistryServer) -> None:
    client = RegistryClient(Registry(urls=(server.url,), option="value.registry.url"))
    client.schema(2)
    decoder = RegisteredDecoder(AvroRecords(parse_schema(json.dumps(NEW))), client, HEADER)
    server.add(2000, NEW)
    client.schema(2000)
    texts = [b"\0" + number.to_bytes(4, "big") for number in range(1000, 1100)]
    rows = decoder.decode(pa.array([*texts, framed(2000, NEW, {"id": 1, "page": None})], pa.binary())).to_pylist()
    assert rows[100] == {"id": 1, "page": None}


@pytest.mark.parametrize(
    ("value", "header"),
    [(None, named(GUIDS[0])), (b"x", named(GUIDS[0]) + b"!")],
    ids=["a null", "more behind the GUID"],
)
def test_guids_that_no_record_needs_are_not_asked_for(
    server: RegistryServer, value: bytes | None, header: bytes
) -> None:
    add_guid(server, GUIDS[1], 2)
    client = RegistryClient(Registry(urls=(server.url,), option="value.registry.url"))
    strict = RegisteredDecoder(AvroRecords(parse_schema(json.dumps(NEW))), client, HEADER, is_strict=True)
    strict.headers = in_headers(header, named(GUIDS[1]))
    rows = strict.decode(pa.array([value, BARE], pa.binary())).to_pylist()
    assert rows[1] == {"id": 2, "page": "/2"}
    assert f"/schemas/guids/{GUIDS[0]}/ids" not in server.asked


def test_where_records_are_set_apart_a_guid_must_be_known(server: RegistryServer) -> None:
    client = RegistryClient(Registry(urls=(server.url,), option="value.registry.url"))
    strict = RegisteredDecoder(AvroRecords(parse_schema(json.dumps(NEW))), client, HEADER, is_strict=True)
    strict.headers = in_headers(named(GUIDS[0]))
    with pytest.raises(SchemaNotFoundError, match=f"does not have the schema with the GUID {GUIDS[0]}: HTTP 404"):
        strict.decode(pa.array([BARE], pa.binary()))


def test_a_guid_whose_schema_has_gone_is_told_by_its_number(decoder: RegisteredDecoder, server: RegistryServer) -> None:
    add_guid(server, GUIDS[0], 9)
    decoder.headers = in_headers(named(GUIDS[0]))
    decoder.decode(pa.array([BARE], pa.binary()))
    assert "does not have schema 9: HTTP 404" in decoder.problems[0]
    assert decoder.schema_ids.to_pylist() == [9]


def test_what_confluent_s_serializer_names_in_a_header_is_read(
    decoder: RegisteredDecoder, server: RegistryServer
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    registry = SchemaRegistryClient.new_client({"url": "mock://here"})
    serialize: Any = AvroSerializer(
        registry, json.dumps(NEW), conf={"schema.id.serializer": header_schema_id_serializer}
    )
    headers: list[tuple[str, bytes]] = []
    value = serialize({"id": 7, "page": "/7"}, SerializationContext("clicks", MessageField.VALUE, headers))
    [(name, header)] = headers
    assert name == HEADER
    add_guid(server, UUID(bytes=header[1:]), 2)
    decoder.headers = in_headers(header)
    assert decoder.decode(pa.array([value], pa.binary())).to_pylist() == [{"id": 7, "page": "/7"}]
