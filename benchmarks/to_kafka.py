"""Kafka to Kafka, both ways: one transaction a batch, and Spark's own source and sink, at least once.

Both read the same topic in batches of the same size and write key and value, compressed by lz4, into a topic of two
partitions, with acknowledgements of all replicas. Spark's side runs in its JVM alone.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
from figures import Figure, alternately, console, ratio, told
from publish import create_topic, publish, publish_values
from pyspark.sql import DataFrame, SparkSession

from directkafka import ArrowTransform, Cluster, KafkaSink, Pipeline, TopicPartition, create_dataframe
from directkafka.errors import TransformError
from directkafka.pipeline.execution.share_tasks import ChunkWriter, RouteTask
from directkafka.pipeline.execution.two_phase import write_shares
from directkafka.pipeline.execution.write_task import WriteTask, reports_of
from directkafka.pipeline.progress import BatchReport, Reporter
from directkafka.sinks.api import SecondPhase, TaskReport
from directkafka.sinks.kafka.rows import TargetRouter

__all__ = ["kafka_to_kafka"]

BATCH: Final = 250_000
_PARTITIONS: Final = 2
#: Spark's producers wait for more records than Java's default does; the faster of the two is compared with.
_JVM_SETTINGS: Final = {
    "its defaults": {"kafka.compression.type": "lz4"},
    "batch.size 262144, linger.ms 10": {
        "kafka.compression.type": "lz4",
        "kafka.batch.size": "262144",
        "kafka.linger.ms": "10",
    },
}
#: Of rows that travel through the driver: all of a batch, and none, which tasks write after a shuffle.
_ALL_INLINE: Final = 256 * 1024 * 1024
_NONE_INLINE: Final = 1
_SHUFFLE_MS_MAX: Final = 120_000
_SMALL_BATCHES: Final = 60
#: While code is compiled and connections are made.
_SMALL_BATCHES_FIRST: Final = 10

_runs = itertools.count()


def kafka_to_kafka(spark: SparkSession, servers: str, *, rows: int, repeat: int) -> list[Figure]:
    """Records a second, what a transaction costs whatever is in it, and what the shuffle costs."""
    console.print(f"publishing {rows:,} records")
    publish(servers, "to-kafka", rows, codec="lz4", partitions=_PARTITIONS)
    target = Target(spark, servers, rows=rows)
    sides = {
        "ours": partial(_ours, servers, "to-kafka", target, batch=BATCH),
        "by tasks": partial(_ours, servers, "to-kafka", target, batch=BATCH, inline_bytes_max=_NONE_INLINE),
        "by driver": partial(_ours, servers, "to-kafka", target, batch=BATCH, inline_bytes_max=_ALL_INLINE),
    }
    sides |= {name: partial(_sparks_own, spark, servers, target, more) for name, more in _JVM_SETTINGS.items()}
    seconds = alternately(sides, repeat, before=target.make, after=target.check)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    best = min(_JVM_SETTINGS, key=lambda name: medians[name])
    name = f"Kafka to Kafka, records, beside Spark's source and sink ({best})"
    return [
        ratio(name, seconds, over=best, required=1.8, records=rows),
        ratio(
            f"{name}, all rows written by the driver", seconds, over=best, side="by driver", required=None, records=rows
        ),
        ratio(f"{name}, all rows shuffled", seconds, over=best, side="by tasks", required=None, records=rows),
        _large_batches(spark, servers, rows=rows, repeat=repeat),
        _transaction_cost(servers, target),
        _shuffle_share(spark, servers, batch_s=medians["by tasks"] * BATCH / rows, repeat=repeat),
    ]


def _large_batches(spark: SparkSession, servers: str, *, rows: int, repeat: int) -> Figure:
    """Batches that are too large for the driver, as they come by themselves: of so many records, two of them."""
    topic = "to-kafka-large"
    console.print(f"publishing {2 * rows:,} records")
    publish(servers, topic, 2 * rows, codec="lz4", partitions=_PARTITIONS)
    target = Target(spark, servers, rows=2 * rows)
    sides = {
        "ours": partial(_ours, servers, topic, target, batch=rows),
        **{
            name: partial(_sparks_own, spark, servers, target, more, topic=topic, batch=rows)
            for name, more in _JVM_SETTINGS.items()
        },
    }
    seconds = alternately(sides, repeat, before=target.make, after=target.check)
    best = min(_JVM_SETTINGS, key=lambda name: statistics.median(seconds[name]))
    name = f"Kafka to Kafka, batches of {rows:,} records, beside Spark's source and sink ({best})"
    return ratio(name, seconds, over=best, required=1.2, records=2 * rows)


class Target:
    """The topic that is written to, a new one for each run."""

    def __init__(self, spark: SparkSession, servers: str, *, rows: int) -> None:
        self._spark = spark
        self._servers = servers
        self._rows = rows
        self.topic = ""

    def make(self, side: str = "") -> None:
        """Another topic."""
        self.topic = f"to-kafka-{next(_runs)}"
        create_topic(self._servers, self.topic, _PARTITIONS)

    def check(self, side: str) -> None:
        """Every record is committed, and in both partitions."""
        reader = self._spark.read.format("directkafka").option("kafka.bootstrap.servers", self._servers)
        reader.option("subscribe", self.topic).option("kafka.isolation.level", "read_committed")
        counts = {row["partition"]: row["count"] for row in reader.load().groupBy("partition").count().collect()}
        assert sum(counts.values()) == self._rows, f"{side}: {counts} records of {self._rows}"
        assert len(counts) == _PARTITIONS, f"{side}: records are in {sorted(counts)} alone"


def key_and_value(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The records as they are."""
    return batch.select(["key", "value"])


