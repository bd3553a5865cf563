"""A log that is cut and grows again between two batches: an error with its numbers, however it is read.

A broker of its own dies, loses the disk of its topics, and comes back. Then more records are written than there were:
the log reaches past where everybody was, and nothing seems to be missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext
from tests.processes import child_that_runs, suspend
from tests.real.kafka.cluster import lose_log
from tests.real.kafka.logs import create_topic_again, end_offset, produce
from tests.real.spark.dstreams import Collected, place_of
from tests.real.spark.queries import Output, failure_of
from tests.waiting import until

import directkafka as dk
from directkafka.testing import KafkaBroker

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning"),
]

BEFORE, AFTER = 100, 250


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def filled(broker: KafkaBroker, topic: Callable[[], str]) -> str:
    name = topic()
    create_topic_again(broker.bootstrap_servers, name)
    produce(broker.bootstrap_servers, name, [b"old"] * BEFORE)
    return name


def cut_and_grow(broker: KafkaBroker, topic: str) -> None:
    broker.kill()
    lose_log(broker, 1, topic)
    broker.restart()
    # At once: who looks in between finds an empty log, which is another loss.
    produce(broker.bootstrap_servers, topic, [b"new"] * AFTER)
    assert end_offset(broker.bootstrap_servers, topic) == AFTER, "nothing was cut"


def check(error: str | dk.DataLossError, topic: str) -> None:
    shown = str(error)
    assert f"[KAFKA_DATA_LOSS.LOG_TRUNCATED] topic {topic}, partition 0, offsets [0, {BEFORE})" in shown
    assert "the log was cut at offset 0" in shown
    assert f"[0, {AFTER})" in shown


def pipeline_of(broker: KafkaBroker, topic: str, folder: Path, **source: str) -> dk.Pipeline:
    return dk.Pipeline(
        "cut",
        source={"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
        | source,
        transform="SELECT offset, CAST(value AS STRING) AS text FROM source",
        sinks=dk.SQLiteSink(str(folder / "out.db"), "records"),
        trigger="available-now",
    )


def test_a_pipeline_tells_the_loss_until_it_is_accepted(
    broker: KafkaBroker, filled: str, spark: SparkSession, tmp_path: Path
) -> None:
    pipeline_of(broker, filled, tmp_path).run()
    cut_and_grow(broker, filled)
    with pytest.raises(dk.DataLossError) as caught:
        pipeline_of(broker, filled, tmp_path).run()
    check(caught.value, filled)
    with pytest.raises(dk.DataLossError):
        pipeline_of(broker, filled, tmp_path).run()
    pipeline_of(broker, filled, tmp_path, failOnDataLoss="false").run()
    entry = dk.SQLiteSink(str(tmp_path / "out.db"), "records").store.read("cut")
    assert entry is not None
    assert (list(entry.ends().values()), dict(entry.total_rows)) == ([AFTER], {"records": AFTER})
    pipeline_of(broker, filled, tmp_path).run()


@contextmanager
def no_looks() -> Iterator[None]:
    """The process in which Spark asks a query's source for its offsets stands still meanwhile."""
    source = child_that_runs("pyspark.sql.streaming.python_streaming_source_runner")
    suspend(source)
    try:
        yield
    finally:
        source.resume()


def test_a_query_tells_the_loss(broker: KafkaBroker, filled: str, session: SparkSession, output: Output) -> None:
    stream = (
        session.readStream.format("directkafka")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", filled)
        .option("startingOffsets", "earliest")
    )
    query = output.start(stream, processingTime="100 milliseconds")
    until(lambda: len(output.all()) == BEFORE, "the first records")
    with no_looks():
        cut_and_grow(broker, filled)
    check(failure_of(query), filled)


def test_a_direct_stream_tells_the_loss(broker: KafkaBroker, filled: str, context: StreamingContext) -> None:
    params = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
    is_cut = threading.Event()
    stream = dk.create_direct_stream(
        context, dk.Subscribe([filled], params), trigger=lambda _: 0 if is_cut.is_set() else 1_000
    )
    collected = Collected().of(stream.map(place_of))
    context.start()
    collected.wait_for(BEFORE)
    cut_and_grow(broker, filled)
    is_cut.set()
    with pytest.raises(Py4JJavaError) as caught:
        context.awaitTermination(60)
    check(str(caught.value), filled)
