"""The direct engine on the real things, beside crashes: sessions, triggers, outputs, checks and recounts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.real.kafka.logs import host_and_port, produce
from tests.real.kafka.proxy import KafkaProxy, advertise
from tests.real.pipeline.conftest import COUNT, QUERY, World
from tests.real.spark.test_groups import committed
from tests.waiting import WAIT_S, until

import directkafka as dk
from directkafka import PostgresSink
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real

#: The number of the Fetch API.
FETCH = 1


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


def test_a_run_has_as_many_shuffle_tasks_as_there_are_cores_once_its_executors_are_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then Spark knows of two cores of a cluster, however many it has."""
    sessions: list[SparkSession] = []

    def executors_come(session: SparkSession) -> None:
        sessions.append(session)
        session.conf.set("spark.sql.shuffle.partitions", "17")

    monkeypatch.setattr("directkafka.pipeline.pipeline.check_executors", executors_come)
    # The tests' application was told a number.
    monkeypatch.setattr("directkafka.pipeline.execution.session.application_setting", lambda *_: None)
    world.pipeline().run()
    (session,) = sessions
    assert session.conf.get("spark.sql.shuffle.partitions") == str(session.sparkContext.defaultParallelism)


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
    for pipeline in both:
        pipeline.start()
    for pipeline in both:
        pipeline.wait()
    assert world.query("SELECT sum(number), count(*) FROM left_side") == [(COUNT * (COUNT - 1) // 2, COUNT)]
    assert world.query("SELECT sum(number), count(*) FROM right_side") == [(-COUNT * (COUNT - 1) // 2, COUNT)]


PAUSE_S = 1.0


@dataclass
class Batches:
    """When a running pipeline's batches started and ended, in seconds; the report holds the first one for a pause."""

    records: list[int] = field(default_factory=list)
    started_s: list[float] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)
    wanted: int = COUNT

    def report(self, batch: BatchReport) -> None:
        now_s = time.monotonic()
        self.started_s.append(now_s - batch.total_ms / 1000)
        self.records.append(batch.records or 0)
        if len(self.records) == 1:
            self.is_over.wait(PAUSE_S)
        self.ended_s.append(time.monotonic())
        if sum(self.records) >= self.wanted:
            self.is_over.set()

    def run(self, world: World, trigger: Any) -> None:
        pipeline = world.pipeline(trigger=trigger, report=self.report)
        pipeline.start()
        assert self.is_over.wait(WAIT_S)
        pipeline.stop()
        assert world.numbers() == list(range(self.wanted))


#: Report and clock are read one after the other.
READING_S = 0.1


def test_an_interval_is_from_start_to_start_and_a_late_batch_starts_at_once(world: World) -> None:
    batches = Batches()
    batches.run(world, f"{PAUSE_S:.0f}s")
    _, second, third = batches.started_s
    assert second - batches.ended_s[0] < PAUSE_S
    assert third - second > PAUSE_S - READING_S


@pytest.mark.slow
def test_a_delay_is_from_end_to_start(world: World) -> None:
    batches = Batches()
    batches.run(world, {"delay": f"{PAUSE_S:.0f}s"})
    for ended_s, started_s in zip(batches.ended_s, batches.started_s[1:], strict=False):
        assert started_s - ended_s > PAUSE_S - READING_S


def twenty_wait(moment: dk.Moment) -> float:
    """A policy of one's own: now, if so many wait; else another look after a moment."""
    assert moment.backlog is not None
    assert moment.started_ms is not None, "the first batch asks nobody"
    return 0 if moment.backlog >= 20 else 50


@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param({"records": 20, "at_most": "1h"}, id="records"),
        pytest.param(twenty_wait, id="function", marks=pytest.mark.slow),
    ],
)
def test_a_backlog_is_waited_for_and_taken_as_one_batch(world: World, trigger: Any) -> None:
    batches = Batches(wanted=COUNT + 20)

    def produce_in_two_parts() -> None:
        until(lambda: sum(batches.records) == COUNT, "what was there at the start")
        for part in range(2):
            produce_numbers(world.kafka, world.topic, 10, first=COUNT + 10 * part)
            # Looks are 100 ms apart: a trigger of another kind would have taken the first part by itself.
            batches.is_over.wait(PAUSE_S)

    late = threading.Thread(target=produce_in_two_parts)
    late.start()
    batches.run(world, trigger)
    late.join()
    assert batches.records == [30, 30, 30, 20]


def test_records_that_are_too_young_are_not_read_yet(world: World, create_topic: Callable[..., str]) -> None:
    topic, now_ms = create_topic(partitions=1), int(time.time() * 1000)
    for number, age_s in enumerate((7200, 5400, 1800, 5400)):
        produce(world.kafka, topic, [b"%d" % number], timestamp_ms=now_ms - age_s * 1000)
    world.pipeline(source={"subscribe": topic, "minRecordAge": "1h"}).run()
    assert world.numbers() == [0, 1]


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


def test_several_outputs_change_together(world: World) -> None:
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


def test_several_outputs_read_kafka_once(world: World) -> None:
    def fetches(name: str, transform: Any, sinks: Any) -> int:
        with KafkaProxy(*host_and_port(world.kafka)) as proxy:
            address = f"127.0.0.1:{proxy.port}"
            proxy.change = advertise(world.kafka, address)
            source = {"kafka.bootstrap.servers": address}
            world.pipeline(transform, name=name, sinks=sinks, source=source).run()
            return proxy.requests[FETCH]

    fetch_count = fetches("one", QUERY, PostgresSink(world.dsn, "alone"))
    outputs = {name: PostgresSink(world.dsn, name) for name in ("first", "second")}
    two = fetches("two", lambda source: dict.fromkeys(outputs, source.select("partition", "offset")), outputs)
    assert world.query("SELECT count(*) FROM first") == world.query("SELECT count(*) FROM second") == [(COUNT,)]
    # As many as one output asks for; a second read would double them.
    assert fetch_count <= two < 2 * fetch_count


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
