"""Fetch to Arrow in one process, outside Spark, beside confluent-kafka's ``consume()`` into the same Arrow table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pyarrow as pa
from consumed import consumed
from figures import Figure, alternately, console, ratio, told
from publish import RECORD_BYTES, publish

from directkafka import Cluster
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.records.arrow import schema
from directkafka.spark.source_cluster import task_of

__all__ = ["one_process"]


def one_process(servers: str, *, records: int, repeat: int) -> list[Figure]:
    """Records a second, bytes a second, and how many times faster than ``consume()``."""
    figures = []
    cases = (("lz4", RECORD_BYTES, 10.0, "M/s"), ("none", RECORD_BYTES, 20.0, "M/s"), ("lz4", 1_000, 1.0, "GB/s"))
    for codec, value_bytes, required, unit in cases:
        topic, count = f"process-{codec}-{value_bytes}", records * RECORD_BYTES // value_bytes
        console.print(f"publishing {count:,} records of {value_bytes:,} bytes, {codec}")
        publish(servers, topic, count, codec=codec, partitions=1, value_bytes=value_bytes)
        task = _task(servers, topic)

        def ours(task: RangeTask = task, count: int = count) -> None:
            row_count = sum(batch.num_rows for batch in read_range(task))
            assert row_count == count, f"read {row_count} of {count}"

        seconds = alternately({"ours": ours}, repeat)
        median = statistics.median(seconds["ours"])
        speed = count * (value_bytes if unit == "GB/s" else 1) / median / (1e9 if unit == "GB/s" else 1e6)
        name = f"fetch to Arrow, one process, {codec}, {value_bytes} bytes"
        detail = f"ours {median:.2f} s ({min(seconds['ours']):.2f}-{max(seconds['ours']):.2f})"
        figures.append(told(Figure(name=name, value=speed, unit=unit, required=required, detail=detail)))
        if value_bytes == RECORD_BYTES:
            figures.append(_beside_consume(servers, topic, codec, count=min(count, 1_000_000), repeat=repeat))
    return figures


def _beside_consume(servers: str, topic: str, codec: str, *, count: int, repeat: int) -> Figure:
    task = _task(servers, topic, until_offset=count)

    def ours() -> None:
        assert pa.Table.from_batches(read_range(task)).num_rows == count

    def theirs() -> None:
        assert pa.Table.from_batches(_consumed(servers, topic, count)).num_rows == count

    seconds = alternately({"ours": ours, "consume()": theirs}, repeat)
    return ratio(f"one process, {codec}, beside consume()", seconds, over="consume()", required=8.0, records=count)


def _task(servers: str, topic: str, until_offset: int | None = None) -> RangeTask:
    with Cluster({"bootstrap.servers": servers}) as cluster:
        (offset_range,) = cluster.offset_ranges(topic, end="latest" if until_offset is None else until_offset)
        return task_of(offset_range, cluster.snapshot([offset_range.topic_partition]), cluster.options)


def _consumed(servers: str, topic: str, count: int) -> Iterator[pa.RecordBatch]:
    """The fastest that a Python user of confluent-kafka can write: many messages a call, a column at a time."""
    for messages in consumed(servers, topic, 0, 0, count):
        columns = {
            "key": pa.array([message.key() for message in messages], pa.binary()),
            "value": pa.array([message.value() for message in messages], pa.binary()),
            "topic": pa.array([message.topic() for message in messages], pa.string()),
            "partition": pa.array([message.partition() for message in messages], pa.int32()),
            "offset": pa.array([message.offset() for message in messages], pa.int64()),
            "timestamp": pa.array([message.timestamp()[1] * 1000 for message in messages], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([message.timestamp()[0] - 1 for message in messages], pa.int32()),
        }
        yield pa.RecordBatch.from_pydict(columns, schema=schema(include_headers=False))
