"""Queries over a cluster of three brokers: a leader that is killed, and retention that overtakes a running batch.

What happens happens while a task is in the middle of its range: :class:`Held` stops it there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.streaming import StreamingContext
from tests.real.kafka.cluster import heal, partition_of, place_on
from tests.real.kafka.logs import consume, create_topic_again, delete_records, produce, set_topic_config, start_offset
from tests.real.spark.dstreams import Collected, Settings, place_of, running
from tests.real.spark.queries import failure_of
from tests.waiting import WAIT_S, until

import directkafka as dk
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: 10 kB each: more than lies in buffers and pipes between the broker and whoever takes the rows; a kernel may let one
#: socket grow to 32 MB.
COUNT = 5_000
SMALL = {"kafka.max.partition.fetch.bytes": "20000"}

Pairs = list[tuple[int, bytes]]


class Held:
    """Rows pass through this on their way out of Spark; after the first ones it waits, once, until it is let go."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._arrived = folder / "arrived"
        self._let_go = folder / "let-go"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """On the executor, as a function for ``mapInArrow``."""
        for batch in batches:
            self._arrived.touch()
            until(self._let_go.exists, "nobody let the rows go")
            yield batch

    def meanwhile(self, event: Callable[[], object], is_over: Callable[[], object]) -> None:
        """In the test: let something happen while the rows are held."""
        until(lambda: self._arrived.exists() or is_over(), "no rows came")
        try:
            event()
        finally:
            self._let_go.touch()

    def pairs(self, frame: DataFrame) -> Pairs:
        """All offsets and values of a frame, in order of offset."""
        held = frame.select("offset", "value").mapInArrow(self, "offset long, value binary")
        return sorted((row.offset, bytes(row.value)) for row in held.collect())


@pytest.fixture
def held(session: SparkSession, tmp_path: Path) -> Iterator[Held]:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = session.conf.get(name)
    session.conf.set(name, 10)
    yield Held(tmp_path / "held")
    session.conf.set(name, before)


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaBroker]:
    # A dead broker is missed after 9 s, as by Kafka's defaults; retention looks often.
    slow = {"broker.heartbeat.interval.ms": 2_000, "broker.session.timeout.ms": 9_000}
    quick = {"log.retention.check.interval.ms": 200, "log.initial.task.delay.ms": 200}
    with KafkaBroker(3, config={**slow, **quick}) as broker:
        yield broker


@pytest.fixture
def cluster(three: KafkaBroker) -> Iterator[KafkaBroker]:
    yield three
    heal(three)


@pytest.fixture
def flights(cluster: KafkaBroker, topic: Callable[[], str]) -> str:
    """A topic with three replicas, led by node 1, in small segments."""
    servers, name = cluster.bootstrap_servers, topic()
    create_topic_again(servers, name, replicas=3, config={"segment.bytes": "1048576"})
    place_on(servers, name, [1, 2, 3])
    produce(servers, name, [os.urandom(10_000) for _ in range(COUNT)], batch_every=10, acks="all")
    return name


def options_of(cluster: KafkaBroker, topic: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **SMALL,
        **more,
    }


def expected_of(cluster: KafkaBroker, topic: str) -> Pairs:
    """What confluent-kafka reads."""
    rows = consume(cluster.bootstrap_servers, topic)
    assert len(rows) == COUNT
    return [(row[0], row[2] or b"") for row in rows]


class Stream:
    """An available-now query whose batches go through :class:`Held`."""

    def __init__(self, session: SparkSession, options: dict[str, str], held: Held, checkpoint: Path) -> None:
        self.batches: dict[int, Pairs] = {}
        self._held = held
        writer = session.readStream.format("directkafka").options(**options).load().writeStream
        writer = writer.foreachBatch(self._write).option("checkpointLocation", str(checkpoint))
        self.query: StreamingQuery = writer.trigger(availableNow=True).start()

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = self._held.pairs(frame)

    def meanwhile(self, event: Callable[[], object]) -> None:
        self._held.meanwhile(event, lambda: not self.query.isActive)

    def all(self) -> Pairs:
        assert self.query.awaitTermination(2 * WAIT_S), "the query did not end"
        return [pair for batch in sorted(self.batches) for pair in self.batches[batch]]


@pytest.fixture
def start(session: SparkSession, held: Held, tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Stream]]:
    """Starts a stream with these options, stopped at the test's end."""
    started: list[Stream] = []

    def make(options: dict[str, str]) -> Stream:
        started.append(Stream(session, options, held, tmp_path / "checkpoint"))
        return started[-1]

    yield make
    for stream in started:
        stream.query.stop()


def read_batch(session: SparkSession, options: dict[str, str], held: Held, event: Callable[[], object]) -> Pairs:
    """A batch read in whose middle something happens."""
    with ThreadPoolExecutor(1) as pool:
        frame = session.read.format("directkafka").options(**options).load()
        reading = pool.submit(held.pairs, frame)
        held.meanwhile(event, reading.done)
        return reading.result(2 * WAIT_S)


