"""Records that a transform rejects: kept with their bytes and the reason, once, beside those that went through."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.contract.kafka_harness import read_committed, wait_until_stable
from tests.real.pipeline.conftest import COUNT, World

from directkafka import DuckDBSink, KafkaSink, Pipeline, PostgresSink
from directkafka.errors import DirectKafkaError, SchemaMismatchError, TransformError
from directkafka.pipeline.execution.dead_letters import LookOnly, Records, Rejected, divert
from directkafka.pipeline.execution.rejection import DEAD_LETTERS, REASON
from directkafka.sinks.capabilities import SinkCapabilities
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

NUMBER = "CAST(CAST(value AS STRING) AS BIGINT)"
#: Every tenth number is rejected.
QUERY = (
    f"SELECT topic, partition, offset, {NUMBER} AS number, "
    f"CASE WHEN {NUMBER} % 10 = 0 THEN concat(CAST(value AS STRING), ' is round') END AS dead_letter_reason FROM source"
)
ROUND = list(range(0, COUNT, 10))


def rejected(world: World, table: str = "rejected") -> list[tuple[Any, ...]]:
    return world.query(f"SELECT convert_from(value, 'UTF8')::int, reason FROM {table} ORDER BY 1")


def test_rejected_records_lie_beside_the_others_with_their_bytes_and_the_reason(world: World) -> None:
    sink = PostgresSink(world.dsn, "rejected")
    for _ in range(2):  # the second run finds nothing to do
        world.pipeline(QUERY, dead_letters=sink).run()
    assert world.numbers() == [number for number in range(COUNT) if number not in ROUND]
    assert rejected(world) == [(number, f"{number} is round") for number in ROUND]
    columns = world.query(
        "SELECT attname::text, atttypid::regtype::text FROM pg_attribute "
        "WHERE attrelid = 'rejected'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert dict(columns) == {
        "topic": "text", "partition": "integer", "offset": "bigint", "timestamp": "timestamp with time zone",
        "key": "bytea", "value": "bytea", "reason": "text",
    }  # fmt: skip
    places = world.query('SELECT topic, partition, "offset" FROM rejected')
    assert not set(places) & set(world.query('SELECT topic, partition, "offset" FROM records'))
    counts = world.query("SELECT total_rows FROM directkafka_ledger WHERE pipeline = 'numbers'")
    assert counts == [({"records": COUNT - len(ROUND), "rejected": len(ROUND)},)]


def test_rows_and_rejected_records_of_a_store_arrive_together_or_not_at_all(world: World) -> None:
    """The table of the rejected refuses its rows: the others' batch is not there either."""
    world.query(
        'CREATE TABLE rejected (topic text, partition int, "offset" bigint, timestamp timestamptz, key bytea, '
        "value bytea, reason text CHECK (reason NOT LIKE '40%'))"
    )
    with pytest.raises(Exception, match="rejected"):
        world.pipeline(QUERY, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    done = world.numbers()
    assert 0 < len(done) < COUNT - len(ROUND)
    assert len(done) + len(rejected(world)) == 30 * world.batch_id()


def by_function(source: DataFrame) -> Mapping[str, DataFrame]:
    number = f.col("value").cast("string").cast("long").alias("number")
    numbers = source.select("topic", "partition", "offset", number)
    return {
        "default": numbers.where("number % 10 > 0"),
        "dead_letters": numbers.where("number % 10 = 0").withColumn("reason", f.lit("round")),
    }


@pytest.mark.slow
def test_a_function_may_give_the_rejected_records_itself(world: World, tmp_path: Path) -> None:
    """Into another store, here; what it gives beside record and reason is left out."""
    world.pipeline(by_function, dead_letters=DuckDBSink(tmp_path / "air.duckdb", "rejected")).run()
    assert len(world.numbers()) == COUNT - len(ROUND)
    with duckdb.connect(str(tmp_path / "air.duckdb")) as connection:
        rejected_rows = connection.execute(
            "SELECT CAST(CAST(value AS VARCHAR) AS INT), reason FROM rejected ORDER BY 1"
        ).fetchall()
    assert rejected_rows == [(number, "round") for number in ROUND]


@pytest.mark.slow
def test_a_topic_of_dead_letters_has_the_bytes_and_headers_that_tell(
    world: World, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    sink = KafkaSink({"bootstrap.servers": world.kafka}, topic)
    world.pipeline(QUERY, dead_letters=sink, name=f"letters-{topic[-8:]}").run()
    wait_until_stable(world.kafka, topic)
    records = sorted(read_committed(world.kafka, topic), key=lambda record: int(record.value))
    assert [int(record.value) for record in records] == ROUND
    headers = dict(records[1].headers or ())
    assert headers["directkafka.topic"] == world.topic.encode()
    assert headers["directkafka.reason"] == b"10 is round"
    assert {"directkafka.partition", "directkafka.offset"} <= headers.keys()


@pytest.mark.slow
def test_a_reason_that_is_another_each_time_still_puts_each_record_in_one_place(world: World) -> None:
    """The transform runs once, and its rows are cut in two."""
    query = QUERY.replace(f"{NUMBER} % 10 = 0", "rand() < 0.5")
    world.pipeline(query, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    dead_letters = [number for number, _ in rejected(world)]
    assert sorted(world.numbers() + dead_letters) == list(range(COUNT))
    assert dead_letters


def test_a_rejected_row_that_names_no_record_stops_the_pipeline(world: World) -> None:
    """It would be in neither place."""
    query = QUERY.replace("topic, partition, offset", "topic, partition + 100 AS partition, offset")
    with pytest.raises(DirectKafkaError, match=r"a rejected row names no record of the batch: topic .*, partition 10"):
        world.pipeline(query, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    assert rejected(world) == []


@pytest.mark.slow
def test_a_record_that_is_rejected_twice_is_one_letter_with_both_reasons(world: World) -> None:
    def twice(source: DataFrame) -> dict[str, DataFrame]:
        records = source.select("topic", "partition", "offset")
        dead_letters = [records.withColumn("reason", f.lit(reason)) for reason in ("too round", "too late")]
        return {"default": records, "dead_letters": dead_letters[0].unionByName(dead_letters[1])}

    world.pipeline(twice, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    assert world.query("SELECT reason, count(*) FROM rejected GROUP BY 1") == [("too late; too round", COUNT)]


def test_rejecting_without_a_place_is_refused_before_the_first_batch(world: World) -> None:
    with pytest.raises(TransformError, match=r"add the section \[dead_letters\]"):
        world.pipeline(QUERY).check()


def test_a_rejected_row_must_say_which_record_it_is(world: World) -> None:
    query = "SELECT offset, 'no' AS dead_letter_reason FROM source"
    with pytest.raises(TransformError, match="without the columns topic, partition, which say"):
        world.pipeline(query, dead_letters=PostgresSink(world.dsn, "rejected")).check()


@pytest.mark.slow
def test_a_pipeline_that_rejects_nothing_may_have_a_place_for_it(world: World) -> None:
    world.pipeline(dead_letters=PostgresSink(world.dsn, "rejected")).run()
    assert (len(world.numbers()), rejected(world)) == (COUNT, [])


@pytest.mark.slow
def test_the_file_has_a_section_for_them(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSN", world.dsn)
    path = tmp_path / "numbers.toml"
    path.write_text(
        '[pipeline]\nname = "numbers"\ntrigger = "available-now"\n'
        f'[source]\n"kafka.bootstrap.servers" = "{world.kafka}"\n'
        f'subscribe = "{world.topic}"\nstartingOffsets = "earliest"\n[transform]\nsql = """{QUERY}"""\n'
        '[[sink]]\ntype = "postgres"\ndsn = "${DSN}"\ntable = "records"\n'
        '[dead_letters]\ntype = "postgres"\ndsn = "${DSN}"\ntable = "flights_rejected"\n'
    )
    Pipeline.from_toml(path).run()
    assert [number for number, _ in rejected(world, "flights_rejected")] == ROUND


def test_a_table_that_is_no_table_of_dead_letters_is_refused(world: World) -> None:
    world.query("CREATE TABLE rejected (topic text)")
    with pytest.raises(SchemaMismatchError, match="'reason'"):
        world.pipeline(QUERY, dead_letters=PostgresSink(world.dsn, "rejected")).check()


@pytest.mark.slow
def test_four_million_letters_of_a_batch_fit_a_driver_of_a_gigabyte(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path
) -> None:
    count, at_once = 4_000_000, 50_000
    topic = create_topic(partitions=PARTITIONS)
    for first in range(0, count, at_once):
        produce_numbers(kafka_broker.bootstrap_servers, topic, at_once, first)
    program = Path(__file__).parent / "many_letters.py"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(program), kafka_broker.bootstrap_servers, database, topic]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1_200, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    world = World(kafka=kafka_broker.bootstrap_servers, dsn=database, topic=topic)
    assert world.query('SELECT count(*), count(DISTINCT (partition, "offset")) FROM rejected') == [(count, count)]
    assert world.query("SELECT batch_id FROM directkafka_ledger") == [(1,)]


class Counted(LookOnly):
    """So much is rejected, it says."""

    def __init__(self, rejected: Rejected) -> None:
        self._rejected = rejected

    def measure(self, rejected: DataFrame) -> Rejected:
        return self._rejected


@pytest.mark.parametrize(
    ("rows", "reason_bytes", "is_sent"), [(1_000, 100_000, True), (100_000, 0, False), (1_000, 5_000_000, False)]
)
def test_rejected_rows_are_sent_to_each_task_only_where_they_are_few(
    spark: SparkSession, rows: int, reason_bytes: int, is_sent: bool
) -> None:
    """Spark makes a table of what it sends in the driver's memory."""
    record = "'t' AS topic, 0 AS partition, id AS offset, binary('v') AS value"
    source = spark.range(1_000).selectExpr(*record.split(", "))
    output = source.withColumn(REASON, f.concat(f.lit("why "), f.col("offset")))
    sink: Any = SimpleNamespace(capabilities=SinkCapabilities())
    dead_letters = divert({"default": output}, Records.of(source), sink, Counted(Rejected(rows, reason_bytes)))[
        DEAD_LETTERS
    ]
    jvm_frame: Any = dead_letters._jdf
    plan = str(jvm_frame.queryExecution().executedPlan().toString())
    assert plan.count("BroadcastExchange") == is_sent, plan
    assert dead_letters.count() == 1_000


@pytest.mark.slow
def test_more_letters_than_may_be_sent_to_each_task_are_found_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("directkafka.pipeline.execution.dead_letters._SENT_BYTES_MAX", 0)
    world.pipeline(QUERY, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    assert world.numbers() == [number for number in range(COUNT) if number not in ROUND]
    assert rejected(world) == [(number, f"{number} is round") for number in ROUND]
