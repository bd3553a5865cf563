"""Offsets of direct streams in their group, against a real broker."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from pyspark import RDD, SparkContext
from pyspark.streaming import StreamingContext
from tests.real.kafka.logs import produce
from tests.real.spark.dstreams import INTERVAL_S, Place, place_of, places, running
from tests.waiting import until

import directkafka as dk
from directkafka import Cluster, OffsetRange, TopicPartition
from directkafka.errors import OptionError
from directkafka.errors.streams import OffsetsNotCommittedError
from directkafka.spark.dstream.stream import DirectStream

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")]


@pytest.mark.slow
def test_offsets_are_committed_before_the_next_batch_is_due(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    context = StreamingContext(sc, 5)
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params | {"group.id": "prompt-" + hundred}))
    batches: list[datetime] = []
    told: list[tuple[dict[TopicPartition, int], Any, int]] = []

    def write(when: datetime, rdd: RDD[Any]) -> None:
        batches.append(when)
        stream.commit_async(dk.offset_ranges(rdd), lambda offsets, error: told.append((offsets, error, len(batches))))

    stream.foreachRDD(write)
    with running(context):
        until(lambda: told, "a commit")
    assert told[0] == ({TopicPartition(hundred, partition): 50 for partition in (0, 1)}, None, 1)


@pytest.mark.slow
@pytest.mark.parametrize("gracefully", [True, False])
def test_what_is_queued_is_committed_when_the_context_stops(
    sc: SparkContext, params: dict[str, object], hundred: str, gracefully: bool
) -> None:
    """The batch ends while Spark stops, and so its event may not come any more."""
    context = StreamingContext(sc, 5)
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params | {"group.id": "flushed-" + hundred}))
    begun, stopping = threading.Event(), threading.Event()
    told: list[Any] = []

    def write(rdd: RDD[Any]) -> None:
        stream.commit_async(dk.offset_ranges(rdd), lambda _, error: told.append(error))
        begun.set()
        stopping.wait(60)

    stream.foreachRDD(write)
    context.start()
    assert begun.wait(60)
    threading.Timer(0.5, stopping.set).start()
    context.stop(stopSparkContext=False, stopGraceFully=gracefully)
    assert told == [None]
    with Cluster(params) as cluster:
        assert cluster.committed("flushed-" + hundred) == {
            TopicPartition(hundred, partition): 50 for partition in (0, 1)
        }
    # An output may outlive the context, as one in a thread of the program's own.
    stream.commit_async([OffsetRange(hundred, 0, 50, 60)], lambda _, error: told.append(error))
    assert isinstance(told[1], OffsetsNotCommittedError)


@pytest.mark.slow
def test_a_stream_goes_on_from_its_group_without_loss(
    sc: SparkContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    strategy = dk.Subscribe(hundred, params | {"group.id": "goes-on-" + hundred})
    records: list[Place] = []
    for expected in (100, 130):
        context = StreamingContext(sc, INTERVAL_S)  # type: ignore[arg-type]
        stream = dk.create_direct_stream(context, strategy)
        stream.foreachRDD(lambda rdd, stream=stream: keep(stream, rdd, records))
        with running(context):
            until(lambda count=expected: len(records) >= count, "records")
        produce(servers, hundred, [b"meanwhile"] * 30)
    assert Counter(records) == Counter(places(hundred, 50) | {(hundred, 0, offset) for offset in range(50, 80)})


def keep(stream: DirectStream, rdd: RDD[Any], records: list[Place]) -> None:
    records += rdd.map(place_of).collect()
    stream.commit_async(dk.offset_ranges(rdd))


def test_without_a_group_nothing_can_be_committed(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params))
    with pytest.raises(OptionError, match=r"group\.id"):
        stream.commit_async([OffsetRange(hundred, 0, 0, 1)])


def test_only_ranges_can_be_committed(context: StreamingContext, params: dict[str, object], hundred: str) -> None:
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params | {"group.id": "ranges-" + hundred}))
    wrong: list[Any] = [hundred, [(hundred, 0, 0, 1)], context.sparkContext.parallelize([1])]
    for wrong_ranges in wrong:
        with pytest.raises(OptionError, match=r"expected what offset_ranges\(rdd\) gives"):
            stream.commit_async(wrong_ranges)