# A leader that is killed.


def test_a_batch_read_survives_its_leader(
    session: SparkSession, cluster: KafkaBroker, flights: str, held: Held
) -> None:
    expected = expected_of(cluster, flights)
    assert read_batch(session, options_of(cluster, flights), held, partial(cluster.kill, 1)) == expected


def test_a_stream_survives_its_leader_in_mid_batch_and_when_it_plans_the_next_one(
    cluster: KafkaBroker, flights: str, start: Callable[..., Stream]
) -> None:
    """The first batch ends, and the second is planned, before the cluster has missed the dead broker."""
    expected = expected_of(cluster, flights)
    stream = start(options_of(cluster, flights, maxOffsetsPerTrigger="1200"))
    stream.meanwhile(partial(cluster.kill, 1))
    assert stream.all() == expected
    assert partition_of(cluster.bootstrap_servers, flights).leader != 1


# Retention that overtakes a running batch.


def expire(cluster: KafkaBroker, topic: str) -> None:
    """Retention deletes all but the last two or three segments of a hundred records each."""
    set_topic_config(cluster.bootstrap_servers, topic, {"retention.bytes": "2500000"})
    until(lambda: start_offset(cluster.bootstrap_servers, topic) > COUNT - 400, "retention deleted nothing")


def lost_in(pairs: Pairs, expected: Pairs) -> tuple[int, int]:
    """The one gap in what was read; all else is as expected."""
    kept = dict(pairs)
    missing = [offset for offset, _ in expected if offset not in kept]
    lost_from, lost_until = missing[0], missing[-1] + 1
    assert missing == list(range(lost_from, lost_until))
    assert pairs == [pair for pair in expected if not lost_from <= pair[0] < lost_until]
    return lost_from, lost_until


def test_a_stream_stops_when_retention_overtakes_its_batch_and_names_the_range(
    cluster: KafkaBroker, flights: str, start: Callable[..., Stream]
) -> None:
    stream = start(options_of(cluster, flights))
    stream.meanwhile(partial(delete_records, cluster.bootstrap_servers, flights, 1_955))
    message = failure_of(stream.query)
    assert "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE" in message
    lost_from = int(message.split(f"topic {flights}, partition 0, offsets [")[1].split(",")[0])
    assert 0 < lost_from < 1_955
    assert f"offsets [{lost_from}, 1955)" in message
    assert "the log starts at offset 1955 now" in message


def test_a_stream_goes_on_behind_what_retention_took_when_that_is_allowed(
    cluster: KafkaBroker, flights: str, start: Callable[..., Stream]
) -> None:
    expected = expected_of(cluster, flights)
    stream = start(options_of(cluster, flights, failOnDataLoss="false"))
    stream.meanwhile(partial(expire, cluster, flights))
    lost_from, lost_until = lost_in(stream.all(), expected)
    assert 0 < lost_from < lost_until == start_offset(cluster.bootstrap_servers, flights)


def test_a_batch_read_stops_when_retention_overtakes_it_and_names_the_range(
    session: SparkSession, cluster: KafkaBroker, flights: str, held: Held
) -> None:
    with pytest.raises(Exception, match=r"offsets \[[1-9]\d*, \d+\).*the log starts at offset \d+ now") as caught:
        read_batch(session, options_of(cluster, flights), held, partial(expire, cluster, flights))
    assert "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE" in str(caught.value)
    assert f"topic {flights}, partition 0" in str(caught.value)


def test_a_batch_read_goes_on_behind_what_retention_took_when_that_is_allowed(
    session: SparkSession, cluster: KafkaBroker, flights: str, held: Held
) -> None:
    expected = expected_of(cluster, flights)
    options = options_of(cluster, flights, failOnDataLoss="false")
    lost_from, lost_until = lost_in(read_batch(session, options, held, partial(expire, cluster, flights)), expected)
    assert 0 < lost_from < lost_until == start_offset(cluster.bootstrap_servers, flights)


# Direct streams.


@pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")
def test_a_direct_stream_goes_on_with_the_new_leader(
    context: StreamingContext, cluster: KafkaBroker, flights: str, settings: Settings
) -> None:
    """Tasks of batches that were planned before look the new leader up themselves."""
    settings({"spark.streaming.kafka.maxRatePerPartition": 2_000})
    params = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
    seen = Collected().of(dk.create_direct_stream(context, dk.Subscribe(flights, params)).map(place_of))
    with running(context):
        seen.wait_for(1)
        cluster.kill(partition_of(cluster.bootstrap_servers, flights).leader)
        records = seen.wait_for(COUNT)
    assert records == [(flights, 0, offset) for offset in range(COUNT)]
