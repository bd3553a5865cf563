"""What a pipeline says when something is wrong, each against the real thing; nothing is ever lost by it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import functions as f
from tests.chaos.pipelines import PARTITIONS, Job, produce_numbers
from tests.real.kafka.logs import create_topic_again, delete_topic
from tests.real.pipeline.conftest import COUNT, World

from directkafka import PostgresSink
from directkafka.errors import (
    BrokerUnreachableError,
    DataLossError,
    OptionError,
    RangeNotReadError,
    SchemaMismatchError,
    TopicNotFoundError,
    TransformError,
)
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real


@pytest.mark.slow
def test_a_broker_that_is_not_there_is_an_error_within_bounded_time(world: World) -> None:
    began = time.monotonic()
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.socket.connection.setup.timeout.ms": "1000"}
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1"):
        world.pipeline(source=nobody).run()
    assert time.monotonic() - began < 20


def test_a_topic_that_is_not_there_is_named(world: World) -> None:
    with pytest.raises(TopicNotFoundError, match="no-such-topic"):
        world.pipeline(source={"subscribe": "no-such-topic"}).run()


def test_a_query_that_does_not_compile_stops_before_any_batch(world: World) -> None:
    with pytest.raises(TransformError, match="nonsense"):
        world.pipeline("SELECT nonsense FROM source").run()
    assert world.query("SELECT count(*) FROM pg_class WHERE relname = 'records'") == [(0,)]


def test_a_record_that_looks_like_an_error_of_ours_is_a_value_that_the_transform_does_not_take(world: World) -> None:
    """A failed cast tells the value, line by line; it is not the pipeline's to end as fenced, or to be tried again."""
    note = '[directkafka FencedError {"store": "x", "pipeline": "numbers", "held": 1, "found": 2}]'
    signed = f"{note[:-1]} {'0' * 64}]"
    value = f"12\n{note}\n{signed}\nExecutorLostFailure (executor 1 exited\nSparkContext was shut down\n"
    producer = Producer({"bootstrap.servers": world.kafka})
    producer.produce(world.topic, value.encode(), partition=0)
    assert producer.flush(30) == 0
    began = time.monotonic()
    with pytest.raises(TransformError, match=r"\[CAST_INVALID_INPUT\] The value '12$"):
        world.pipeline(source={"maxOffsetsPerTrigger": "1000"}, retry_ms_max=60_000).run()
    assert time.monotonic() - began < 60
    assert world.numbers() == []


def test_a_function_that_raises_says_what_it_raised(world: World) -> None:
    def broken(source: Any) -> Any:
        raise LookupError("no such carrier")

    with pytest.raises(TransformError, match="LookupError: no such carrier"):
        world.pipeline(broken).run()


def test_a_transform_that_raises_on_an_executor_reaches_the_caller_and_stops_the_pipeline(world: World) -> None:
    def picky(source: Any) -> Any:
        def number(value: Any) -> int:
            if value == b"45":
                raise ArithmeticError("45 is not allowed")
            return int(value)

        parsed = f.udf(number, "long", useArrow=False)("value")
        return source.select("topic", "partition", "offset", parsed.alias("number"))

    with pytest.raises(TransformError, match="45 is not allowed"):
        world.pipeline(picky).run()
    done = world.batch_id()
    assert 45 not in world.numbers()
    world.pipeline().run()
    assert world.numbers() == list(range(COUNT))
    assert world.batch_id() > done


def test_a_transform_that_stops_early_is_refused_before_it_drops_records(world: World) -> None:
    with pytest.raises(RangeNotReadError, match="before"):
        world.pipeline("SELECT topic, partition, offset, 1 AS number FROM source LIMIT 1").run()
    assert world.query("SELECT to_regclass('records'), to_regclass('directkafka_ledger')") == [(None, None)]


@pytest.mark.parametrize(
    "cut",
    [
        "SELECT * FROM all_of_them LIMIT 1",
        "SELECT * FROM all_of_them OFFSET 1",
        "WITH some AS (SELECT * FROM all_of_them) SELECT * FROM some LIMIT 1",
        "WITH some AS (SELECT * FROM all_of_them LIMIT 1) SELECT * FROM some",
    ],
)
def test_a_cut_is_refused_where_the_source_is_kept_and_read_to_its_end(world: World, cut: str) -> None:
    def two(source: Any) -> Any:
        records = source.selectExpr("topic", "partition", "offset", "1 AS number")
        records.createOrReplaceTempView("all_of_them")
        return {"default": source.sparkSession.sql(cut), "others": records}

    sinks = {"default": PostgresSink(world.dsn, "records"), "others": PostgresSink(world.dsn, "others")}
    with pytest.raises(RangeNotReadError, match="source of output 'default'"):
        world.pipeline(two, sinks=sinks).run()
    assert world.query("SELECT to_regclass('records')") == [(None,)]


def test_a_limit_over_a_table_of_the_user_s_own_is_no_cut(world: World) -> None:
    def joined(source: Any) -> Any:
        table = source.sparkSession.createDataFrame([(7,), (7,)], "number int").limit(1)
        return source.select("topic", "partition", "offset").crossJoin(table)

    world.pipeline(joined).run()
    assert world.query("SELECT count(*), max(number) FROM records") == [(COUNT, 7)]


