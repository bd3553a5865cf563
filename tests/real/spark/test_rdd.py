"""Exact ranges as an RDD: against a real broker, with confluent-kafka as the oracle of what the records are."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.real.kafka.compacted import TOPIC, compacted_topic
from tests.real.kafka.logs import (
    consume,
    delete_records,
    host_and_port,
    produce,
)
from tests.real.kafka.proxy import KafkaProxy, advertise
from tests.real.spark.dstreams import Settings

import directkafka as dk
from directkafka import ConsumerRecord, OffsetRange, TopicPartition
from directkafka.errors import BrokerUnreachableError, DataLossError, OptionError, TopicNotFoundError
from directkafka.errors.streams import NonConsecutiveOffsetsError
from directkafka.snapshot import ClusterSnapshot

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]
#: The number of the Fetch API.
FETCH = 1


@pytest.fixture
def params(servers: str) -> dict[str, object]:
    return {"bootstrap.servers": servers}


@pytest.fixture
def strict(settings: Settings) -> None:
    settings({"spark.streaming.kafka.allowNonConsecutiveOffsets": False})


def whole(topic: str, count: int = 50, partitions: int = 2) -> list[OffsetRange]:
    return [OffsetRange(topic, number, 0, count) for number in range(partitions)]


def place_of(record: ConsumerRecord) -> tuple[int, int]:
    return record.partition, record.offset


def rows_of(batch: pa.RecordBatch) -> list[int]:
    return [batch.num_rows]


def test_the_records_are_those_that_another_client_reads(
    sc: SparkContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    records = dk.create_rdd(sc, params, whole(hundred)).collect()
    assert [place_of(record) for record in records] == [
        (partition, offset) for partition in (0, 1) for offset in range(50)
    ]
    for partition in (0, 1):
        ours = [
            (
                record.offset,
                record.key,
                record.value,
                record.timestamp_ms,
                record.timestamp_type,
                list(record.headers) or None,
            )
            for record in records
            if record.partition == partition
        ]
        assert ours == consume(servers, hundred, partition=partition)


def test_partition_i_is_range_i_whatever_the_order(sc: SparkContext, params: dict[str, object], hundred: str) -> None:
    ranges = [OffsetRange(hundred, 1, 10, 20), OffsetRange(hundred, 0, 5, 5), OffsetRange(hundred, 0, 0, 5)]
    rdd = dk.create_rdd(sc, params, ranges)
    assert dk.offset_ranges(rdd) == tuple(ranges)
    partitions = rdd.mapPartitionsWithIndex(
        lambda number, records: [(number, [place_of(record) for record in records])]
    ).collect()
    assert partitions == [
        (0, [(1, offset) for offset in range(10, 20)]),
        (1, []),
        (2, [(0, offset) for offset in range(5)]),
    ]


@pytest.mark.parametrize(("start", "end"), [(0, 50), (7, 7), (49, 50), (0, 1)], ids=["lots", "zero", "last", "first"])
def test_a_range_has_all_its_records_and_none_behind_its_end(
    sc: SparkContext, params: dict[str, object], hundred: str, start: int, end: int
) -> None:
    rdd = dk.create_rdd(sc, params, [OffsetRange(hundred, 0, start, end)])
    assert rdd.map(place_of).collect() == [(0, offset) for offset in range(start, end)]
    assert (rdd.count(), rdd.isEmpty()) == (end - start, start == end)


def test_two_tasks_may_read_one_partition_at_the_same_time(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    def read_together(records: Iterable[ConsumerRecord]) -> list[list[int]]:
        from pyspark import BarrierTaskContext

        several = iter(records)
        first = next(several).offset
        # Each has begun, and goes on only when the other has begun as well.
        BarrierTaskContext.get().barrier()
        return [[first, *(record.offset for record in several)]]

    ranges = [OffsetRange(hundred, 0, 0, 30), OffsetRange(hundred, 0, 30, 50)]
    offsets = dk.create_rdd(sc, params, ranges).barrier().mapPartitions(read_together).collect()
    assert offsets == [list(range(30)), list(range(30, 50))]


def test_a_task_may_look_up_its_range_in_foreach_partition(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    rdd = dk.create_rdd(sc, params, whole(hundred))
    ranges, seen = dk.offset_ranges(rdd), sc.accumulator(0)

    def check(records: Iterable[ConsumerRecord]) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        mine = ranges[context.partitionId()]
        assert [place_of(record) for record in records] == [(mine.partition, offset) for offset in range(50)]
        seen.add(1)

    rdd.foreachPartition(check)
    assert seen.value == 2


class Connection:
    """Of a kind that closes when its block ends, and takes nothing from then on."""

    def __init__(self) -> None:
        self.is_open = True

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def write(self, record: ConsumerRecord) -> int:
        assert self.is_open, "the connection is closed"
        return record.offset


def write_too_late(_: int, records: Iterable[ConsumerRecord]) -> Iterable[int]:
    with Connection() as connection:
        return map(connection.write, records)


def write_in_time(_: int, records: Iterable[ConsumerRecord]) -> Iterable[int]:
    with Connection() as connection:
        return [connection.write(record) for record in records]


def test_the_trap_of_an_iterator_that_is_read_when_the_connection_is_closed(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    rdd = dk.create_rdd(sc, params, whole(hundred))
    trapped = rdd.mapPartitionsWithIndex(write_too_late)  # nothing has run yet, and so nothing has failed
    with pytest.raises(Exception, match="the connection is closed"):
        trapped.count()
    assert rdd.mapPartitionsWithIndex(write_in_time).count() == 100


def test_computing_it_again_gives_the_same_records_whatever_has_come_since(
    sc: SparkContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    rdd = dk.create_rdd(sc, params, whole(hundred))
    before = rdd.map(place_of).collect()
    produce(servers, hundred, [b"later"] * 20, partition=1)
    assert rdd.map(place_of).collect() == before
    assert rdd.union(rdd).count() == 200


def test_handlers_run_over_records_or_over_arrow_batches(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    by_record = dk.create_rdd(sc, params, whole(hundred), message_handler=place_of)
    assert by_record.collect() == [(partition, offset) for partition in (0, 1) for offset in range(50)]
    assert by_record.count() == 100
    by_batch = dk.create_rdd(sc, params, whole(hundred), arrow_handler=lambda batch: batch.column("offset").to_pylist())
    assert by_batch.collect() == [*range(50), *range(50)]
    rows = dk.create_rdd(sc, params, whole(hundred), arrow_handler=rows_of)
    assert rows.sum() == 100
    # Items are what the handler gives, not records.
    assert rows.count() == len(rows.collect())


def test_an_arrow_handler_is_given_decoded_values_where_that_is_asked_for(
    sc: SparkContext, params: dict[str, object], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    produce(servers, topic, [b'{"id": 1}', b"nonsense", None, b'{"id": 4}'])
    typed = params | {"value.format": "json", "value.schema": "id BIGINT", "key.format": "string"}
    lenient = typed | {"value.on.error": "null"}
    ranges = [OffsetRange(topic, 0, 0, 4)]

    def items(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        names = ("offset", "value", "value_error", "key")
        return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))

    rdd = dk.create_rdd(sc, lenient, ranges, arrow_handler=items)
    rows = rdd.collect()
    assert [row[:2] for row in rows] == [(0, {"id": 1}), (1, {"id": None}), (2, None), (3, {"id": 4})]
    assert [row[2] for row in rows] == [None, "the word 'nonsense'", None, None]
    assert dk.record_counts(rdd) == (4,)
    with pytest.raises(Exception, match=f"topic {topic}, partition 0 at offset 1 cannot be read as json"):
        dk.create_rdd(sc, typed, ranges, arrow_handler=rows_of).collect()


def test_a_handler_that_raises_fails_the_action_with_its_error(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    def refuse(record: ConsumerRecord) -> None:
        raise LookupError(f"no carrier at {record.offset}")

    with pytest.raises(Exception, match="LookupError: no carrier at 0"):
        dk.create_rdd(sc, params, whole(hundred), message_handler=refuse).collect()


# What is read.


@pytest.fixture
def counted(servers: str, create_topic: CreateTopic) -> Iterable[tuple[KafkaProxy, str]]:
    """A broker behind a proxy that counts, and a topic of 4 partitions with 200 KB each in records of 1 KB."""
    topic = create_topic(4)
    for partition in range(4):
        produce(servers, topic, [b"%01000d" % number for number in range(200)], partition=partition, batch_every=10)
    with KafkaProxy(*host_and_port(servers)) as proxy:
        proxy.change = advertise(servers, f"127.0.0.1:{proxy.port}")
        yield proxy, topic


def test_nothing_is_read_before_an_action_and_few_items_need_few_bytes(
    sc: SparkContext, counted: tuple[KafkaProxy, str]
) -> None:
    proxy, topic = counted
    rdd = dk.create_rdd(sc, {"bootstrap.servers": f"127.0.0.1:{proxy.port}"}, whole(topic, 200, 4))
    assert proxy.requests[FETCH] == 0
    assert [record.offset for record in rdd.take(3)] == [0, 1, 2]
    assert rdd.first().offset == 0
    assert not rdd.isEmpty()
    few = proxy.response_bytes
    assert proxy.requests[FETCH] > 0
    assert few < 500_000
    assert rdd.count() == 800
    assert proxy.response_bytes - few > 800_000


def test_take_goes_on_to_further_ranges_until_it_has_enough(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    ranges = [OffsetRange(hundred, 0, 50, 50), OffsetRange(hundred, 0, 48, 50), OffsetRange(hundred, 1, 0, 3)]
    rdd = dk.create_rdd(sc, params, ranges)
    assert [place_of(record) for record in rdd.take(4)] == [(0, 48), (0, 49), (1, 0), (1, 1)]
    assert len(rdd.take(100)) == 5
    assert rdd.take(0) == []


def test_an_rdd_of_empty_ranges_is_empty_and_costs_no_job(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    rdd = dk.create_rdd(sc, params, [OffsetRange(hundred, 0, 7, 7)])
    assert (rdd.isEmpty(), rdd.count(), rdd.take(5), rdd.collect()) == (True, 0, [], [])
    none = dk.create_rdd(sc, params, [])
    assert (none.getNumPartitions(), none.count(), none.collect(), dk.offset_ranges(none)) == (0, 0, [], ())


@pytest.fixture
def gaps(servers: str, create_topic: CreateTopic) -> str:
    """Ten transactions of five records: every sixth offset is a marker."""
    from confluent_kafka import Producer

    topic = create_topic(1)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"gaps-{topic}"})
    producer.init_transactions(30)
    for number in range(10):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, b"%d" % number, partition=0)
        producer.commit_transaction(30)
    return topic


def test_gaps_are_no_loss_and_counts_know_them(sc: SparkContext, params: dict[str, object], gaps: str) -> None:
    ranges = [OffsetRange(gaps, 0, 0, 30), OffsetRange(gaps, 0, 30, 60), OffsetRange(gaps, 0, 5, 6)]
    rdd = dk.create_rdd(sc, params, [ranges[0], ranges[1]])
    assert (rdd.count(), rdd.record_counts(), len(rdd.collect())) == (50, (25, 25), 50)
    marker = dk.create_rdd(sc, params, [ranges[2]])
    assert (marker.count(), marker.isEmpty(), marker.take(1)) == (0, True, [])


@pytest.mark.usefixtures("strict")
def test_a_program_that_says_there_are_no_gaps_is_believed_in_counts_and_held_to_it_in_reads(
    sc: SparkContext, params: dict[str, object], gaps: str
) -> None:
    rdd = dk.create_rdd(sc, params, [OffsetRange(gaps, 0, 0, 60)])
    assert (rdd.count(), rdd.isEmpty()) == (60, False)
    with pytest.raises(Exception, match="allowNonConsecutiveOffsets") as raised:
        rdd.collect()
    assert NonConsecutiveOffsetsError.__name__ in str(raised.value)


@pytest.mark.slow
def test_the_gaps_of_a_compacted_topic_are_no_loss_and_counts_know_them(sc: SparkContext) -> None:
    with compacted_topic() as (servers, end):
        expected = [row[0] for row in consume(servers, TOPIC)]
        rdd = dk.create_rdd(sc, {"bootstrap.servers": servers}, [OffsetRange(TOPIC, 0, 0, end)])
        assert rdd.map(lambda record: record.offset).collect() == expected
        assert (rdd.count(), rdd.record_counts()) == (len(expected), (len(expected),))
        assert rdd.count() < rdd.offset_ranges[0].count()


# What is refused before a task runs.


def test_ranges_outside_the_log_are_refused_with_the_numbers(
    sc: SparkContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    delete_records(servers, hundred, 10)
    with pytest.raises(DataLossError, match=r"\[0, 10\).*\[10, 50\)"):
        dk.create_rdd(sc, params, [OffsetRange(hundred, 0, 0, 20)])
    with pytest.raises(DataLossError, match=r"\[50, 99\)"):
        dk.create_rdd(sc, params, [OffsetRange(hundred, 1, 0, 99)])


def test_ranges_that_seem_to_be_outside_the_log_are_looked_for_again(
    sc: SparkContext, params: dict[str, object], hundred: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new leader's high watermark lags for a moment (KAFKA-7703)."""
    looks: list[ClusterSnapshot] = []

    class Lagging(dk.Cluster):
        def snapshot(self, partitions: Iterable[TopicPartition]) -> ClusterSnapshot:
            looks.append(super().snapshot(partitions))
            return looks[-1] if len(looks) > 1 else looks[-1].until(dict.fromkeys(looks[-1].partitions, 10))

    monkeypatch.setattr("directkafka.spark.source_cluster.Cluster", Lagging)
    assert dk.create_rdd(sc, params, whole(hundred)).count() == 100
    assert len(looks) == 2