def _ours(
    servers: str,
    topic: str,
    target: Target,
    *,
    batch: int,
    inline_bytes_max: int | None = None,
    report: Reporter = lambda report: None,
) -> None:
    options: dict[str, Any] = {} if inline_bytes_max is None else {"inline_bytes_max": inline_bytes_max}
    Pipeline(
        f"bench-kafka-{next(_runs)}",
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(batch),
        },
        transform=ArrowTransform(key_and_value),
        sinks=KafkaSink({"bootstrap.servers": servers, "compression.type": "lz4"}, target.topic, **options),
        trigger="available-now",
        report=report,
    ).run()


def _sparks_own(
    spark: SparkSession,
    servers: str,
    target: Target,
    more: dict[str, str],
    *,
    topic: str = "to-kafka",
    batch: int = BATCH,
) -> None:
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(batch))
        .load()
        .select("key", "value")
    )
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as checkpoint:
        query = (
            stream.writeStream.format("kafka")
            .options(**{"kafka.bootstrap.servers": servers, "topic": target.topic, **more})
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def _transaction_cost(servers: str, target: Target) -> Figure:
    """The commit of batches of two records: a fresh epoch, two partitions and the ledger taken in, two requests, the
    ledger's record, EndTxn.
    """
    publish_values(servers, "to-kafka-small", [b"one"] * (_SMALL_BATCHES * _PARTITIONS), partitions=_PARTITIONS)
    target.make()
    reports: list[BatchReport] = []
    _ours(servers, "to-kafka-small", target, batch=_PARTITIONS, report=reports.append)
    assert len(reports) == _SMALL_BATCHES, f"{len(reports)} batches of {_SMALL_BATCHES}"
    commit_ms = [report.commit_ms for report in reports[_SMALL_BATCHES_FIRST:]]
    total_ms = [report.total_ms for report in reports[_SMALL_BATCHES_FIRST:]]
    detail = f"{min(commit_ms)}-{max(commit_ms)} ms; the whole batch {statistics.median(total_ms):.0f} ms"
    name = "a Kafka transaction's fixed cost, batches of 2 records"
    return told(Figure(name=name, value=statistics.median(commit_ms), unit="ms", required=None, detail=detail))


class _Count:
    """A writer that writes nothing."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        return TaskReport(rows=sum(batch.num_rows for batch in batches), attempt="", staged=True)


def _claim_nothing(partition: int) -> None:
    """Nobody writes, so nobody has to be the first."""


def _shuffle_share(spark: SparkSession, servers: str, *, batch_s: float, repeat: int) -> Figure:
    """The second job of a batch with a writer that writes nothing, with and without its shuffle."""
    with Cluster({"bootstrap.servers": servers}) as cluster:
        ranges = cluster.offset_ranges("to-kafka", end=BATCH // _PARTITIONS)
    frame = create_dataframe(spark, {"bootstrap.servers": servers}, ranges).select("key", "value").persist()
    count = frame.count()
    targets = tuple(TopicPartition("shuffled", number) for number in range(_PARTITIONS))
    router = TargetRouter(
        store="bench", sink="bench", topic="shuffled", partition_counts={"shuffled": _PARTITIONS}, targets=targets
    )
    phase = SecondPhase(
        router=router,
        claim_routing=_claim_nothing,
        writer=_Count(),
        writer_count=_PARTITIONS,
        limit_ms=_SHUFFLE_MS_MAX,
        too_slow=lambda: TransformError(source="the shuffle", cause=f"it takes more than {_SHUFFLE_MS_MAX} ms"),
    )

    def check(reports: tuple[TaskReport, ...] | int) -> None:
        row_count = reports if isinstance(reports, int) else sum(report.rows for report in reports)
        assert row_count == count, f"{row_count} rows of {count}"

    seconds = alternately(
        {
            "shuffled": lambda: check(write_shares(frame, phase)),
            "not shuffled": lambda: check(_count_routed(frame, phase)),
        },
        repeat * 2,
    )
    frame.unpersist()
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    taken = medians["shuffled"] - medians["not shuffled"]
    detail = ", ".join(f"{name} {1000 * median:.0f} ms" for name, median in medians.items())
    detail += f"; a batch of {BATCH:,} records {1000 * batch_s:.0f} ms"
    name = "the shuffle's share of a batch whose rows are shuffled, Kafka to Kafka"
    return told(Figure(name=name, value=100 * taken / batch_s, unit="%", required=None, detail=detail))


def _count_routed(frame: DataFrame, phase: SecondPhase) -> int:
    routed: Any = frame.mapInArrow(RouteTask(phase, is_claimed=False), "share int, chunk binary").mapInArrow(
        WriteTask(ChunkWriter(_Count())), "report binary"
    )
    return sum(report.rows for report in reports_of(routed.toArrow()))
