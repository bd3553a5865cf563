"""The direct API: RDDs of ranges beside what a Python user can write without it, and a stream of small batches."""

from __future__ import annotations

import pickle
import statistics
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow.compute as pc
from confluent_kafka import Producer
from consumed import consumed
from figures import Figure, alternately, console, ratio, told
from floor import ready_batches
from publish import RECORD_BYTES, publish

import directkafka as dk
from directkafka.planning.placement import Executor
from directkafka.spark.dstream.state import StreamState
from directkafka.spark.rdd.executors import placed_rdd

__all__ = ["driver_work", "dstreams", "rdds"]

_PARTITIONS = 2

#: Of a cluster with many partitions; and how many batches a checkpoint has, at one each second.
_EXECUTORS, _KEPT_BATCHES = 20, 180

#: Records of the batches that reading ahead is measured with; and how many times as often, since they are short.
_SIZES, _SMALL_RUNS = (1_000, 100_000, 1_000_000), 5

_INTERVAL_S = 0.5
_BATCH_RECORDS = 1_000
_SUSTAINED_S = 300
#: What is left out at the start, while code is compiled and connections are made, in batches.
_FIRST = 20


def rdds(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """The sum of all values' lengths: by Arrow batches, and record by record."""
    topic = "rdd-lz4"
    console.print(f"publishing {records:,} records of {RECORD_BYTES} bytes, lz4")
    publish(servers, topic, records, codec="lz4", partitions=_PARTITIONS)
    sc, params = spark.sparkContext, {"bootstrap.servers": servers}
    with dk.Cluster(params) as cluster:
        ranges = cluster.offset_ranges(topic)
    expected = records * RECORD_BYTES

    def by_batch() -> None:
        sums = dk.create_rdd(sc, params, ranges, arrow_handler=_value_bytes_of_batch)
        assert sums.sum() == expected

    def by_record() -> None:
        lengths = dk.create_rdd(sc, params, ranges, message_handler=_value_bytes)
        assert lengths.sum() == expected

    def by_consume() -> None:
        given = [
            (servers, offset_range.topic, offset_range.partition, offset_range.from_offset, offset_range.until_offset)
            for offset_range in ranges
        ]
        assert sc.parallelize(given, len(given)).mapPartitions(_consumed_bytes).sum() == expected

    seconds = alternately({"arrow_handler": by_batch, "message_handler": by_record, "consume()": by_consume}, repeat)
    return [
        ratio(
            f"RDD, {side}, beside consume() in mapPartitions",
            seconds,
            over="consume()",
            side=side,
            required=required,
            records=records,
        )
        for side, required in (("arrow_handler", 4.0), ("message_handler", 1.5))
    ] + [_reading_ahead(sc, params, ranges, size, repeat) for size in _SIZES]


def _reading_ahead(sc: Any, params: dict[str, str], ranges: Sequence[dk.OffsetRange], size: int, repeat: int) -> Figure:
    """What is left of a batch's time if all of its records are in its workers before it begins."""
    each = size // _PARTITIONS
    short_ranges = [replace(whole, until_offset=whole.from_offset + each) for whole in ranges]

    def read() -> None:
        assert dk.create_rdd(sc, params, short_ranges, arrow_handler=_value_bytes_of_batch).sum() == size * RECORD_BYTES

    def ready() -> None:
        parts = sc.parallelize([each] * _PARTITIONS, _PARTITIONS)
        assert parts.mapPartitions(_ready_bytes).sum() == size * RECORD_BYTES

    seconds = alternately({"read": read, "ready": ready}, _SMALL_RUNS * repeat)
    medians = {side: statistics.median(times) for side, times in seconds.items()}
    detail = ", ".join(f"{side} {1000 * seconds:.0f} ms" for side, seconds in medians.items())
    name = f"RDD of {size:,} records, its time with all of them read before, of its time"
    return told(Figure(name=name, value=medians["ready"] / medians["read"], unit="x", required=None, detail=detail))


def driver_work(spark: Any, *, repeat: int) -> list[Figure]:
    """What the driver does for each batch, beside asking Kafka and Spark: placing tasks, and pickling its state."""
    return [
        figure for partitions in (10, 100, 1_000) for figure in _driver_work(spark.sparkContext, partitions, repeat)
    ]


def _driver_work(sc: Any, partitions: int, repeat: int) -> list[Figure]:
    locations = [Executor("host", str(number % _EXECUTORS)).location for number in range(partitions)]

    def ranges(start: int) -> tuple[dk.OffsetRange, ...]:
        return tuple(dk.OffsetRange("topic", number, start, start + 100) for number in range(partitions))

    state = StreamState(ranges={ms: ranges(ms) for ms in range(_KEPT_BATCHES)})
    pickle.dumps(state)
    following = count(_KEPT_BATCHES)

    def note() -> None:
        ms = next(following)
        state.ranges[ms] = ranges(ms)
        state.forget(ms - _KEPT_BATCHES)
        pickle.dumps(state)

    def place_tasks() -> None:
        placed_rdd(sc, ranges(0), locations)

    seconds = alternately({"place": place_tasks, "note": note}, repeat)
    names = {"place": "tasks are placed", "note": f"a state with {_KEPT_BATCHES} batches is pickled"}
    return [
        told(
            Figure(
                name=f"{what}, {partitions} partitions",
                value=1000 * statistics.median(seconds[run]),
                unit="ms",
                required=None,
            )
        )
        for run, what in names.items()
    ]


def _value_bytes_of_batch(batch: Any) -> Iterable[int]:
    return [pc.sum(pc.binary_length(batch.column("value"))).as_py()]


def _ready_bytes(counts: Iterable[int]) -> Iterator[int]:
    for records in counts:
        for batch in ready_batches(records, RECORD_BYTES):
            yield from _value_bytes_of_batch(batch)


def _value_bytes(record: dk.ConsumerRecord) -> int:
    return len(record.value or b"")


def _consumed_bytes(given: Iterable[tuple[str, str, int, int, int]]) -> Iterator[int]:
    """The best that can be written in Python without us: many messages a call, and nothing kept of them."""
    for servers, topic, partition, start, end in given:
        for messages in consumed(servers, topic, partition, start, end):
            yield sum(len(message.value() or b"") for message in messages)


def dstreams(spark: Any, servers: str, *, seconds: int = _SUSTAINED_S) -> list[Figure]:
    """Batches of 1,000 records each half second: how long from a batch's time to its end, and whether they queue."""
    from pyspark.streaming import StreamingContext
    from pyspark.streaming.listener import StreamingListener

    topic = "dstream"
    publish(servers, topic, _BATCH_RECORDS, codec="lz4", partitions=_PARTITIONS)
    console.print(f"a stream with {_BATCH_RECORDS:,} records each {_INTERVAL_S:g} s, for {seconds} s")
    batches: list[tuple[int, int]] = []

    class Delays(StreamingListener):
        def onBatchCompleted(self, batchCompleted: Any) -> None:  # noqa: N802, N803 - Spark's names
            info = batchCompleted.batchInfo()
            batches.append((info.numRecords(), info.totalDelay()))

    context = StreamingContext(spark.sparkContext, _INTERVAL_S)  # type: ignore[arg-type]
    context.addStreamingListener(Delays())
    stream = dk.create_direct_stream(context, dk.Subscribe(topic, {"bootstrap.servers": servers}))
    byte_counts: list[int] = []
    waiting: list[int] = []

    def write(rdd: Any) -> None:
        byte_counts.append(rdd.map(_value_bytes).sum())
        waiting.append(stream.waiting_batches())

    stream.foreachRDD(write)
    context.start()
    stopping = threading.Event()
    feeding = threading.Thread(target=_feed, args=(servers, topic, stopping), daemon=True)
    feeding.start()
    time.sleep(seconds)
    stopping.set()
    feeding.join()
    context.stop(stopSparkContext=False, stopGraceFully=True)
    delays = [delay for _, delay in batches[_FIRST:]]
    sizes = [size for size, _ in batches[_FIRST:-2]]
    detail = (
        f"{len(delays)} batches of {statistics.median(sizes):.0f} records in the middle, delay in the middle "
        f"{statistics.median(delays):.0f} ms, of the slowest {max(delays)} ms"
    )
    assert sum(byte_counts) > 0
    assert len(delays) > seconds / _INTERVAL_S * 0.9 - _FIRST, f"only {len(delays)} batches in {seconds} s"
    name = f"DStream, {_BATCH_RECORDS:,} records each {_INTERVAL_S:g} s"
    late = sum(delay > 1000 * _INTERVAL_S for delay in delays) / len(delays)
    return [
        told(
            Figure(
                name=f"{name}, total delay, 99 of 100 at most",
                value=statistics.quantiles(delays, n=100)[98],
                unit="ms",
                required=1000 * _INTERVAL_S,
                at_most=True,
                detail=detail,
            )
        ),
        told(Figure(name=f"{name}, later than the interval", value=100 * late, unit="%", required=None)),
        told(
            Figure(
                name=f"{name}, batches that wait at the end",
                value=max(waiting[-20:]),
                unit="batches",
                required=1,
                at_most=True,
                detail=f"at most {max(waiting[_FIRST:])} at any time",
            )
        ),
    ]


def _feed(servers: str, topic: str, stopping: threading.Event) -> None:
    """As many records each interval, evenly over the partitions."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    value = b"x" * RECORD_BYTES
    due = time.monotonic()
    while not stopping.wait(max(0.0, due - time.monotonic())):
        for number in range(_BATCH_RECORDS // 10):
            producer.produce(topic, value, partition=number % _PARTITIONS)
        producer.poll(0)
        due += _INTERVAL_S / 10
    producer.flush(30)
