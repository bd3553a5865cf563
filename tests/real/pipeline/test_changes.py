"""Pipelines that copy a table by its changes: the copy is the table, whatever batches there were."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.debezium_events import event, key, random_changes, text
from tests.real.pipeline.conftest import World

from directkafka import ArrowTransform, DeltaSink, DuckDBSink, Pipeline, PostgresSink, SQLiteSink
from directkafka.errors import OptionError, RowRejectedError
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real

SOURCE = {
    "value.format": "debezium-json",
    "value.schema": "id INT, name STRING",
    "maxOffsetsPerTrigger": "70",
}
#: A tombstone says again what the delete in front of it has said.
QUERY = "SELECT value.*, CAST(position AS BIGINT) AS position, offset, deleted, op FROM source WHERE op IS NOT NULL"
COPY: dict[str, Any] = {
    "mode": "upsert", "key": ["id"], "order": ["position", "offset"], "delete": "deleted", "truncate": True,
}  # fmt: skip


def flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What ``QUERY`` does, in the worker that reads."""
    row = batch.column("value")
    columns = {name: pc.struct_field(row, name) for name in ("id", "name")}
    columns["position"] = batch.column("position").cast(pa.int64())
    columns |= {name: batch.column(name) for name in ("offset", "deleted", "op")}
    made = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return made.filter(pc.is_valid(made.column("op")))


@pytest.fixture
def shop(world: World, create_topic: Callable[..., str]) -> tuple[World, dict[int, str]]:
    """A topic of changes, and the table as it was in the end."""
    changes = random_changes(400, 30, seed=11)
    topic = create_topic(partitions=1)
    producer = Producer({"bootstrap.servers": world.kafka})
    for change in changes:
        producer.produce(topic, key=change.key, value=change.value)
    assert producer.flush(60) == 0
    world.topic = topic
    return world, changes[-1].table


@pytest.mark.parametrize(
    "transform", [pytest.param(QUERY, id="sql", marks=pytest.mark.slow), pytest.param(ArrowTransform(flat), id="arrow")]
)
def test_a_table_is_copied_by_its_changes(
    transform: Any, shop: tuple[World, dict[int, str]], spark: SparkSession, tmp_path: Path
) -> None:
    world, table = shop
    sinks = [
        PostgresSink(world.dsn, "shop", **COPY),
        SQLiteSink(tmp_path / "shop.sqlite", "shop", **COPY),
        DuckDBSink(tmp_path / "shop.duckdb", "shop", **COPY),
        DeltaSink(tmp_path / "shop.delta", **COPY),
    ]
    pipeline = world.pipeline(transform, sinks=sinks, source=SOURCE)
    pipeline.run()
    assert dict(world.query("SELECT id, name FROM shop")) == table
    assert world.batch_id() > 3
    for connect, path in ((sqlite3.connect, "shop.sqlite"), (duckdb.connect, "shop.duckdb")):
        with closing(connect(str(tmp_path / path))) as connection:  # type: ignore[operator]
            assert dict(connection.execute("SELECT id, name FROM shop").fetchall()) == table
    rows = DeltaTable(tmp_path / "shop.delta").to_pyarrow_table().select(["id", "name"]).to_pydict()
    assert dict(zip(rows["id"], rows["name"], strict=True)) == table
    assert all(finding.is_right for finding in verify(pipeline))


