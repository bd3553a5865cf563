"""The direct engine from Kafka to Kafka: small batches by the driver, large ones by tasks inside the transaction."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.contract.kafka_harness import read_committed, still_open, wait_until_stable
from tests.real.kafka.logs import consume
from tests.real.spark.test_groups import committed
from tests.waiting import until

from directkafka import KafkaSink, Pipeline, SQLiteSink, register, write_stream
from directkafka.errors import (
    OptionError,
    RowRejectedError,
    SchemaMismatchError,
    StoreRequestError,
    StoreUnavailableError,
)
from directkafka.pipeline.execution import two_phase
from directkafka.pipeline.verify import verify
from directkafka.sinks.api import BatchAttempt, LedgerEntry, SecondPhase, TaskReport
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

COUNT = 90
QUERY = "SELECT value AS key, concat('number ', CAST(value AS STRING)) AS value FROM source"


@dataclass(frozen=True)
class DieOnce:
    """A writer whose process is killed after its rows were acknowledged, the first time."""

    inner: Any
    died: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        report: TaskReport = self.inner(batches)
        if report.rows and not self.died.exists():
            self.died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return report


class MortalSink(KafkaSink):
    """A Kafka sink one of whose tasks dies."""

    died = Path()

    def second_phase(self, *arguments: Any, **named: Any) -> SecondPhase:
        phase = super().second_phase(*arguments, **named)
        return replace(phase, writer=DieOnce(phase.writer, self.died))


class KafkaWorld:
    """A topic of numbers, a topic for the output, and a pipeline of its own name between them."""

    def __init__(self, servers: str, source: str, target: str) -> None:
        self.servers = servers
        self.source = source
        self.target = target
        self.name = f"to-{target[-8:]}"

    def sink(self, **options: Any) -> KafkaSink:
        return KafkaSink({"bootstrap.servers": self.servers}, options.pop("topic", self.target), **options)

    def run(self, transform: Any = QUERY, *, sinks: Any = None, **options: Any) -> None:
        self.pipeline(transform, sinks if sinks is not None else self.sink(**options)).run()

    def pipeline(self, transform: Any, sinks: Any, **options: Any) -> Pipeline:
        given = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "30",
        } | options.pop("source", {})
        return Pipeline(
            self.name,
            source={name: value for name, value in given.items() if value is not None},
            transform=transform,
            sinks=sinks,
            retry_ms_max=10_000,
            **({"trigger": "available-now"} | options),
        )

    def values(self, topic: str = "") -> list[str]:
        wait_until_stable(self.servers, topic or self.target)
        return sorted(record.value.decode() for record in read_committed(self.servers, topic or self.target))

    def open_transactions(self) -> list[str]:
        return still_open(self.servers, f"directkafka.{self.name}")


@pytest.fixture
def kafka_world(spark: SparkSession, kafka_broker: KafkaBroker, create_topic: Callable[..., str]) -> KafkaWorld:
    source, target = create_topic(PARTITIONS), create_topic(PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, source, COUNT)
    return KafkaWorld(kafka_broker.bootstrap_servers, source, target)


EXPECTED = sorted(f"number {number}" for number in range(COUNT))


#: The inline way has a quick test among all stores (test_every_store.py).
@pytest.mark.parametrize(
    "inline_bytes_max", [pytest.param(1 << 20, marks=pytest.mark.slow), -1], ids=["inline", "by tasks"]
)
def test_every_record_arrives_once_and_nothing_stays_open(kafka_world: KafkaWorld, inline_bytes_max: int) -> None:
    kafka_world.run(inline_bytes_max=inline_bytes_max)
    assert kafka_world.values() == EXPECTED
    kafka_world.run(inline_bytes_max=inline_bytes_max)
    assert kafka_world.values() == EXPECTED
    assert kafka_world.open_transactions() == []


@pytest.mark.parametrize("engine", ["direct", pytest.param("structured", marks=pytest.mark.slow)])
def test_a_pattern_that_finds_the_sink_s_topic_is_refused_before_anything_is_written(
    kafka_world: KafkaWorld, tmp_path: Path, engine: str
) -> None:
    pattern = {"subscribe": None, "subscribePattern": f"{kafka_world.source}|{kafka_world.target}"}
    checkpoint = {"checkpoint": str(tmp_path / "checkpoint")} if engine == "structured" else {}
    pipeline = kafka_world.pipeline(QUERY, kafka_world.sink(), source=pattern, engine=engine, **checkpoint)
    for step in (pipeline.check, pipeline.run):
        with pytest.raises(OptionError, match=f"{kafka_world.target} is read by this very pipeline"):
            step()
    assert kafka_world.values() == []


def test_a_row_that_names_a_topic_which_the_pipeline_reads_is_refused(kafka_world: KafkaWorld) -> None:
    """Which topics rows name is known with each batch, and a pattern may find one that is made later."""
    query = f"SELECT value, '{kafka_world.target}' AS topic FROM source"
    pattern = {"subscribe": None, "subscribePattern": f"{kafka_world.source}|{kafka_world.target}"}
    pipeline = kafka_world.pipeline(query, kafka_world.sink(topic=None), source=pattern)
    pipeline.check()
    with pytest.raises(RowRejectedError, match=f"its topic {kafka_world.target} is read by this very pipeline"):
        pipeline.run()
    assert kafka_world.values() == []


@pytest.mark.slow
def test_a_query_of_sparks_writes_large_batches_by_tasks(
    kafka_world: KafkaWorld, spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    options = {
        "kafka.bootstrap.servers": kafka_world.servers,
        "subscribe": kafka_world.source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "30",
    }
    source = spark.readStream.format("directkafka").options(**options).load()
    frame = source.selectExpr("value AS key", "concat('number ', CAST(value AS STRING)) AS value")
    sink = kafka_world.sink(inline_bytes_max=-1)
    checkpoint = str(tmp_path / "checkpoint")
    query = write_stream(frame, kafka_world.name, sink, checkpoint=checkpoint, trigger="available-now")
    assert query.awaitTermination(60), "the query did not end"
    assert kafka_world.values() == EXPECTED
    assert kafka_world.open_transactions() == []


@pytest.mark.slow
def test_a_worker_killed_after_its_rows_were_acknowledged_costs_a_batch_and_no_record(
    kafka_world: KafkaWorld, tmp_path: Path
) -> None:
    """What it wrote lies in an aborted transaction; the batch is done again under another epoch."""
    sink = MortalSink({"bootstrap.servers": kafka_world.servers}, kafka_world.target, inline_bytes_max=-1)
    sink.died = tmp_path / "died"
    kafka_world.run(sinks=sink)
    assert sink.died.exists(), "nobody died, so it proved nothing"
    assert kafka_world.values() == EXPECTED
    assert kafka_world.open_transactions() == []


@pytest.mark.slow
@pytest.mark.parametrize("has_barriers", [True, False], ids=["barrier stage", "single tasks"])
def test_where_single_tasks_may_run_again_every_dealer_of_rows_claims_what_it_dealt(
    kafka_world: KafkaWorld, monkeypatch: pytest.MonkeyPatch, has_barriers: bool
) -> None:
    monkeypatch.setattr(two_phase, "can_run_barriers", lambda _: has_barriers)
    kafka_world.run(inline_bytes_max=-1)
    assert kafka_world.values() == EXPECTED
    keys = [key or b"" for _, key, *_ in consume(kafka_world.servers, f"directkafka.ledger.{kafka_world.name}")]
    assert any(b"/write/" in key for key in keys)
    assert any(b"/route/" in key for key in keys) != has_barriers


class CountedSink(KafkaSink):
    """A Kafka sink that says which batches were written by tasks."""

    @property
    def large(self) -> list[int]:
        batch_ids: list[int] = self.__dict__.setdefault("_large", [])
        return batch_ids

    def second_phase(self, transaction: Any, batch: BatchAttempt, *arguments: Any, **named: Any) -> SecondPhase:
        self.large.append(batch.batch_id)
        return super().second_phase(transaction, batch, *arguments, **named)


@pytest.mark.slow
def test_a_kafka_that_has_the_batch_is_left_alone_while_the_other_store_gets_it(
    kafka_world: KafkaWorld, tmp_path: Path
) -> None:
    """Kafka commits batch 1, SQLite does not; the restart writes it into SQLite only."""

    def sinks(kafka: KafkaSink) -> list[Any]:
        return [kafka, SQLiteSink(tmp_path / "air.sqlite", "records")]

    def refuse(entry: LedgerEntry, **named: Any) -> LedgerEntry:
        if entry.batch_id == 1:
            raise StoreRequestError(store="sqlite", code="1", cause="the disk is full")
        committed: LedgerEntry = commit(entry, **named)
        return committed

    options: Any = ({"bootstrap.servers": kafka_world.servers}, kafka_world.target)
    failing = sinks(CountedSink(*options, inline_bytes_max=-1))
    commit, failing[1].store.commit = failing[1].store.commit, refuse
    with pytest.raises(StoreRequestError):
        kafka_world.run(sinks=failing)
    assert failing[0].large == [1]
    again = sinks(CountedSink(*options, inline_bytes_max=-1))
    kafka_world.run(sinks=again)
    assert again[0].large == [2, 3]
    assert kafka_world.values() == EXPECTED
    with closing(sqlite3.connect(tmp_path / "air.sqlite")) as connection:
        assert connection.execute("SELECT count(DISTINCT value), count(*) FROM records").fetchone() == (COUNT, COUNT)


@pytest.mark.slow
def test_a_transaction_is_not_open_while_the_store_before_it_is_tried_again(
    kafka_world: KafkaWorld, tmp_path: Path
) -> None:
    """SQLite, the first of the two, refuses once; Kafka's readers must not wait behind that."""
    sqlite, seen = SQLiteSink(tmp_path / "air.sqlite", "records"), []

    def read_and_look(pipeline: str) -> LedgerEntry | None:
        seen.append(kafka_world.open_transactions())
        return read(pipeline)

    def away(entry: LedgerEntry, **named: Any) -> LedgerEntry:
        if entry.batch_id == 1 and not tries:
            tries.append(entry)
            seen.clear()
            raise StoreUnavailableError(store="sqlite", cause="somebody reads")
        committed: LedgerEntry = commit(entry, **named)
        return committed

    tries: list[LedgerEntry] = []
    store: Any = sqlite.store
    read, store.read = store.read, read_and_look
    commit, store.commit = store.commit, away
    kafka = KafkaSink({"bootstrap.servers": kafka_world.servers}, kafka_world.target, inline_bytes_max=-1)
    kafka_world.run(sinks=[sqlite, kafka])
    assert tries, "nothing failed, so it proved nothing"
    assert seen[0] == []
    assert kafka_world.values() == EXPECTED


