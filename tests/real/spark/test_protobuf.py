"""Protocol Buffers as a batch and in a pipeline: by a file, and under a registry with several messages in one topic."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.protobuf_records import compiled, message_class
from tests.real.kafka.logs import produce
from tests.registry_server import RegistryServer, running

import directkafka as dk

pytestmark = pytest.mark.real

Reading = Callable[..., Any]

FILE = """
syntax = "proto3"; package shop;
message Refund { int64 id = 1; }
message Order { int64 id = 1; string carrier = 2; optional int32 delay = 3; repeated Leg legs = 4; Leg first = 5; }
message Leg { string from = 1; uint64 metres = 2; }
"""
OLD = 'syntax = "proto3"; package shop; message Refund { int64 id = 1; } message Order { int32 id = 1; }'


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running() as server:
        server.add_text(1, OLD, schemaType="PROTOBUF")
        server.add_text(2, FILE, schemaType="PROTOBUF")
        yield server


def order(**fields: Any) -> bytes:
    record: bytes = message_class(compiled(FILE), "shop.Order")(**fields).SerializeToString()
    return record


def framed(schema: int, message: int, record: bytes) -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + (b"\0" if message == 0 else bytes([2, 2 * message])) + record


def test_a_file_says_what_the_columns_are(
    reading: Reading, servers: str, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = create_topic(1)
    legs = [{"from": "JFK", "metres": 2**64 - 1}, {"from": "LAX"}]
    produce(servers, topic, [order(id=1, carrier="UA", delay=0, legs=legs), order(id=-2, first={}), None, b""])
    file = tmp_path / "orders.proto"
    file.write_text(FILE)
    descriptor = tmp_path / "orders.desc"
    descriptor.write_bytes(compiled(FILE))
    for schema in (FILE, str(file), str(descriptor)):
        frame = reading(subscribe=topic, value__format="protobuf", value__schema=schema, value__message="Order").load()
        rows = [None if row.value is None else row.value.asDict(True) for row in frame.orderBy("offset").collect()]
        empty = {"id": 0, "carrier": "", "delay": None, "legs": [], "first": None}
        assert rows[1:] == [empty | {"id": -2, "first": {"from": "", "metres": 0}}, None, empty]
        assert (rows[0]["id"], rows[0]["delay"], rows[0]["legs"][0]["metres"]) == (1, 0, 2**64 - 1)


@pytest.mark.parametrize("execution", [pytest.param("spark", marks=pytest.mark.slow), "auto"])
def test_a_pipeline_under_a_registry_sets_other_messages_apart(
    execution: str,
    session: SparkSession,
    servers: str,
    create_topic: Callable[..., str],
    registry: RegistryServer,
    tmp_path: Path,
) -> None:
    topic = create_topic(1)
    records = [framed(1, 1, b"\x08\x01"), framed(2, 1, order(id=2, carrier="UA")), framed(2, 0, b"\x08\x03"), None]
    produce(servers, topic, [*records, b"{}", framed(2, 1, b"\x08")])
    registry.add_version_text(f"{topic}-value", "latest", 2, FILE, schemaType="PROTOBUF")
    path = tmp_path / "orders.sqlite"
    dk.Pipeline(
        "orders",
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "value.format": "protobuf",
            "value.message": "Order",
            "value.registry.url": registry.url,
            "value.on.error": "dead-letter",
        },
        transform="SELECT offset, value, value_schema_id FROM source" if execution == "spark" else None,
        sinks=dk.SQLiteSink(path, "orders"),
        dead_letters=dk.SQLiteSink(path, "rejected"),
        trigger="available-now",
        execution=execution,
    ).run()
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT offset, value ->> 'id', value ->> 'carrier', value_schema_id FROM orders ORDER BY offset"
        ).fetchall()
        letters = connection.execute("SELECT offset, reason FROM rejected ORDER BY offset").fetchall()
    assert rows == [(0, 1, "", 1), (1, 2, "UA", 2), (3, None, None, None)]
    assert [offset for offset, _ in letters] == [2, 4, 5]
    assert "it is a shop.Refund, and the columns are those of shop.Order" in letters[0][1]
    assert letters[2][1] == "the value is no protobuf: id: the record ends in the middle of it"
