"""The direct engine on the real things, beside crashes: sessions, triggers, outputs, checks and recounts."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.real.pipeline.conftest import COUNT, QUERY, World
from tests.real.sources.test_groups import committed

from directkafka import PostgresSink
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real


def test_batches_follow_each_other_and_are_reported(world: World) -> None:
    reports: list[BatchReport] = []
    world.pipeline(report=reports.append).run()
    assert [report.batch_id for report in reports] == [1, 2, 3]
    assert [report.records for report in reports] == [30, 30, 30]
    assert [report.backlog for report in reports] == [60, 30, 0]
    assert [dict(report.rows) for report in reports] == [{"records": 30}] * 3
    assert world.numbers() == list(range(COUNT))


def test_each_batch_is_in_the_consumer_group_once_it_is_in_the_ledger(world: World) -> None:
    group, seen = f"lag-{world.topic}", list[int]()

    def report(_: BatchReport) -> None:
        seen.append(sum(committed(world.kafka, group, world.topic, PARTITIONS).values()))

    world.pipeline(source={"commitToGroup": group}, report=report).run()
    assert seen == [30, 60, 90]


def test_a_run_with_nothing_new_commits_nothing(world: World) -> None:
    world.pipeline().run()
    before = world.query("SELECT batch_id, progress FROM directkafka_ledger")
    world.pipeline().run()
    assert world.query("SELECT batch_id, progress FROM directkafka_ledger") == before


def test_an_existing_session_is_used_and_left_as_it_was(world: World, spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("source")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    pipeline = world.pipeline()
    assert pipeline.session().sparkContext is spark.sparkContext
    pipeline.run()
    assert spark.table("source").columns == ["id"]
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
    assert spark.range(3).count() == 3
    spark.catalog.dropTempView("source")


def test_two_pipelines_of_one_process_do_not_meet(world: World) -> None:
    both = [
        world.pipeline(name="left", sinks=PostgresSink(world.dsn, "left_side")),
        world.pipeline(
            "SELECT topic, partition, offset, -CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source",
            name="right",
            sinks=PostgresSink(world.dsn, "right_side"),
        ),
    ]
    for one in both:
        one.start()
    for one in both:
        one.wait()
    assert world.query("SELECT sum(number), count(*) FROM left_side") == [(COUNT * (COUNT - 1) // 2, COUNT)]
    assert world.query("SELECT sum(number), count(*) FROM right_side") == [(-COUNT * (COUNT - 1) // 2, COUNT)]


@pytest.mark.parametrize(
    "trigger", ["100ms", {"delay": "50ms"}, {"records": 20, "at_most": "200ms"}], ids=["interval", "delay", "backlog"]
)
def test_a_trigger_takes_new_records_until_it_is_stopped(world: World, trigger: Any) -> None:
    arrived = threading.Event()
    wanted = COUNT + 30

    def report(batch: BatchReport) -> None:
        seen = len(world.numbers())
        if seen == COUNT:
            produce_numbers(world.kafka, world.topic, 30, first=COUNT)
        if seen == wanted:
            arrived.set()

    pipeline = world.pipeline(trigger=trigger, report=report)
    pipeline.start()
    assert arrived.wait(60)
    pipeline.stop()
    assert world.numbers() == list(range(wanted))


def test_latest_means_the_moment_of_the_first_start(world: World) -> None:
    latest = {"startingOffsets": "latest"}
    world.pipeline(source=latest).run()
    produce_numbers(world.kafka, world.topic, 30, first=COUNT)
    world.pipeline(source=latest).run()
    assert world.numbers() == list(range(COUNT, COUNT + 30))


def test_a_partition_added_later_is_read_from_its_beginning(world: World) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    world.pipeline().run()
    admin = AdminClient({"bootstrap.servers": world.kafka})
    admin.create_partitions([NewPartitions(world.topic, 4)])[world.topic].result(30)
    producer = Producer({"bootstrap.servers": world.kafka})
    for number in (1000, 1001):
        producer.produce(world.topic, str(number).encode(), partition=3)
    assert producer.flush(30) == 0
    world.pipeline().run()
    assert world.numbers() == [*range(COUNT), 1000, 1001]


def test_records_of_an_aborted_transaction_never_arrive(world: World) -> None:
    producer = Producer({"bootstrap.servers": world.kafka, "transactional.id": world.topic})
    producer.init_transactions(30)
    for numbers, end in (((500, 501), producer.abort_transaction), ((600, 601), producer.commit_transaction)):
        producer.begin_transaction()
        for number in numbers:
            producer.produce(world.topic, str(number).encode(), partition=0)
        end(30)
    world.pipeline().run()
    assert world.numbers() == [*range(COUNT), 600, 601]


def test_several_outputs_change_together_and_read_kafka_once(world: World) -> None:
    def transform(source: Any) -> dict[str, Any]:
        records = source.select("partition", "offset", f.col("value").cast("string").cast("long").alias("number"))
        return {"records": records, "sums": records.groupBy("partition").agg(f.sum("number").alias("number"))}

    reports: list[BatchReport] = []
    sinks = {
        "records": PostgresSink(world.dsn, "records"),
        "sums": PostgresSink(world.dsn, "sums", "merge", key=["partition"], add=["number"]),
    }
    world.pipeline(transform, sinks=sinks, report=reports.append).run()
    assert [report.records for report in reports] == [30, 30, 30]
    by_partition = world.query("SELECT partition, sum(number) FROM records GROUP BY 1 ORDER BY 1")
    assert world.query("SELECT partition, number FROM sums ORDER BY 1") == by_partition


def test_two_databases_of_one_pipeline_get_the_same_rows(world: World, postgres: Any) -> None:
    other = postgres.create_database("second_of_two")
    try:
        sinks = [PostgresSink(world.dsn, "records"), PostgresSink(other, "records")]
        world.pipeline(sinks=sinks).run()
        with psycopg.connect(other) as connection:
            there = connection.execute("SELECT number FROM records ORDER BY number").fetchall()
        assert [number for (number,) in there] == world.numbers() == list(range(COUNT))
    finally:
        postgres.drop_database("second_of_two")


def test_check_reads_no_record_and_writes_no_row(world: World) -> None:
    remarks = world.pipeline("SELECT partition, count(*) AS number FROM source GROUP BY partition").check()
    assert any("within each batch" in remark for remark in remarks)
    assert world.query("SELECT count(*) FROM pg_class WHERE relname = 'directkafka_ledger'") == [(0,)]


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        ("SELECT 1", None),
        ("DELETE FROM records WHERE number = 7", "rows"),
        ("INSERT INTO records SELECT * FROM records WHERE number = 7", "doubled"),
    ],
    ids=["nothing", "a lost row", "a doubled row"],
)
def test_verify_tells_right_from_wrong(world: World, damage: str, wrong: str | None) -> None:
    world.pipeline().run()
    world.query(damage)
    (finding,) = verify(world.pipeline())
    assert finding.is_right == (wrong is None)
    assert finding.expected_rows == finding.ledger_rows == COUNT
    assert (finding.table.doubled == 1) == (wrong == "doubled")
    assert (finding.table.rows == COUNT) == (wrong is None)


def test_a_table_that_several_tasks_stage_into_has_every_row_once(world: World) -> None:
    reports: list[BatchReport] = []
    sink = PostgresSink(world.dsn, "records", inline_bytes_max=0)
    world.pipeline(QUERY, sinks=sink, source={"minPartitions": "6"}, report=reports.append).run()
    assert sum(report.rows["records"] for report in reports) == COUNT
    assert world.numbers() == list(range(COUNT))
    assert world.query("SELECT relname FROM pg_class WHERE relname LIKE 'directkafka_stage%'") == []


def test_ignore_keeps_rows_that_are_there_already(world: World) -> None:
    world.query('CREATE TABLE records (topic text, partition int, "offset" bigint, number bigint UNIQUE)')
    world.query("INSERT INTO records VALUES ('mine', 0, 0, 3), ('mine', 0, 0, 4)")
    world.pipeline(sinks=PostgresSink(world.dsn, "records", "ignore", key=["number"])).run()
    assert world.numbers() == list(range(COUNT))
    assert world.query("SELECT count(*) FROM records WHERE topic = 'mine'") == [(2,)]