def test_ranges_that_overlap_or_end_before_they_start_are_refused(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    with pytest.raises(OptionError, match="overlap"):
        dk.create_rdd(sc, params, [OffsetRange(hundred, 0, 0, 20), OffsetRange(hundred, 0, 19, 30)])
    with pytest.raises(ValueError, match="from_offset 5, until_offset 4"):
        OffsetRange(hundred, 0, 5, 4)


def test_a_topic_that_is_not_there_is_named(sc: SparkContext, params: dict[str, object]) -> None:
    with pytest.raises(TopicNotFoundError, match="no-such-topic"):
        dk.create_rdd(sc, params, [OffsetRange("no-such-topic", 0, 0, 1)])


def test_wrong_arguments_are_told_at_once(spark: SparkSession, params: dict[str, object], hundred: str) -> None:
    sc = spark.sparkContext
    with pytest.raises(OptionError, match="Spark Connect has no RDDs"):
        dk.create_rdd(spark, params, whole(hundred))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="give one of them"):
        dk.create_rdd(sc, params, whole(hundred), message_handler=place_of, arrow_handler=rows_of)
    with pytest.raises(OptionError, match="expected a function, found str"):
        dk.create_rdd(sc, params, whole(hundred), arrow_handler="rows")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"bootstrap\.servers"):
        dk.create_rdd(sc, {}, whole(hundred))
    json = params | {"value.format": "json", "value.schema": "id BIGINT"}
    with pytest.raises(OptionError, match=r"value\.format.*needs an arrow_handler"):
        dk.create_rdd(sc, json, whole(hundred))
    with pytest.raises(OptionError, match="dead-letter is for pipelines"):
        dk.create_rdd(sc, json | {"value.on.error": "dead-letter"}, whole(hundred), arrow_handler=rows_of)
    with pytest.raises(OptionError, match="expected host:port, found 'nowhere'"):
        dk.create_rdd(sc, params, whole(hundred), leaders={TopicPartition(hundred, 0): "nowhere"})


