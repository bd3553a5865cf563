"""A database's changes as a batch, a stream and an RDD: rows, and what happened to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.debezium_events import MYSQL, event, key, text

import directkafka as dk

pytestmark = pytest.mark.real

Reading = Callable[..., Any]
OPTIONS = {"value__format": "debezium-json", "value__schema": "id INT, name STRING"}
PEN = {"id": 1, "name": "pen"}


@pytest.fixture
def changes(servers: str, create_topic: Callable[..., str]) -> str:
    topic = create_topic(1)
    producer = Producer({"bootstrap.servers": servers})
    values = [text(event("c", after=PEN, source=MYSQL)), text(event("d", source=MYSQL)), None, text(event("t"))]
    for number, value in enumerate([*values, b'{"id": 5}']):
        producer.produce(topic, value=value, key=key({"id": number}))
    assert producer.flush(60) == 0
    return topic


def test_a_change_is_its_row_and_what_happened_to_it(reading: Reading, changes: str) -> None:
    frame = reading(subscribe=changes, endingOffsets=json.dumps({changes: {"0": 4}}), **OPTIONS).load()
    types = dict(frame.dtypes)
    assert {name: types[name] for name in ("value", "op", "deleted", "source_ts", "position")} == {
        "value": "struct<id:int,name:string>", "op": "string", "deleted": "boolean", "source_ts": "timestamp",
        "position": "decimal(38,0)",
    }  # fmt: skip
    rows = frame.orderBy("offset").select("value.*", "op", "deleted", "position", "key").collect()
    position = Decimal(3_000_000_000_484)
    assert [tuple(row)[:5] for row in rows] == [
        (1, "pen", "c", False, position), (1, None, "d", True, position), (2, None, None, True, None),
        (None, None, "t", False, Decimal(24_023_128)),
    ]  # fmt: skip
    assert bytes(rows[0].key) == b'{"id": 0}'


def test_columns_of_a_change_are_read_without_its_row(reading: Reading, changes: str) -> None:
    frame = reading(subscribe=changes, endingOffsets=json.dumps({changes: {"0": 4}}), **OPTIONS).load()
    assert [row.deleted for row in frame.orderBy("offset").select("deleted", "offset").collect()] == [
        False, True, True, False,
    ]  # fmt: skip
    assert frame.where("op = 't'").count() == 1


def test_a_record_that_is_no_change_is_told_with_its_place(reading: Reading, changes: str) -> None:
    with pytest.raises(Exception, match=f"topic {changes}, partition 0 at offset 4 cannot be read as debezium-json"):
        reading(subscribe=changes, **OPTIONS).load().collect()
    rows = reading(subscribe=changes, value__on__error="null", **OPTIONS).load().orderBy("offset").collect()
    assert [row.value_error is None for row in rows] == [True] * 4 + [False]


def test_a_stream_gives_the_same(streaming: Reading, session: SparkSession, changes: str) -> None:
    stream = streaming(subscribe=changes, startingOffsets="earliest", value__on__error="null", **OPTIONS).load()
    query = (
        stream.select("value.id", "deleted")
        .writeStream.format("memory").queryName("changed").trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(60)
    rows = [tuple(row) for row in session.table("changed").collect()]
    assert sorted(rows, key=str) == [(1, False), (1, True), (2, True), (None, False), (None, False)]
    session.catalog.dropTempView("changed")


def test_an_rdd_s_batches_have_the_columns(session: SparkSession, servers: str, changes: str) -> None:
    params = {"bootstrap.servers": servers, "value.format": "debezium-json", "value.schema": "id INT"}
    rdd = dk.create_rdd(session.sparkContext, params, [dk.OffsetRange(changes, 0, 0, 4)], arrow_handler=ids_and_ops)
    assert rdd.collect() == [(1, "c"), (1, "d"), (2, None), (None, "t")]


def ids_and_ops(batch: pa.RecordBatch) -> list[tuple[int | None, str | None]]:
    ids = [None if value is None else value["id"] for value in batch.column("value").to_pylist()]
    return list(zip(ids, batch.column("op").to_pylist(), strict=True))
