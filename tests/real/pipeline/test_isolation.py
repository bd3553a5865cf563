"""Records that make their batch fail: set apart as dead letters, while the rest of the batch goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.contract.kafka_harness import read_committed, wait_until_stable
from tests.real.pipeline.conftest import COUNT, QUERY, World

from directkafka import ArrowTransform, DeadLetterPolicy, DuckDBSink, KafkaSink, PostgresSink
from directkafka.errors import DirectKafkaError, OptionError, RowRejectedError, TransformError
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real

#: Among the numbers of the topic's batches, in two of its three partitions.
BAD = {0: b"no number", 1: b"\xff\x00bytes"}


#: Looked at by Postgres only at the end of a transaction.
DEFERRED = "UNIQUE DEFERRABLE INITIALLY DEFERRED"


def by_python(source: DataFrame) -> DataFrame:
    number = f.col("value").cast("string").cast("long").alias("number")
    return source.select("topic", "partition", "offset", number)


def by_udf(source: DataFrame) -> DataFrame:
    number = f.udf(lambda value: int(bytes(value)), "bigint")(f.col("value"))
    return source.select("topic", "partition", "offset", number.alias("number"))


def by_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in ("topic", "partition", "offset")}
    texts = pa.array([text.decode() for text in batch.column("value").to_pylist()], pa.string())
    return pa.record_batch({**columns, "number": pc.cast(texts, pa.int64())})


def by_arrow_or_null(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in ("topic", "partition", "offset")}
    numbers = [int(value) if value.isdigit() else None for value in batch.column("value").to_pylist()]
    return pa.record_batch({**columns, "number": pa.array(numbers, pa.int64())})


def add(world: World, *values: bytes, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": world.kafka})
    for value in values:
        producer.produce(world.topic, value, key=b"some key", headers={"kind": b"odd"}, partition=partition)
    assert producer.flush(30) == 0


def policy(world: World, **options: Any) -> DeadLetterPolicy:
    return DeadLetterPolicy(PostgresSink(world.dsn, "letters"), **({"on_error": "isolate"} | options))


def letters(world: World) -> list[tuple[Any, ...]]:
    return world.query('SELECT value, reason FROM letters ORDER BY topic, partition, "offset"')


@pytest.fixture
def bad() -> dict[int, bytes]:
    return BAD


@pytest.fixture
def mixed(world: World, bad: dict[int, bytes]) -> World:
    """Numbers with records among them that are none, and numbers behind these."""
    for partition, value in bad.items():
        add(world, value, partition=partition)
    add(world, *(str(number).encode() for number in range(COUNT, 2 * COUNT)), partition=1)
    return world


@pytest.mark.parametrize(
    ("transform", "bad"),
    [
        pytest.param(QUERY, BAD, id="sql", marks=pytest.mark.slow),
        pytest.param(by_python, BAD, id="python", marks=pytest.mark.slow),
        pytest.param(by_udf, BAD, id="udf", marks=pytest.mark.slow),
        pytest.param(ArrowTransform(by_arrow), BAD, id="arrow", marks=pytest.mark.slow),
        pytest.param(ArrowTransform(by_arrow), {0: BAD[0]}, id="arrow-one"),
    ],
)
def test_records_for_which_the_transform_raises_are_set_apart(
    transform: Any, mixed: World, bad: dict[int, bytes]
) -> None:
    pipeline = mixed.pipeline(transform, dead_letters=policy(mixed))
    pipeline.run()
    assert mixed.numbers() == list(range(2 * COUNT))
    dead_letters = letters(mixed)
    assert [bytes(value) for value, _ in dead_letters] == list(bad.values())
    assert all(reason.startswith("TransformError: ") for _, reason in dead_letters)
    assert all(finding.is_right for finding in verify(pipeline))
    totals = mixed.query("SELECT total_rows FROM directkafka_ledger WHERE pipeline = 'numbers'")
    assert totals == [({"records": 2 * COUNT, "letters": len(bad), "(records set apart)": len(bad)},)]
    kept = mixed.query("SELECT count(*) FROM letters WHERE key = 'some key' AND timestamp IS NOT NULL")
    assert kept == [(len(bad),)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transform", "lenient"),
    [
        (QUERY, QUERY.replace("CAST(CAST", "TRY_CAST(CAST")),
        (ArrowTransform(by_arrow), ArrowTransform(by_arrow_or_null)),
    ],
    ids=["sql", "arrow"],
)
def test_records_set_apart_cost_no_more_jobs_each_than_twice_the_logarithm_of_all(
    transform: Any, lenient: Any, mixed: World, spark: SparkSession
) -> None:
    def jobs_of(name: str, transform: Any) -> int:
        scheduler = spark._jsc.sc().dagScheduler()
        before = scheduler.numTotalJobs()
        source, sink = {"maxOffsetsPerTrigger": None}, PostgresSink(mixed.dsn, name)
        mixed.pipeline(transform, name=name, sinks=sink, source=source, dead_letters=policy(mixed)).run()
        return int(scheduler.numTotalJobs() - before)

    whole, cut = jobs_of("whole", lenient), jobs_of("cut", transform)
    assert mixed.query("SELECT count(*) FROM letters") == [(len(BAD),)]
    # One job writes the batch, and dead letters that are none take no job.
    assert whole == 1
    assert 0 < cut - whole <= 2 * math.log2(2 * COUNT + len(BAD)) * len(BAD)


@pytest.mark.parametrize(
    ("transform", "check"),
    [
        pytest.param(QUERY, "CHECK (number % 40 <> 0)", id="sql-check", marks=pytest.mark.slow),
        pytest.param(QUERY, DEFERRED, id="sql-deferred", marks=pytest.mark.slow),
        pytest.param(ArrowTransform(by_arrow), DEFERRED, id="arrow-deferred", marks=pytest.mark.slow),
    ],
)
def test_records_whose_rows_a_table_refuses_are_set_apart(transform: Any, check: str, world: World) -> None:
    world.query(f'CREATE TABLE records (topic text, partition int, "offset" bigint, number bigint {check})')
    refused = [0, 40, 80]
    if "UNIQUE" in check:
        world.query(f"INSERT INTO records (number) SELECT * FROM unnest(ARRAY{refused})")
    world.pipeline(transform, dead_letters=policy(world)).run()
    dead_letters = world.query("SELECT convert_from(value, 'UTF8')::int, reason FROM letters ORDER BY 1")
    assert [number for number, _ in dead_letters] == refused
    assert all(reason.startswith("RowRejectedError: ") and "records" in reason for _, reason in dead_letters)
    there = world.query("SELECT number FROM records WHERE topic IS NOT NULL ORDER BY 1")
    assert [number for (number,) in there] == [number for number in range(COUNT) if number not in refused]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_file_s_table_may_be_the_one_that_refuses(kind: str, world: World, tmp_path: Path) -> None:
    import sqlite3

    from directkafka import SQLiteSink

    path = tmp_path / f"air.{kind}"
    connect: Any = sqlite3.connect if kind == "sqlite" else duckdb.connect
    with closing(connect(str(path))) as connection:
        connection.execute('CREATE TABLE records (topic TEXT, "partition" INT, "offset" BIGINT, number BIGINT'
                           " CHECK (number <> 40))")  # fmt: skip
        connection.commit()
    make: Any = SQLiteSink if kind == "sqlite" else DuckDBSink
    dead = DeadLetterPolicy(make(path, "letters"), on_error="isolate")
    world.pipeline(QUERY, sinks=make(path, "records"), dead_letters=dead).run()
    with closing(connect(str(path))) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchall() == [(COUNT - 1,)]
        [(value, reason)] = connection.execute("SELECT value, reason FROM letters").fetchall()
    assert bytes(value) == b"40"
    assert reason.startswith("RowRejectedError: ")


@pytest.mark.slow
def test_a_row_that_cannot_be_encoded_is_set_apart(world: World) -> None:
    """Postgres has no NUL in a text: the task that writes refuses it."""
    add(world, b"a\0b")
    query = "SELECT topic, partition, offset, CAST(value AS STRING) AS number FROM source"
    world.pipeline(query, dead_letters=policy(world)).run()
    [(value, reason)] = letters(world)
    assert bytes(value) == b"a\0b"
    assert reason.startswith("RowRejectedError: ")
    assert len(world.numbers()) == COUNT


@pytest.mark.slow
def test_a_record_that_is_no_json_is_set_apart_where_that_is_an_error(
    world: World, create_topic: Callable[..., str]
) -> None:
    world.topic = create_topic(partitions=1)
    add(world, b'{"n": 4}', b"{", b'{"n": 5}')
    source = {"value.format": "json", "value.schema": "n INT", "value.on.error": "fail"}
    query = "SELECT topic, partition, offset, CAST(value.n AS BIGINT) AS number FROM source"
    world.pipeline(query, source=source, dead_letters=policy(world)).run()
    [(value, reason)] = letters(world)
    assert (bytes(value), reason.partition(":")[0]) == (b"{", "MalformedPayloadError")
    assert world.numbers() == [4, 5]


@pytest.mark.slow
def test_above_the_limit_the_pipeline_stops_and_the_batch_is_not_there(mixed: World) -> None:
    add(mixed, b"third", b"fourth")
    with pytest.raises(TransformError):
        mixed.pipeline(QUERY, dead_letters=policy(mixed, max_per_batch=1), source={"maxOffsetsPerTrigger": None}).run()
    assert mixed.numbers() == []
    assert letters(mixed) == []
    # With a higher one it goes on from there.
    mixed.pipeline(QUERY, dead_letters=policy(mixed, max_per_batch=4)).run()
    assert len(mixed.numbers()) == 2 * COUNT
    assert len(letters(mixed)) == 4


@pytest.mark.slow
def test_without_isolate_a_record_that_makes_its_batch_fail_stops_the_pipeline(mixed: World) -> None:
    with pytest.raises(TransformError):
        mixed.pipeline(QUERY, dead_letters=policy(mixed, on_error="fail")).run()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT partition, count(*) AS n FROM source GROUP BY 1", "an aggregate"),
        ("SELECT row_number() OVER (ORDER BY offset) AS n, topic FROM source", "an aggregate, a window"),
        ("SELECT DISTINCT topic FROM source", "removal of duplicates"),
        ("SELECT a.topic FROM source a JOIN source b USING (offset)", "a join of the batch with itself"),
        ("SELECT topic FROM source WHERE offset > (SELECT min(offset) FROM source)", "a subquery over the batch"),
        ("SELECT topic FROM source EXCEPT ALL SELECT 'a' FROM source", "a join of the batch with itself"),
    ],
)
def test_a_transform_whose_rows_depend_on_the_batch_is_refused_by_check(query: str, told: str, world: World) -> None:
    with pytest.raises(TransformError, match=told):
        world.pipeline(query, dead_letters=policy(world)).check()


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        f"{QUERY} UNION ALL {QUERY}",
        "SELECT s.topic, t.name FROM source s JOIN VALUES (0, 'zero'), (1, 'one') AS t(number, name)"
        " ON s.partition = t.number",
    ],
    ids=["plain", "union", "a table beside"],
)
def test_other_transforms_may_be_cut(query: str, world: World) -> None:
    world.pipeline(query, dead_letters=policy(world)).check()


@pytest.mark.slow
def test_rows_that_only_fail_together_stop_the_pipeline(world: World) -> None:
    """Two of a key with nothing between them: each alone is right."""
    world.query("CREATE TABLE records (topic text, partition int UNIQUE, number bigint)")
    sink = PostgresSink(world.dsn, "records", "upsert", ["partition"])
    query = "SELECT topic, partition, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source"
    with pytest.raises(RowRejectedError, match="rows of one batch have the key"):
        world.pipeline(query, sinks=sink, dead_letters=policy(world)).run()
    assert letters(world) == []


@pytest.mark.slow
def test_a_letter_that_its_own_table_refuses_stops_the_pipeline(mixed: World) -> None:
    mixed.query(
        'CREATE TABLE letters (topic text, partition int, "offset" bigint, timestamp timestamptz, key bytea, '
        "value bytea, reason text CHECK (reason NOT LIKE 'TransformError%'))"
    )
    with pytest.raises(DirectKafkaError, match="letters"):
        mixed.pipeline(QUERY, dead_letters=policy(mixed)).run()
    done = mixed.query("SELECT progress FROM directkafka_ledger WHERE pipeline = 'numbers'")[0][0]
    assert len(mixed.numbers()) == sum(part["end"] for part in done)


@pytest.mark.slow
def test_letters_may_go_to_a_topic(mixed: World, create_topic: Callable[..., str]) -> None:
    topic = create_topic(1)
    dead = DeadLetterPolicy(KafkaSink({"bootstrap.servers": mixed.kafka}, topic), on_error="isolate")
    name, source = f"letters-{topic[-8:]}", {"includeHeaders": "true"}
    mixed.pipeline(QUERY, dead_letters=dead, name=name, source=source).run()
    wait_until_stable(mixed.kafka, topic)
    records = read_committed(mixed.kafka, topic)
    assert sorted(record.value for record in records) == sorted(BAD.values())
    headers = dict(records[0].headers or ())
    assert headers["kind"] == b"odd"
    assert headers["directkafka.topic"] == mixed.topic.encode()
    assert headers["directkafka.reason"].startswith(b"TransformError: ")


@pytest.mark.slow
def test_both_kinds_of_letters_are_in_one_batch(mixed: World) -> None:
    """What the transform rejects by a reason, and what makes it raise."""
    query = QUERY.replace(" FROM source", ", CASE WHEN length(value) = 1 THEN 'short' END AS dead_letter_reason"
                          " FROM source")  # fmt: skip
    mixed.pipeline(query, dead_letters=policy(mixed), source={"maxOffsetsPerTrigger": None}).run()
    reasons = [reason.partition(":")[0] for _, reason in letters(mixed)]
    assert sorted(reasons) == ["TransformError"] * 2 + ["short"] * 10
    assert mixed.numbers() == list(range(10, 2 * COUNT))


def test_spark_s_own_batches_cannot_be_cut(world: World, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="planned by Spark"):
        world.pipeline(
            QUERY, dead_letters=policy(world), engine="structured", checkpoint=tmp_path / "checkpoint", trigger="1s"
        )