def test_what_is_no_range_no_setting_and_no_rdd_is_refused_before_anybody_is_asked(sc: SparkContext) -> None:
    nobody = {"bootstrap.servers": "127.0.0.1:1"}
    offset_range = OffsetRange("t", 0, 0, 1)
    wrong: list[Any] = ["t", offset_range, [("t", 0, 0, 1)], [offset_range, "t"]]
    for ranges in wrong:
        with pytest.raises(OptionError, match="expected a list of OffsetRange, found"):
            dk.create_rdd(sc, nobody, ranges)
    with pytest.raises(OptionError, match="'kafka_params': expected settings by name, found str"):
        dk.create_rdd(sc, "127.0.0.1:1", [offset_range])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="expected host:port by TopicPartition, found str"):
        dk.create_rdd(sc, nobody, [offset_range], leaders="127.0.0.1:1")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="'rdd': expected an RDD, found str"):
        dk.offset_ranges("t")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="'rdd': expected an RDD, found list"):
        dk.record_counts([1])  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_broker_that_is_not_there_is_told_while_it_is_waited_for_and_then_named(
    sc: SparkContext, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = {"bootstrap.servers": "127.0.0.1:1", "socket.connection.setup.timeout.ms": 300}
    with (
        caplog.at_level(logging.WARNING, "directkafka"),
        pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1"),
    ):
        dk.create_rdd(sc, nobody, [OffsetRange("t", 0, 0, 1)])
    told = [record.getMessage() for record in caplog.records if record.name.startswith("directkafka")]
    assert [message.partition(": no Kafka broker answered")[0] for message in told] == [
        f"asking again in 1000 ms (try {number})" for number in (2, 3, 4)
    ]


# Ranges of what is made of it, and places.


def test_ranges_are_known_until_a_shuffle(sc: SparkContext, params: dict[str, object], hundred: str) -> None:
    rdd = dk.create_rdd(sc, params, whole(hundred))
    made = rdd.map(place_of).filter(lambda position: position[1] > 3).mapPartitions(lambda them: them)
    assert dk.offset_ranges(made) == tuple(whole(hundred))
    for dealt in (made.reduceByKey(max), made.repartition(3), made.coalesce(1), rdd.union(rdd)):
        with pytest.raises(OptionError, match="has no offset ranges any more"):
            dk.offset_ranges(dealt)
    with pytest.raises(OptionError, match="does not come from create_rdd"):
        dk.offset_ranges(sc.parallelize([1]))


def test_leaders_that_are_given_are_used_and_a_wrong_one_is_found_out(
    sc: SparkContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        leaders = {TopicPartition(hundred, 0): f"127.0.0.1:{proxy.port}", TopicPartition(hundred, 1): servers}
        assert dk.create_rdd(sc, params, whole(hundred), leaders=leaders).count() == 100
        assert proxy.requests[FETCH] > 0
    gone = {TopicPartition(hundred, 0): "127.0.0.1:1"}
    assert dk.create_rdd(sc, params, whole(hundred), leaders=gone).count() == 100


def test_local_mode_has_no_places_to_prefer(
    sc: SparkContext, params: dict[str, object], hundred: str, caplog: pytest.LogCaptureFixture
) -> None:
    strategy = dk.PreferFixed({TopicPartition(hundred, 0): "nowhere"})
    with caplog.at_level(logging.WARNING, "directkafka"):
        assert dk.create_rdd(sc, params, whole(hundred), strategy).count() == 100
    assert caplog.messages == []


def test_what_spark_keeps_is_not_read_from_kafka_again(
    sc: SparkContext, params: dict[str, object], hundred: str
) -> None:
    rdd = dk.create_rdd(
        sc, params, whole(hundred), message_handler=lambda record: (record.offset, os.urandom(8))
    ).cache()
    assert rdd.count() == 100
    items = rdd.collect()
    assert rdd.take(3) == items[:3], "they would have been made anew"
    assert rdd.first() == items[0]
    assert not rdd.isEmpty()
    rdd.unpersist()
    assert rdd.first() != items[0]
