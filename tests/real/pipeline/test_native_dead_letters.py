"""Dead letters of native pipelines, beside those of the same function where Spark carries the rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from tests.contract.kafka_harness import read_committed, wait_until_stable
from tests.contract.mysql_harness import MySQLHarness
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.test_native import native, number_of, numbered

from directkafka import ArrowTransform, DuckDBSink, KafkaSink, MySQLSink, PostgresSink, SQLiteSink, register
from directkafka.errors import DirectKafkaError, OptionError, TransformError

pytestmark = pytest.mark.real

ROUND = list(range(0, COUNT, 10))
OTHERS = [number for number in range(COUNT) if number not in ROUND]
_NONE = pa.scalar(None, pa.string())


def rejecting(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Every tenth number is rejected."""
    rows = numbered(batch)
    number = rows.column("number")
    is_round = pc.equal(pc.subtract(number, pc.multiply(pc.divide(number, 10), 10)), 0)
    text = pc.binary_join_element_wise(pc.cast(number, pa.string()), "is round", " ")
    return rows.append_column("dead_letter_reason", pc.if_else(is_round, text, _NONE))


@pytest.mark.parametrize("execution", ["auto", pytest.param("spark", marks=pytest.mark.slow)])
def test_every_record_is_a_row_or_a_letter_with_its_bytes_and_the_reason(execution: str, world: World) -> None:
    pipeline = world.pipeline(
        ArrowTransform(rejecting),
        dead_letters=PostgresSink(world.dsn, "rejected"),
        execution=execution,
        source={"includeHeaders": "true"},
    )
    if execution == "auto":
        native(pipeline)
    for _ in range(2):  # the second run finds nothing to do
        pipeline.run()
    assert world.numbers() == OTHERS
    letters = world.query("SELECT convert_from(value, 'UTF8')::int, reason FROM rejected ORDER BY 1")
    assert letters == [(number, f"{number} is round") for number in ROUND]
    counts = world.query("SELECT total_rows FROM directkafka_ledger WHERE pipeline = 'numbers'")
    assert counts == [({"records": len(OTHERS), "rejected": len(ROUND)},)]


