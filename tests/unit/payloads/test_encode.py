"""Values and keys on their way into records: what options say of them, and the bytes that they become."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.registry_server import RegistryServer, running

from directkafka.errors import OptionError
from directkafka.errors.registry import SchemaNotRegisteredError, UnencodableRowError
from directkafka.options.written_payloads import written_params
from directkafka.payloads.encode import ColumnEncoding, column_encodings, encoded, encoded_schema, encoding_problems
from directkafka.payloads.kernels import written
from directkafka.payloads.kernels.written import TooManyBytesError

PROTO = """\
syntax = "proto3";
message Other {}
message Click {
  int32 page = 1;
  optional string user = 2;
  message In { int32 page = 1; }
}"""
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "page", "type": "int"}, {"name": "user", "type": ["null", "string"]}],
}
JSON = {"type": "object", "properties": {"page": {"type": "integer"}, "user": {"type": "string"}}}
KIND = pa.struct([("page", pa.int32()), ("user", pa.string())])
ROWS = pa.array([{"page": 7, "user": "ann"}, {"page": 8, "user": None}, None], KIND)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry_server:
        yield registry_server


def encodings(topic: str | None = "clicks", **options: Any) -> tuple[ColumnEncoding, ...]:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return column_encodings(written_params(given, where="a test"), topic)


def values(payload_encodings: tuple[ColumnEncoding, ...]) -> list[bytes | None]:
    batch = pa.record_batch({"key": pa.array([b"a", b"b", None]), "value": ROWS})
    [made] = encoded([batch], pickle.loads(pickle.dumps(payload_encodings)))
    assert made.column("key").to_pylist() == [b"a", b"b", None]
    assert made.schema == encoded_schema(batch.schema, payload_encodings)
    return made.column("value").to_pylist()  # type: ignore[no-any-return]


def read(raw: bytes | None) -> Any:
    assert raw is not None
    return fastavro.schemaless_reader(io.BytesIO(raw), fastavro.parse_schema(AVRO), None)


def test_json_is_an_object_for_each_struct() -> None:
    assert values(encodings(value__format="json")) == [b'{"page":7,"user":"ann"}', b'{"page":8}', None]


def test_avro_by_a_schema_of_its_own() -> None:
    *records, none = values(encodings(value__format="avro", value__schema=json.dumps(AVRO)))
    assert [read(raw) for raw in records] == ROWS.to_pylist()[:2]
    assert none is None


def test_a_registered_schema_s_number_stands_before_each_record(server: RegistryServer) -> None:
    server.answers["POST /subjects/clicks-value"] = 200, {"id": 258}
    payload_encodings = encodings(value__format="avro", value__schema=json.dumps(AVRO), value__registry__url=server.url)
    first, second, none = values(payload_encodings)
    assert first is not None
    assert first[:5] == b"\0\0\0\1\2"
    assert (read(first[5:]), none) == (ROWS[0].as_py(), None)
    assert second is not None
    assert second[:5] == first[:5]


def test_the_registry_s_own_schema_is_used_where_none_is_given(server: RegistryServer) -> None:
    server.add_version("clicks-value", "latest", 9, AVRO)
    first, *_ = values(encodings(value__format="avro", value__registry__url=server.url))
    assert first is not None
    assert (first[:5], read(first[5:])) == (b"\0\0\0\0\t", ROWS[0].as_py())
    assert server.posted == []


def test_json_has_the_number_of_its_schema(server: RegistryServer) -> None:
    server.answers["POST /subjects/pages/versions"] = 200, {"id": 3}
    payload_encodings = encodings(
        None, value__format="json", value__schema=json.dumps(JSON), value__registry__url=server.url,
        value__registry__subject="pages", value__registry__register="true",
    )  # fmt: skip
    assert values(payload_encodings)[0] == b'\0\0\0\0\3{"page":7,"user":"ann"}'
    assert server.posted[0][1]["schemaType"] == "JSON"


def test_a_schema_that_is_not_registered_stops_the_start(server: RegistryServer) -> None:
    with pytest.raises(SchemaNotRegisteredError, match="clicks-value"):
        encodings(value__format="avro", value__schema=json.dumps(AVRO), value__registry__url=server.url)


def test_a_schema_of_another_format_is_refused(server: RegistryServer) -> None:
    server.add_version("clicks-value", "latest", 9, JSON, schemaType="JSON")
    with pytest.raises(OptionError, match="it is of type JSON, not AVRO"):
        encodings(value__format="avro", value__registry__url=server.url)


def test_protocol_buffers_by_a_file_of_their_own() -> None:
    payload_encodings = encodings(value__format="protobuf", value__schema=PROTO, value__message="Click")
    assert values(payload_encodings) == [b"\x08\7\x12\3ann", b"\x08\x08", None]


@pytest.mark.parametrize(("message", "indexes"), [("Click", b"\2\2"), ("Click.In", b"\4\2\0")])
def test_protocol_buffers_have_the_place_of_their_message_behind_the_number(
    server: RegistryServer, message: str, indexes: bytes
) -> None:
    server.answers["POST /subjects/clicks-value"] = 200, {"id": 5}
    server.answers["/subjects/clicks-value/versions/latest"] = (
        200, {"id": 5, "version": 1, "schema": PROTO, "schemaType": "PROTOBUF"},
    )  # fmt: skip
    rows = pa.record_batch({"value": pa.array([{"page": 1}], pa.struct([("page", pa.int32())]))})
    for schema in ({"value__schema": PROTO}, {}):
        payload_encodings = encodings(
            value__format="protobuf", value__registry__url=server.url, value__message=message, **schema
        )
        [made] = encoded([rows], payload_encodings)
        assert made.column("value").to_pylist() == [b"\0\0\0\0\5" + indexes + b"\x08\1"]
    assert server.posted == [("/subjects/clicks-value", {"schema": PROTO, "schemaType": "PROTOBUF"})]


def test_rows_whose_records_are_too_many_bytes_are_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "_BYTES_MAX", 150_000)
    payload_encodings = encodings(value__format="avro", value__schema='"string"')
    batch = pa.record_batch({"value": pa.array(["x" * 60_000] * 5), "key": pa.array(list(b"abcde"))})
    parts = list(encoded([batch], payload_encodings))
    assert [part.num_rows for part in parts] == [2, 1, 2]
    assert [key for part in parts for key in part.column("key").to_pylist()] == list(b"abcde")
    [large] = encoded([batch.slice(0, 1)], payload_encodings)
    assert large.num_rows == 1
    monkeypatch.setattr(written, "_BYTES_MAX", 50_000)
    with pytest.raises(TooManyBytesError):
        list(encoded([batch.slice(0, 1)], payload_encodings))


def test_json_has_its_times_in_utc() -> None:
    moment = pa.array([0], pa.timestamp("us", "Europe/Zurich"))
    kind = pa.struct([("at", moment.type), ("all", pa.list_(moment.type))])
    rows = pa.array([{"at": moment[0].as_py(), "all": [moment[0].as_py()]}], kind)
    [made] = encoded([pa.record_batch({"value": rows})], encodings(value__format="json"))
    [text] = made.column("value").to_pylist()
    assert json.loads(text) == {"at": "1970-01-01T00:00:00.000000Z", "all": ["1970-01-01T00:00:00.000000Z"]}


def test_what_is_only_checked_registers_nothing(server: RegistryServer) -> None:
    options = {
        "value.format": "avro", "value.schema": json.dumps(AVRO), "value.registry.url": server.url,
        "value.registry.register": "true",
    }  # fmt: skip
    [encoding] = column_encodings(written_params(options, where="a test"), "clicks", may_register=False)
    assert (encoding.prefix, encoding.problem(KIND), server.posted) == (b"", None, [])


def test_rows_of_many_topics_need_a_subject(server: RegistryServer) -> None:
    with pytest.raises(OptionError, match=r"value\.registry\.subject.*must be given"):
        encodings(None, value__format="json", value__registry__url=server.url)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"value.format": "csv"}, "value.format"),
        ({"value.format": "protobuf"}, "needs the .proto file"),
        ({"value.format": "json", "value.message": "M"}, "means nothing to value.format = json"),
        ({"value.schema": "{}"}, "there is no value.format"),
        ({"value.format": "avro"}, "needs the schema"),
        ({"value.format": "avro", "value.schema": "{"}, "no JSON"),
        ({"value.format": "json", "value.schema": "{}"}, "means nothing to JSON without a registry"),
        ({"value.format": "json", "value.registry.register": "true"}, "there is no value.registry.url"),
        (
            {"value.format": "json", "value.registry.url": "http://r", "value.registry.register": "true"},
            "there is no value.schema",
        ),
        ({"value.format": "json", "value.on.error": "null"}, "says nothing about how a value or a key is written"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=r".*") as caught:
        written_params(options, where="a test")
    assert told in str(caught.value)


def test_columns_that_cannot_be_encoded_are_told() -> None:
    payload_encodings = encodings(value__format="json", key__format="avro", key__schema=json.dumps(AVRO))
    told = encoding_problems(pa.schema([("key", pa.string()), ("value", pa.string())]), payload_encodings)
    assert told == [
        "column 'value' cannot be json: string is no struct, or has parts that JSON has no form for",
        "column 'key' cannot be avro: the schema has record Click, and the rows have string: cast it in the transform",
    ]
    assert encoding_problems(pa.schema([("value", KIND)]), payload_encodings) == [
        "there is no column 'key', which key.format is about"
    ]


def test_a_value_without_an_encoding_is_an_error_with_its_row_and_field() -> None:
    payload_encodings = encodings(value__format="avro", value__schema=json.dumps(AVRO))
    batch = pa.record_batch({"value": pa.array([{"page": None, "user": "ann"}], KIND)})
    with pytest.raises(UnencodableRowError, match="the value of a row cannot be written as avro: row 0: page is null"):
        list(encoded([batch], payload_encodings))


def test_a_message_that_records_cannot_name_is_told(server: Any) -> None:
    with pytest.raises(OptionError, match=r"own file, and google\.protobuf\.Duration is none"):
        encodings(
            value__format="protobuf", value__schema=DURATION, value__message="google.protobuf.Duration",
            value__registry__url=server.url,
        )  # fmt: skip


DURATION = 'syntax = "proto3"; import "google/protobuf/duration.proto"; message M { google.protobuf.Duration d = 1; }'