def send(world: World, *changes: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": world.kafka})
    for change in changes:
        producer.produce(world.topic, key=key({"id": 1}), value=text(change))
    assert producer.flush(60) == 0


def more(world: World, *changes: dict[str, Any]) -> Pipeline:
    """The pipeline, after some more changes."""
    send(world, *changes)
    return world.pipeline(QUERY, sinks=PostgresSink(world.dsn, "shop", **COPY), source=SOURCE)


def at(lsn: int) -> dict[str, Any]:
    return {"lsn": lsn, "ts_ms": lsn}


@pytest.mark.slow
def test_a_column_that_the_table_gets_comes_to_the_copies(
    world: World, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The next start names it; rows of before have a null until they change."""
    world.topic = create_topic(partitions=1)
    options = {**COPY, "schema_policy": "add-columns"}

    def copied(schema: str) -> None:
        sinks = [PostgresSink(world.dsn, "shop", **options), SQLiteSink(tmp_path / "shop.sqlite", "shop", **options),
                 DeltaSink(tmp_path / "shop.delta", **options)]  # fmt: skip
        world.pipeline(QUERY, sinks=sinks, source={**SOURCE, "value.schema": schema}).run()

    rows = [event("c", after={"id": number, "name": "a"}, source=at(number)) for number in range(3)]
    send(world, *rows)
    copied("id INT, name STRING")
    send(world, event("u", rows[0]["after"], {"id": 0, "name": "b", "price": 1.5}, source=at(10)))
    send(world, event("c", after={"id": 3, "name": "c", "price": 2.5}, source=at(11)), event("d", before={"id": 1}))
    copied("id INT, name STRING, price DOUBLE")
    expected = [(0, "b", 1.5), (2, "a", None), (3, "c", 2.5)]
    assert sorted(world.query("SELECT id, name, price FROM shop")) == expected
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection:
        assert sorted(connection.execute("SELECT id, name, price FROM shop").fetchall()) == expected
    delta_rows = DeltaTable(tmp_path / "shop.delta").to_pyarrow_table().select(["id", "name", "price"]).to_pylist()
    assert sorted(tuple(row.values()) for row in delta_rows) == expected


def test_a_truncated_table_is_empty_and_fills_again(world: World, create_topic: Callable[..., str]) -> None:
    world.topic = create_topic(partitions=1)
    rows = [event("c", after={"id": number, "name": "a"}, source=at(number)) for number in range(5)]
    more(world, *rows).run()
    assert len(world.query("SELECT * FROM shop")) == 5
    more(world, event("t", source=at(10)), event("c", after={"id": 9, "name": "z"}, source=at(11))).run()
    assert world.query("SELECT id, name FROM shop") == [(9, "z")]


def test_a_truncate_is_an_error_where_nobody_has_allowed_it(world: World, create_topic: Callable[..., str]) -> None:
    world.topic = create_topic(partitions=1)
    more(world, event("c", after={"id": 1, "name": "a"}, source=at(1))).run()
    more(world, event("t", source=at(2)))
    sink = PostgresSink(world.dsn, "shop", **{**COPY, "truncate": False})
    query = QUERY.replace(", op FROM", " FROM")
    with pytest.raises(
        RowRejectedError, match="that of a TRUNCATE has none: with truncate = true it empties the table"
    ):
        world.pipeline(query, sinks=sink, source=SOURCE).run()
    assert world.query("SELECT id, name FROM shop") == [(1, "a")]


def test_dead_letters_are_not_replayed_into_a_table_whose_deleted_rows_are_gone(world: World) -> None:
    letters = PostgresSink(world.dsn, "letters")
    sinks = {"shop": PostgresSink(world.dsn, "shop", **COPY)}
    pipeline = world.pipeline({"shop": QUERY}, sinks=sinks, source=SOURCE, dead_letters=letters)
    with pytest.raises(OptionError, match="a row that was deleted since would come back"):
        pipeline.replay()


@pytest.mark.slow
def test_a_topic_whose_key_is_the_table_s_says_by_tombstones_what_is_deleted(
    world: World, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    """No connector of a database: a compacted topic of rows."""
    world.topic = create_topic(partitions=3)
    chance, table, producer = random.Random(3), dict[int, str](), Producer({"bootstrap.servers": world.kafka})
    for number in range(300):
        id_, name = chance.randrange(20), None if chance.random() < 0.3 else f"name {number}"
        table = {**table, id_: name} if name else {other: text for other, text in table.items() if other != id_}
        row = None if name is None else json.dumps({"name": name}).encode()
        producer.produce(world.topic, key=b"%d" % id_, value=row, partition=id_ % 3)
    assert producer.flush(60) == 0
    options = {"mode": "upsert", "key": ["id"], "order": ["offset"], "delete": "deleted"}
    sinks = [
        PostgresSink(world.dsn, "shop", **options), SQLiteSink(tmp_path / "shop.sqlite", "shop", **options),
        DuckDBSink(tmp_path / "shop.duckdb", "shop", **options), DeltaSink(tmp_path / "shop.delta", **options),
    ]  # fmt: skip
    query = "SELECT CAST(CAST(key AS STRING) AS INT) AS id, value.name, offset, value IS NULL AS deleted FROM source"
    source = {"value.format": "json", "value.schema": "name STRING", "value.on.error": "fail"}
    world.pipeline(query, sinks=sinks, source=source).run()
    expected = sorted(table.items())
    assert sorted(world.query("SELECT id, name FROM shop")) == expected
    for connect, path in ((sqlite3.connect, "shop.sqlite"), (duckdb.connect, "shop.duckdb")):
        with closing(connect(str(tmp_path / path))) as connection:  # type: ignore[operator]
            assert sorted(connection.execute("SELECT id, name FROM shop").fetchall()) == expected
    rows = DeltaTable(tmp_path / "shop.delta").to_pyarrow_table().select(["id", "name"]).to_pydict()
    assert sorted(zip(rows["id"], rows["name"], strict=True)) == expected


@pytest.mark.slow
def test_a_letter_that_is_replayed_brings_no_row_back_whose_delete_marked_it(
    world: World, create_topic: Callable[..., str]
) -> None:
    """Each row has a letter. Later, one row is deleted, and one is changed; the third is known by its letter alone."""
    world.topic = create_topic(partitions=1)
    rows = [event("c", after={"id": number, "name": "odd"}, source=at(number)) for number in range(3)]
    newer = event("u", after={"id": 1, "name": "newer"}, source=at(11))
    send(world, *rows, event("d", before={"id": 0}, source=at(10)), newer)
    options = {**COPY, "order": ["offset"], "delete_how": "soft", "truncate": False}

    def pipeline(query: str) -> Pipeline:
        letters = PostgresSink(world.dsn, "letters")
        return world.pipeline(
            query, sinks=PostgresSink(world.dsn, "shop", **options), source=SOURCE, dead_letters=letters
        )

    query = QUERY.replace(", op FROM", " FROM").replace("SELECT", "SELECT topic, partition,")
    reason = ", CASE WHEN value.name = 'odd' THEN 'odd' END AS dead_letter_reason FROM source"
    pipeline(query.replace(" FROM source", reason)).run()
    assert sorted(world.query("SELECT id, name, deleted FROM shop")) == [(0, None, True), (1, "newer", False)]
    assert pipeline(query).replay().replayed == 3
    shop_rows = sorted(world.query("SELECT id, name, deleted FROM shop"))
    assert shop_rows == [(0, None, True), (1, "newer", False), (2, "odd", False)]
    assert world.query("SELECT * FROM letters") == []


GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "cdc.md"


def test_the_guide_works_as_it_stands(
    world: World, create_topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [program] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    exec(compile(program, GUIDE.name, "exec"), {})
    [file] = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    topic = create_topic(partitions=1)
    file = file.replace('name = "orders"', 'name = "orders"\ntrigger = "available-now"')
    (tmp_path / "orders.toml").write_text(file.replace("shop.public.orders", topic))
    monkeypatch.setenv("KAFKA", world.kafka)
    monkeypatch.setenv("DSN", world.dsn)
    world.topic = topic
    row = {"id": 1, "customer": "Ada", "price": "1.50", "made": "2026-03-01T12:00:00Z"}
    send(world, event("c", after=row), event("u", row, {**row, "price": "2.50"}), event("c", after={**row, "id": 2}))
    send(world, event("d", before={"id": 2}, source=at(30_000_000)))
    Pipeline.from_toml(tmp_path / "orders.toml").run()
    assert world.query("SELECT id, customer, price::text FROM orders") == [(1, "Ada", "2.50")]


@pytest.mark.slow
def test_the_guide_s_soft_deletes_are_cleaned_up_by_its_statement(
    world: World, create_topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was deleted more than 7 days ago goes; what is there, or was deleted just now, stays."""
    [file] = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    [statement] = re.findall(r"```sql\n(DELETE .*?)```", GUIDE.read_text(), re.DOTALL)
    world.topic = create_topic(partitions=1)
    file = file.replace("shop.public.orders", world.topic).replace("truncate = true", 'delete_how = "soft"')
    file = file.replace('name = "orders"', 'name = "orders"\ntrigger = "available-now"')
    (tmp_path / "orders.toml").write_text(f'{file}delete_time = "source_ts"\n')
    monkeypatch.setenv("KAFKA", world.kafka)
    monkeypatch.setenv("DSN", world.dsn)
    long_ago, now = at(1), {"lsn": 2, "ts_ms": time.time_ns() // 1_000_000}
    rows = [event("c", after={"id": number, "customer": "Ada"}, source=long_ago) for number in range(3)]
    deletes = [event("d", before={"id": number}, source=when) for number, when in ((0, long_ago), (1, now))]
    send(world, *rows, *deletes)
    Pipeline.from_toml(tmp_path / "orders.toml").run()
    assert sorted(world.query("SELECT id, deleted FROM orders")) == [(0, True), (1, True), (2, False)]
    world.query(statement)
    assert sorted(world.query("SELECT id, deleted FROM orders")) == [(1, True), (2, False)]