@pytest.mark.parametrize("execution", ["auto", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_record_from_a_year_that_no_calendar_has_becomes_a_letter_without_a_time(
    execution: str, world: World, tmp_path: Path, create_topic: Callable[..., str]
) -> None:
    """Its producer has sent microseconds as milliseconds."""
    topic = create_topic(1, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = Producer({"bootstrap.servers": world.kafka})
    for timestamp_ms in (1_700_000_000_000, 1_700_000_000_000_000):
        producer.produce(topic, b"10", timestamp=timestamp_ms)
    assert producer.flush(30) == 0
    world.pipeline(
        ArrowTransform(rejecting),
        dead_letters=SQLiteSink(tmp_path / "letters.db", "rejected"),
        execution=execution,
        source={"subscribe": topic},
        name=f"far-{topic[-8:]}",
    ).run()
    with closing(sqlite3.connect(tmp_path / "letters.db")) as connection:
        times = connection.execute("SELECT timestamp FROM rejected ORDER BY offset").fetchall()
    assert times == [("2023-11-14 22:13:20.000000+00:00",), (None,)]


@pytest.mark.slow
def test_letters_go_into_every_store(
    world: World, tmp_path: Path, mysql_database: str, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    for number, sink in enumerate(
        [
            SQLiteSink(tmp_path / "air.sqlite", "rejected"),
            DuckDBSink(tmp_path / "air.duckdb", "rejected"),
            MySQLSink(mysql_database, "rejected"),
            KafkaSink({"bootstrap.servers": world.kafka}, topic),
        ]
    ):
        name = f"into-{number}-{topic[-8:]}"
        sinks = PostgresSink(world.dsn, f"records_{number}")
        transform = ArrowTransform(rejecting)
        native(world.pipeline(transform, sinks=sinks, dead_letters=sink, name=name)).run()
        rows = world.query(f"SELECT number FROM records_{number} ORDER BY 1")
        assert [row[0] for row in rows] == OTHERS
    rejected_rows = MySQLHarness(mysql_database).query("SELECT CAST(value AS CHAR), reason FROM rejected")
    assert sorted((int(value), reason) for value, reason in rejected_rows) == [(n, f"{n} is round") for n in ROUND]
    wait_until_stable(world.kafka, topic)
    records = sorted(read_committed(world.kafka, topic), key=lambda record: int(record.value))
    assert [int(record.value) for record in records] == ROUND
    headers = dict(records[1].headers or ())
    assert headers["directkafka.topic"] == world.topic.encode()
    assert headers["directkafka.reason"] == b"10 is round"


@pytest.mark.slow
@pytest.mark.parametrize("execution", ["auto", "spark"])
def test_what_is_replayed_goes_where_it_should_have_gone(execution: str, world: World) -> None:
    dead_letters = PostgresSink(world.dsn, "rejected")
    pipeline = world.pipeline(ArrowTransform(rejecting), dead_letters=dead_letters, execution=execution)
    pipeline.run()
    mended = world.pipeline(ArrowTransform(numbered), dead_letters=dead_letters, execution=execution)
    mended.replay()
    assert world.numbers() == list(range(COUNT))
    assert world.query("SELECT * FROM rejected") == []


def test_a_rejected_row_that_names_no_record_stops_the_pipeline(world: World) -> None:
    def elsewhere(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = rejecting(batch)
        return rows.set_column(1, "partition", pc.cast(pc.add(rows.column("partition"), 100), pa.int32()))

    with pytest.raises(DirectKafkaError, match="rows of records that are not in the batch"):
        world.pipeline(ArrowTransform(elsewhere), dead_letters=PostgresSink(world.dsn, "rejected")).run()
    assert world.query("SELECT * FROM rejected") == []


def test_rejecting_without_a_place_is_refused_before_the_first_batch(world: World) -> None:
    with pytest.raises(TransformError, match=r"add the section \[dead_letters\]"):
        world.pipeline(ArrowTransform(rejecting)).check()


NESTED = pa.struct(
    [
        ("n", pa.int64()),
        ("half", pa.float64()),
        ("odd", pa.float32()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("price", pa.decimal128(12, 3)),
        ("is", pa.bool_()),
        ("list", pa.list_(pa.struct([("a", pa.int32())]))),
        ("tags", pa.map_(pa.string(), pa.float64())),
        ("wide", pa.float64()),
        ("small", pa.float32()),
        ("named", pa.map_(pa.float64(), pa.int32())),
        ("none", pa.string()),
    ]
)


def with_struct(batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = numbered(batch)
    values = []
    for number in number_of(batch).to_pylist():
        values.append(
            None
            if number % 7 == 3
            else {
                "n": number,
                "half": number / 2,
                "odd": float("nan") if number % 5 == 0 else float("inf") if number % 5 == 1 else number / 8,
                "text": f'"\\/\b\f\n\r\t\x01\x7fé€😀{number}',
                "bytes": b"\x00\xff\x80"[: number % 4],
                "at": number * 1_000_001,
                "local": -number * 1_000_003,
                "day": number,
                "price": number,
                "is": number % 2 == 0,
                "list": [None, {"a": None}, {"a": number}][: number % 4],
                "wide": number * 1e9,
                "small": number / 2**20,
                "named": [(number * 1e7, 1), (float("nan"), None)],
                "tags": [(f"k{number}", None), ("1", 1.0)] if number % 3 else None,
            }
        )
    return rows.append_column("n", pa.array(values, NESTED))


@pytest.mark.slow
def test_nested_columns_are_the_same_json_as_by_spark(world: World, tmp_path: Path, mysql_database: str) -> None:
    rows_by_execution: dict[str, Any] = {}
    for execution in ("auto", "spark"):
        name = f"nested_{execution}"
        sqlite = SQLiteSink(tmp_path / f"{name}.sqlite", "records")
        sinks = {"default": [PostgresSink(world.dsn, name), sqlite, MySQLSink(mysql_database, name)]}
        pipeline = world.pipeline(ArrowTransform(with_struct), sinks=sinks, execution=execution, name=name)
        if execution == "auto":
            native(pipeline)
        pipeline.run()
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite")) as connection:
            texts = connection.execute("SELECT n FROM records ORDER BY number").fetchall()
        rows_by_execution[execution] = (
            world.query(f"SELECT n::text FROM {name} ORDER BY number"),
            texts,
            MySQLHarness(mysql_database).query(f"SELECT n FROM {name} ORDER BY number"),
        )
    for native_rows, by_spark in zip(rows_by_execution["auto"], rows_by_execution["spark"], strict=True):
        assert len(native_rows) == COUNT
        assert native_rows == by_spark


TEXTS = [
    b'{"number": 1}',
    b"{",
    b'{"number": "two"}',
    None,
    b'{"number": 5}',
    b"\xff",
    b'{"number": 7} x',
    b'{"number": 8',
]
SCHEMA = "number BIGINT"
PAYLOAD = {"value.format": "json", "value.schema": SCHEMA, "value.on.error": "dead-letter"}


def fields(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [batch.column(name) for name in ("topic", "partition", "offset")]
    number = batch.column("value").field(0)
    reason = pc.if_else(pc.equal(number, 5), "five", _NONE)
    return pa.RecordBatch.from_arrays(
        [*columns, number, reason], ["topic", "partition", "offset", "number", "dead_letter_reason"]
    )


FIELDS = (
    "SELECT topic, partition, offset, value.number, IF(value.number = 5, 'five', NULL) dead_letter_reason FROM source"
)
WAYS: dict[str, dict[str, Any]] = {
    "native": {"transform": ArrowTransform(fields)},
    "function by spark": {"transform": ArrowTransform(fields), "execution": "spark"},
    "query": {"transform": FIELDS},
    "structured": {"transform": FIELDS, "engine": "structured"},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_json_is_kept_as_it_came_and_can_be_replayed(
    way: str, world: World, tmp_path: Path, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(partitions=2)
    producer = Producer({"bootstrap.servers": world.kafka})
    for number, text in enumerate(TEXTS):
        producer.produce(topic, text, key=b"%d" % number, partition=number % 2)
    producer.flush()
    given: dict[str, Any] = {
        "source": PAYLOAD | {"subscribe": topic},
        "dead_letters": PostgresSink(world.dsn, "rejected"),
    }
    if way == "structured":
        given["checkpoint"] = tmp_path / "checkpoint"
    pipeline = world.pipeline(**(WAYS[way] | given))
    if way == "native":
        native(pipeline)
    pipeline.run()
    numbers = "SELECT number FROM records ORDER BY number NULLS LAST"
    assert world.query(numbers) == [(1,), (7,), (None,)]
    letters = world.query("SELECT convert_from(key, 'UTF8')::int, value, reason FROM rejected ORDER BY 1")
    assert [(number, value) for number, value, _ in letters] == [(n, TEXTS[n]) for n in (1, 2, 4, 5, 7)]
    reasons = {number: reason for number, _, reason in letters}
    assert reasons[4] == "five"
    assert all(reasons[number].startswith("the value is no json: ") for number in (1, 2, 5, 7)), reasons
    # Somebody mends a record by hand; the others are rejected again.
    world.query("UPDATE rejected SET value = '{\"number\": 3}' WHERE convert_from(key, 'UTF8') = '1'")
    pipeline.replay()
    assert world.query(numbers) == [(1,), (3,), (7,), (None,)]
    letters = world.query("SELECT convert_from(key, 'UTF8')::int, replays FROM rejected ORDER BY 1")
    assert letters == [(2, 1), (4, 1), (5, 1), (7, 1)]


def test_a_record_that_cannot_be_read_needs_a_place_to_go(world: World) -> None:
    with pytest.raises(OptionError, match=r"value\.on\.error.*pipelines with a place for such records"):
        world.pipeline(source=PAYLOAD)
    session = world.pipeline().session()
    register(session)
    reader = session.read.format("directkafka").options(**PAYLOAD)
    with pytest.raises(Exception, match="dead-letter is for pipelines with a place for such records"):
        reader.option("kafka.bootstrap.servers", world.kafka).option("subscribe", world.topic).load()
