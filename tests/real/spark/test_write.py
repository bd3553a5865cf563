"""Frames and streams written by a real Spark to a real broker, with the options of Spark's own sink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from tests.real.kafka.logs import Row, consume, end_offset, options, produce, read, task_for
from tests.real.spark.queries import WAIT_S, failure_of

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]


def written(servers: str, topic: str, partition: int = 0) -> list[Row]:
    """All records of a partition."""
    end = end_offset(servers, topic, partition)
    return read(task_for(options(servers), topic, 0, end, partition=partition)) if end else []


def values(servers: str, topic: str, partition: int = 0) -> list[bytes | None]:
    return [row[2] for row in written(servers, topic, partition)]


@pytest.fixture
def write(servers: str) -> Callable[..., None]:
    """``write(frame, topic=..., ...)`` appends it; dots in options' names as ``__``."""

    def append(frame: DataFrame, mode: str = "append", **settings: object) -> None:
        writer = frame.write.format("directkafka").mode(mode).option("kafka.bootstrap.servers", servers)
        for name, value in settings.items():
            writer = writer.option(name.replace("__", "."), str(value))
        writer.save()

    return append


@pytest.fixture
def stream(session: SparkSession, servers: str, create_topic: CreateTopic, tmp_path: Path) -> Callable[..., Any]:
    """``stream(*columns, ...)`` writes ten records' columns from a topic of its own; gives the query, at its end."""

    def run(*columns: str, ends: bool = True, **settings: object) -> Any:
        source = create_topic()
        produce(servers, source, [b"%d" % number for number in range(10)])
        reader = session.readStream.format("directkafka").option("kafka.bootstrap.servers", servers)
        rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load().selectExpr(*columns)
        writer = rows.writeStream.format("directkafka").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer = writer.option("kafka.bootstrap.servers", servers)
        for name, value in settings.items():
            writer = writer.option(name.replace("__", "."), str(value))
        query = writer.trigger(availableNow=True).start()
        if ends:
            assert query.awaitTermination(WAIT_S)
        return query

    return run


TEN = [b"%d" % number for number in range(10)]


# Streams.


@pytest.mark.slow
def test_a_stream_goes_to_the_topic_that_a_column_names(
    stream: Callable[..., Any], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    query = stream(f"'{topic}' AS topic", "value")
    assert values(servers, topic) == TEN
    assert query.lastProgress["sink"]["description"]


def test_a_stream_goes_to_the_topic_of_the_option(
    stream: Callable[..., Any], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    query = stream("CAST(value AS STRING) AS key", "value", topic=f" {topic} ")
    assert [(row[1], row[2]) for row in written(servers, topic)] == [(value, value) for value in TEN]
    # The last batch's rows, as Spark counts them.
    assert sum(progress["sink"]["numOutputRows"] for progress in query.recentProgress) == 10


@pytest.mark.slow
def test_the_option_counts_before_the_column(
    stream: Callable[..., Any], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    stream("'another' AS topic", "value", topic=topic)
    assert values(servers, topic) == TEN


@pytest.mark.slow
def test_a_stream_to_a_topic_that_is_not_there_fails(stream: Callable[..., Any]) -> None:
    query = stream("value", ends=False, topic="nobody-made-this", kafka__max__block__ms=300)
    message = failure_of(query)
    assert "nobody-made-this" in message
    assert "Create the topic" in message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["value"], "no attribute 'topic'"),
        (["1 AS topic", "value"], "must be string, and is int"),
        (["'t' AS topic", "1 AS value"], "must be string or binary, and is int"),
        (["'t' AS topic", "value", "1 AS key"], "must be string or binary, and is int"),
        (["'t' AS topic", "value", "'0' AS partition"], "must be int, and is string"),
    ],
    ids=["no topic", "topic", "value", "key", "partition"],
)
def test_a_stream_s_rows_are_checked_before_it_runs(
    stream: Callable[..., Any], columns: list[str], message: str
) -> None:
    assert message in failure_of(stream(*columns, ends=False))


# Frames.