@pytest.mark.slow
def test_a_key_goes_to_one_partition_whoever_writes_it(kafka_world: KafkaWorld) -> None:
    """The same rows by the driver, and then by tasks, under another name: twice in the same partitions."""
    kafka_world.run()
    kafka_world.name = f"again-{kafka_world.name}"
    kafka_world.run(inline_bytes_max=-1)
    wait_until_stable(kafka_world.servers, kafka_world.target)
    counts = Counter(
        (record.partition, record.key) for record in read_committed(kafka_world.servers, kafka_world.target)
    )
    assert set(counts.values()) == {2}
    assert len(counts) == COUNT


@pytest.mark.slow
def test_rows_name_their_topic_and_partition(kafka_world: KafkaWorld, create_topic: Callable[..., str]) -> None:
    even, odd = create_topic(2), create_topic(1)
    query = (
        f"SELECT value, CASE WHEN CAST(CAST(value AS STRING) AS INT) % 2 = 0 THEN '{even}' ELSE '{odd}' END AS topic, "
        "CASE WHEN CAST(CAST(value AS STRING) AS INT) % 2 = 0 THEN 1 END AS partition FROM source"
    )
    for name in ("one", "two"):
        kafka_world.name = f"{name}-{even[-8:]}"
        kafka_world.run(query, topic=None, inline_bytes_max=1 << 20 if name == "one" else -1)
    assert kafka_world.values(even) == sorted([str(number) for number in range(0, COUNT, 2)] * 2)
    assert kafka_world.values(odd) == sorted([str(number) for number in range(1, COUNT, 2)] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("inline_bytes_max", [1 << 20, -1], ids=["inline", "by tasks"])
def test_another_column_may_name_the_topic_of_a_list(
    kafka_world: KafkaWorld, create_topic: Callable[..., str], inline_bytes_max: int
) -> None:
    even, odd = create_topic(1), create_topic(1)
    query = (
        "SELECT value, CASE WHEN CAST(CAST(value AS STRING) AS INT) % 2 = 0 "
        f"THEN '{even}' ELSE '{odd}' END AS kind, topic FROM source"
    )
    options: dict[str, Any] = {"topic": None, "topic_from": "kind", "inline_bytes_max": inline_bytes_max}
    with pytest.raises(RowRejectedError, match=f"column kind has '{odd}', not in topics .{even}.: add it to topics"):
        kafka_world.run(query, topics=[even], **options)
    assert kafka_world.values(even) == []
    kafka_world.run(query, topics=[even, odd], **options)
    assert kafka_world.values(even) == sorted(str(number) for number in range(0, COUNT, 2))
    assert kafka_world.values(odd) == sorted(str(number) for number in range(1, COUNT, 2))
    assert kafka_world.open_transactions() == []


def test_topics_that_rows_may_name_are_looked_at_before_anything_runs(kafka_world: KafkaWorld) -> None:
    options: dict[str, Any] = {"topic": None, "topic_from": "kind", "topics": [kafka_world.target, "nowhere"]}
    with pytest.raises(SchemaMismatchError, match="there is no topic nowhere"):
        kafka_world.run("SELECT value, topic AS kind FROM source", **options)
    with pytest.raises(SchemaMismatchError, match=r"there is no column 'kind' \(topic_from\)"):
        kafka_world.run("SELECT value, topic FROM source", **options)
    for wrong, option in (
        ({"topic_from": "kind"}, "topics"),
        ({"topics": []}, "topics"),
        ({"topics": ["a"], "topic": "a"}, "topic"),
        ({"topics": ["a"], "topic_from": "partition"}, "topic_from"),
    ):
        with pytest.raises(OptionError) as raised:
            kafka_world.sink(**{"topic": None, **wrong})
        assert raised.value.option == option


@pytest.mark.slow
def test_the_sources_offsets_are_committed_with_the_rows(kafka_world: KafkaWorld) -> None:
    group = f"group-{kafka_world.target}"
    kafka_world.run(offsets_group=group)
    assert sum(committed(kafka_world.servers, group, kafka_world.source, PARTITIONS).values()) == COUNT


def test_columns_that_make_no_record_are_named_before_anything_runs(kafka_world: KafkaWorld) -> None:
    with pytest.raises(SchemaMismatchError, match=r"'number'.*no column 'value'"):
        kafka_world.run("SELECT CAST(CAST(value AS STRING) AS INT) AS number FROM source")
    with pytest.raises(SchemaMismatchError, match="there is no topic nowhere"):
        kafka_world.run(topic="nowhere")


@pytest.mark.slow
@pytest.mark.parametrize("inline_bytes_max", [1 << 20, -1], ids=["inline", "by tasks"])
def test_a_row_for_a_partition_that_is_not_there_stops_the_pipeline(
    kafka_world: KafkaWorld, inline_bytes_max: int
) -> None:
    with pytest.raises(RowRejectedError, match="names partition 7"):
        kafka_world.run("SELECT value, 7 AS partition FROM source", inline_bytes_max=inline_bytes_max)
    assert kafka_world.values() == []
    assert kafka_world.open_transactions() == []


@pytest.mark.slow
@pytest.mark.parametrize("inline_bytes_max", [1 << 20, -1], ids=["inline", "by tasks"])
def test_rows_for_a_ledger_stop_the_pipeline(kafka_world: KafkaWorld, inline_bytes_max: int) -> None:
    """Its own, and that of another pipeline."""
    for pipeline in (kafka_world.name, "another"):
        query = f"SELECT value, 'directkafka.ledger.{pipeline}' AS topic FROM source"
        with pytest.raises(RowRejectedError, match=rf"directkafka.ledger.{pipeline} is where a pipeline keeps"):
            kafka_world.run(query, topic=None, inline_bytes_max=inline_bytes_max)
    assert kafka_world.open_transactions() == []


@pytest.mark.slow
@pytest.mark.parametrize("inline_bytes_max", [1 << 20, -1], ids=["inline", "by tasks"])
@pytest.mark.parametrize("rows", ["value", "NULL"], ids=["both have rows", "one has rows"])
def test_a_topic_has_one_sink_however_many_rows_there_are(
    kafka_world: KafkaWorld, inline_bytes_max: int, rows: str
) -> None:
    """The topic is one sink's own, and the other's rows name it."""
    sinks = {
        "own": kafka_world.sink(inline_bytes_max=inline_bytes_max),
        "named": kafka_world.sink(topic=None, inline_bytes_max=inline_bytes_max),
    }

    def both(source: Any) -> dict[str, Any]:
        named = source.selectExpr("value", f"'{kafka_world.target}' AS topic")
        return {"own": source.selectExpr("value").where(f"{rows} IS NOT NULL"), "named": named}

    with pytest.raises(OptionError, match=rf"write to topic {kafka_world.target} .*UNION ALL"):
        kafka_world.run(both, sinks=sinks)
    assert kafka_world.values() == []
    assert kafka_world.open_transactions() == []


@pytest.mark.slow
def test_record_batches_that_are_too_large_become_smaller(
    kafka_world: KafkaWorld, create_topic: Callable[..., str]
) -> None:
    """The executors' error comes to the driver with its numbers; a few tries, and all is there."""
    kafka_world.target = create_topic(PARTITIONS, {"max.message.bytes": "300"})
    kafka_world.run(inline_bytes_max=-1)
    assert kafka_world.values() == EXPECTED
    assert kafka_world.open_transactions() == []


@pytest.mark.slow
def test_a_look_at_a_running_pipeline_ends_nothing_of_it(
    kafka_world: KafkaWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connections and its transaction are its own, whoever checks or verifies meanwhile."""
    sink, reports = kafka_world.sink(), []
    pipeline = kafka_world.pipeline(QUERY, sink, trigger="50ms", report=reports.append)
    pipeline.start()
    try:
        until(lambda: reports, "no batch is reported")
        connections = sink.store.client
        for _ in range(3):
            pipeline.check()
            verify(pipeline)
        assert sink.store.client is connections
        produce_numbers(kafka_world.servers, kafka_world.source, 30, first=COUNT)
        until(lambda: sum(report.records for report in reports) == COUNT + 30, "it does not go on")
    finally:
        pipeline.stop()
    assert len(kafka_world.values()) == COUNT + 30
    assert not [message for message in caplog.messages if "trying again" in message]
    assert {report.generation for report in reports} == {1}
