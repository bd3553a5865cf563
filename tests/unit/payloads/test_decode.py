"""``dk.decode``: payloads in Arrow columns, in a program of the user's own."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import directkafka as dk

SCHEMA = "page STRING, at TIMESTAMP"
TEXTS = [b'{"page": "/a", "at": "2026-01-02T03:04:05Z"}', b'{"page": 7}', b"no JSON", b"", None]
PAGES = ["/a", "7", None, None, None]


def pages(structs: Any) -> list[str | None]:
    return [row and row["page"] for row in structs.to_pylist()]


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_json_becomes_structs_of_its_fields_row_by_row(kind: pa.DataType) -> None:
    texts = pa.array(TEXTS, pa.binary()).cast(kind)
    structs = dk.decode(texts, format="json", schema=SCHEMA)
    assert structs.type == pa.struct([("page", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
    assert pages(structs) == PAGES
    assert structs[0]["at"].as_py() == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def test_a_chunked_column_keeps_its_chunks_and_its_type_where_it_has_none() -> None:
    chunked = pa.chunked_array([pa.array(TEXTS[:2]), pa.array([], pa.binary()), pa.array(TEXTS[2:])])
    structs = dk.decode(chunked, format="json", schema=SCHEMA)
    assert [len(chunk) for chunk in structs.chunks] == [2, 0, 3]
    assert pages(structs) == PAGES
    none = dk.decode(pa.chunked_array([], pa.binary()), format="json", schema=SCHEMA)
    assert (len(none), none.type) == (0, structs.type)


def test_a_batch_has_the_named_column_decoded_and_the_others_as_they_were() -> None:
    batch = pa.record_batch({"offset": range(5), "body": TEXTS, "value": TEXTS})
    decoded = dk.decode(batch, format="json", schema=SCHEMA, column="body")
    assert decoded.schema.names == ["offset", "body", "value"]
    assert pages(decoded.column("body")) == PAGES
    assert decoded.select(["offset", "value"]).equals(batch.select(["offset", "value"]))


def test_a_time_without_a_zone_is_of_the_zone_that_is_named() -> None:
    texts = pa.array([b'{"at": "2026-01-02T03:04:05"}'])
    read = dk.decode(texts, format="json", schema=SCHEMA, time_zone="America/New_York")
    assert read[0]["at"].as_py() == datetime.datetime(2026, 1, 2, 8, 4, 5, tzinfo=datetime.UTC)


def test_strings_are_utf_8_and_what_is_none_is_null() -> None:
    texts = dk.decode(pa.array(["zürich".encode(), b"", b"\xff", None], pa.binary()), format="string")
    assert (texts.type, texts.to_pylist()) == (pa.string(), ["zürich", "", None, None])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "xml"}, "option 'format': expected json, avro, protobuf, string, .* found 'xml'"),
        ({"format": "json"}, "option 'schema': JSON has one in Spark's DDL"),
        ({"format": "string", "schema": "a INT"}, "option 'schema': .*strings have none"),
        ({"format": "json", "schema": "a INT", "message": "A"}, "option 'message': means nothing to json"),
        ({"format": "json", "schema": "a WORD"}, "option 'schema': .*WORD"),
        ({"format": "json", "schema": "a INT", "time_zone": "Mars/North"}, "option 'time_zone': .*'Mars/North'"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(dk.OptionError, match=message):
        dk.decode(pa.array([b"{}"]), **arguments)