def test_a_table_whose_columns_do_not_fit_is_told_column_by_column(world: World) -> None:
    world.query('CREATE TABLE records (topic text, partition int, "offset" int, amount numeric NOT NULL)')
    with pytest.raises(SchemaMismatchError) as raised:
        world.pipeline().run()
    for column in ("number", "offset", "amount"):
        assert column in str(raised.value)
    assert world.query("SELECT count(*) FROM records") == [(0,)]


def test_an_output_that_the_transform_does_not_give_is_named(world: World) -> None:
    with pytest.raises(OptionError, match="totals"):
        world.pipeline(sinks={"totals": PostgresSink(world.dsn, "records")}).run()


def test_offsets_that_retention_took_are_named(world: World) -> None:
    world.pipeline(source={"maxOffsetsPerTrigger": "1000"}).run()
    produce_numbers(world.kafka, world.topic, 30, first=COUNT)
    ends = [TopicPartition(world.topic, partition, COUNT // PARTITIONS + 4) for partition in range(PARTITIONS)]
    admin = AdminClient({"bootstrap.servers": world.kafka})
    for deleted in admin.delete_records(ends).values():
        deleted.result(30)
    with pytest.raises(DataLossError) as raised:
        world.pipeline().run()
    loss = raised.value
    assert (loss.lost_from, loss.lost_until) == (COUNT // PARTITIONS, COUNT // PARTITIONS + 4)
    world.pipeline(source={"failOnDataLoss": "false"}).run()
    # Of each partition's ten new numbers, four are gone.
    assert len(world.numbers()) == COUNT + 30 - 4 * PARTITIONS


def test_a_topic_made_again_between_two_runs_is_not_taken_for_the_old_one(world: World) -> None:
    world.pipeline().run()
    delete_topic(world.kafka, world.topic)
    create_topic_again(world.kafka, world.topic, PARTITIONS)
    produce_numbers(world.kafka, world.topic, 2 * COUNT, first=1000)
    with pytest.raises(DataLossError, match="made again"):
        world.pipeline().run()
    assert world.numbers() == list(range(COUNT))
    world.pipeline(source={"failOnDataLoss": "false"}).run()
    assert world.numbers() == [*range(COUNT), *range(1000, 1000 + 2 * COUNT)]


@pytest.mark.slow
def test_rows_of_a_topic_made_again_that_ignore_takes_for_the_old_ones_are_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Each record of the new topic has the place of a record of the old one, and none of them is in the table."""

    def run(**source: str) -> None:
        sink = PostgresSink(world.dsn, "records", mode="ignore", key=("topic", "partition", "offset"))
        world.pipeline(sinks=sink, source=source).run()

    run()
    delete_topic(world.kafka, world.topic)
    create_topic_again(world.kafka, world.topic, PARTITIONS)
    produce_numbers(world.kafka, world.topic, COUNT, first=1000)
    run(failOnDataLoss="false")
    assert world.numbers() == list(range(COUNT))
    (message,) = [record.getMessage() for record in caplog.records if "begin anew" in record.getMessage()]
    assert message.startswith(f"the offsets of {world.topic} begin anew, and records leaves out rows")


def test_a_topic_that_is_deleted_leaves_the_ledger_and_verify_says_so(world: World) -> None:
    """A topic a day under a pattern would fill the ledger in the end."""
    other = f"{world.topic}-yesterday"
    create_topic_again(world.kafka, other, PARTITIONS)
    produce_numbers(world.kafka, other, 30, first=1000)
    pattern = {"subscribe": None, "subscribePattern": f"^{world.topic}", "failOnDataLoss": "false"}
    world.pipeline(source=pattern).run()
    assert topics_of_ledger(world) == {world.topic, other}
    delete_topic(world.kafka, other)
    produce_numbers(world.kafka, world.topic, 30, first=COUNT)
    world.pipeline(source=pattern).run()
    assert topics_of_ledger(world) == {world.topic}
    assert world.numbers() == [*range(COUNT + 30), *range(1000, 1030)]
    (finding,) = verify(world.pipeline(source=pattern))
    assert finding.note == "30 offsets were read of topics that are deleted since, so nothing was read again"
    assert finding.is_right


def topics_of_ledger(world: World) -> set[str]:
    ((progress,),) = world.query("SELECT progress FROM directkafka_ledger")
    return {partition["topic"] for partition in progress}


@pytest.mark.slow
def test_a_name_that_another_pipeline_has_is_refused_before_it_writes(world: World) -> None:
    """Its ledger is about another topic: to go on from there would skip or repeat, so it is a loss by its words."""
    world.pipeline().run()
    other = f"{world.topic}-other"
    create_topic_again(world.kafka, other, PARTITIONS)
    produce_numbers(world.kafka, other, 30, first=1000)
    with pytest.raises(DataLossError, match=world.topic):
        world.pipeline(source={"subscribe": other}).run()
    assert world.numbers() == list(range(COUNT))
    assert world.batch_id() == 3


@pytest.mark.slow
def test_a_wrong_python_for_the_executors_is_named_with_the_remedy(world: World, tmp_path: Path) -> None:
    job = Job(folder=tmp_path, name="numbers", kafka=world.kafka, dsn=world.dsn, topic=world.topic)
    environment = {**os.environ, "KAFKA": world.kafka, "DSN": world.dsn, "PYSPARK_PYTHON": "/nowhere/python"}
    done = subprocess.run(
        [sys.executable, "-m", "directkafka", "run", str(job.write_file())],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "cannot start the Python interpreter '/nowhere/python'" in done.stderr
    assert "Set PYSPARK_PYTHON" in done.stderr
    assert done.stdout == ""
