"""JSON behind frames: what the frame says is checked, and the text is read as any other."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.registry_server import RegistryServer, running

from directkafka.options.payloads import Payload, read_payloads
from directkafka.options.spec import RawOptions
from directkafka.payloads.decode import decoder_of
from directkafka.payloads.reader_schemas import with_reader_schemas

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "page": {"type": ["null", "string"]}}}
JSON = {"schemaType": "JSON"}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry_server:
        registry_server.add(1, SCHEMA, **JSON)
        registry_server.add(2, "string")
        registry_server.add_version("clicks-value", "latest", 1, SCHEMA, **JSON)
        yield registry_server


def payload_of(server: RegistryServer, **more: str) -> Payload:
    options = {"value.format": "json", "value.registry.url": server.url, "value.on.error": "null", **more}
    [payload] = with_reader_schemas(read_payloads(RawOptions.read(options)), ["clicks"])
    return payload


def framed(number: int, text: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + text


def test_texts_behind_frames_are_read_and_others_are_told(server: RegistryServer) -> None:
    payload = payload_of(server)
    assert payload.type.simple_string() == "struct<id:bigint,page:string>"
    decoder = decoder_of(payload)
    records = [
        framed(1, b'{"id": 1, "page": "/1"}'), None, framed(2, b'{"id": 2}'), b'{"id": 3}', framed(1, b'{"id": "x"}'),
        b"", framed(1, b""), framed(1, b'{"id": 8}'),
    ]  # fmt: skip
    nothing = {"id": None, "page": None}
    for array in (pa.array(records, pa.binary()), pa.array([b"before", *records], pa.large_binary())[1:]):
        rows = decoder.decode(array).to_pylist()
        assert rows[:6] == [{"id": 1, "page": "/1"}, None, nothing, nothing, nothing, nothing]
        assert rows[7] == {"id": 8, "page": None}
        assert decoder.problems[2] == "it was written with schema 2: it is of type AVRO, not JSON"
        assert decoder.problems[3].startswith("it begins with the byte 0x7b")
        assert decoder.problems[4].startswith("id: ")
        assert decoder.problems[5].startswith("it has 0 bytes")
        assert sorted(set(decoder.problems) - {6}) == [2, 3, 4, 5]


def test_the_fields_may_be_given(server: RegistryServer) -> None:
    decoder = decoder_of(payload_of(server, **{"value.schema": "id INT"}))
    assert decoder.decode(pa.array([framed(1, b'{"id": 1}')], pa.binary())).to_pylist() == [{"id": 1}]
    assert server.asked == ["/schemas/ids/1"]