def test_a_frame_is_written_with_keys_and_headers(
    session: SparkSession, write: Callable[..., None], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    frame = session.sql(
        "SELECT * FROM VALUES ('a', X'01', array(named_struct('key', 'h', 'value', X'31'),"
        " named_struct('key', 'h', 'value', CAST(NULL AS BINARY)))), (NULL, NULL, NULL), ('', X'', array())"
        " AS t(key, value, headers)"
    ).coalesce(1)
    write(frame, topic=topic)
    assert [(row[1], row[2], row[5]) for row in consume(servers, topic)] == [
        (b"a", b"\x01", [("h", b"1"), ("h", None)]),
        (None, None, None),
        (b"", b"", None),
    ]
    write(frame.select("value", "headers"), topic=topic, includeHeaders="false")
    assert [row[5] for row in written(servers, topic)[3:]] == [None] * 3


@pytest.mark.slow
def test_a_partition_of_the_row_counts_before_its_key(
    session: SparkSession, write: Callable[..., None], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(4)
    # Java's partitioner puts "21" into partition 0 of 4, and "abc" into 3.
    rows = "('21', 'chosen', 2), ('21', 'by key', CAST(NULL AS INT)), ('abc', 'by key too', CAST(NULL AS INT))"
    write(session.sql(f"SELECT * FROM VALUES {rows} AS t(key, value, partition)"), topic=topic)
    values_by_partition = [values(servers, topic, number) for number in range(4)]
    assert values_by_partition == [[b"by key"], [], [b"chosen"], [b"by key too"]]


def test_rows_without_key_are_spread_over_all_partitions(
    session: SparkSession, write: Callable[..., None], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(3)
    write(session.range(300).selectExpr("CAST(id AS STRING) AS value"), topic=topic)
    values_by_partition = [values(servers, topic, number) for number in range(3)]
    assert sorted(int(value or b"") for part in values_by_partition for value in part) == list(range(300))
    assert {len(part) for part in values_by_partition} <= {99, 100, 101}


def test_rows_go_to_many_topics_by_their_column(
    session: SparkSession, write: Callable[..., None], servers: str, create_topic: CreateTopic
) -> None:
    topics = [create_topic(2), create_topic(1)]
    frame = session.range(100).selectExpr(
        f"IF(id % 2 = 0, '{topics[0]}', '{topics[1]}') AS topic", "CAST(id AS STRING) AS value"
    )
    write(frame, kafka__compression__type="lz4")
    even = [int(value or b"") for number in range(2) for value in values(servers, topics[0], number)]
    odd = [int(value or b"") for value in values(servers, topics[1])]
    assert (sorted(even), sorted(odd)) == (list(range(0, 100, 2)), list(range(1, 100, 2)))


@pytest.mark.slow
def test_a_timestamp_is_written_only_when_it_is_asked_for(
    session: SparkSession, write: Callable[..., None], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(config={"retention.ms": "-1"})
    frame = session.sql("SELECT 'a' AS value, timestamp_millis(1700000000123) AS timestamp")
    write(frame, topic=topic, includeTimestamp="true")
    write(frame, topic=topic)
    asked, not_asked = (row[3] for row in written(servers, topic))
    assert asked == 1_700_000_000_123
    assert not_asked > 1_750_000_000_000


@pytest.mark.slow
def test_rows_that_are_more_than_the_buffer_holds_are_written_all(
    session: SparkSession, write: Callable[..., None], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(2)
    frame = session.range(0, 20_000, 1, 2).selectExpr("CAST(id AS STRING) AS key", "repeat('x', 500) AS value")
    write(frame, topic=topic, kafka__buffer__memory=16_384, kafka__batch__size=4_096)
    assert end_offset(servers, topic, 0) + end_offset(servers, topic, 1) == 20_000


def test_an_analyzed_plan_can_be_written(
    session: SparkSession, write: Callable[..., None], servers: str, create_topic: CreateTopic
) -> None:
    """Spark's SPARK-20496: columns that were renamed by a join."""
    topic = create_topic()
    left = session.sql("SELECT 1 AS id, 'value' AS name").alias("a")
    right = session.sql("SELECT 1 AS id, 'key' AS name").alias("b")
    frame = left.join(right, "id").selectExpr("a.name AS value", "b.name AS key")
    write(frame, topic=topic)
    assert [(row[1], row[2]) for row in written(servers, topic)] == [(b"key", b"value")]


def test_an_empty_frame_connects_to_nobody(session: SparkSession) -> None:
    frame = session.range(0).selectExpr("CAST(id AS STRING) AS value")
    nobody = frame.write.format("directkafka").mode("append").option("kafka.bootstrap.servers", "127.0.0.1:1")
    nobody.option("topic", "any").save()


# What is refused.


@pytest.mark.parametrize(
    ("columns", "settings", "words"),
    [
        ("'v' AS value", {}, "no attribute 'topic'"),
        ("'t' AS topic", {}, "required attribute 'value' not found"),
        ("1 AS topic, 'v' AS value", {}, "must be string, and is int"),
        ("'t' AS topic, 1 AS value", {}, "must be string or binary, and is int"),
        ("'t' AS topic, 'v' AS value, 1 AS key", {}, "must be string or binary, and is int"),
        ("'t' AS topic, 'v' AS value, '1' AS partition", {}, "must be int, and is string"),
        ("'t' AS topic, 'v' AS value, 'h' AS headers", {}, "must be array<struct<key:string,value:binary>>"),
        ("'v' AS value", {"topic": "t", "kafka__key__serializer": "foo"}, "kafka.key.serializer"),
        ("'v' AS value", {"topic": "t", "kafka__value__serializer": "foo"}, "kafka.value.serializer"),
        ("'v' AS value", {"topic": "t", "topics": "u"}, "is not an option of this sink"),
    ],
)
def test_a_write_that_is_wrong_is_refused_with_what_to_write(
    session: SparkSession, write: Callable[..., None], columns: str, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(Exception) as caught:
        write(session.sql(f"SELECT {columns}"), **settings)
    assert words in str(caught.value)


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "error"])
def test_only_append_is_possible(
    session: SparkSession, write: Callable[..., None], servers: str, create_topic: CreateTopic, mode: str
) -> None:
    topic = create_topic()
    with pytest.raises(AnalysisException) as caught:
        write(session.sql("SELECT 'v' AS value"), mode=mode, topic=topic)
    assert mode in str(caught.value).lower()
    assert end_offset(servers, topic) == 0


def test_a_row_without_topic_is_refused(session: SparkSession, write: Callable[..., None]) -> None:
    with pytest.raises(Exception, match="KAFKA_NULL_TOPIC_IN_DATA"):
        write(session.sql("SELECT CAST(NULL AS STRING) AS topic, 'v' AS value"))


def test_a_partition_that_the_topic_does_not_have_is_refused_by_row(
    session: SparkSession, write: Callable[..., None], create_topic: CreateTopic
) -> None:
    topic = create_topic(2)
    with pytest.raises(Exception, match=rf"row 0 of 1 for topic {topic}, partition 2 .*partitions 0 to 1"):
        write(session.sql("SELECT 2 AS partition, 'v' AS value"), topic=topic)
