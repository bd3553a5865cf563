"""The stream reader's decisions, with a cluster that is a value."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StringType, StructField, StructType

from directkafka.errors import DataLossError, OptionError, TopicNotFoundError
from directkafka.errors.data_loss import (
    EndOffsetHasGreaterOffsetForTopicPartitionThanLatestWithTriggerAvailablenowError,
    EndOffsetHasGreaterOffsetForTopicPartitionThanPrefetchedError,
    LostTopicPartitionsInEndOffsetWithTriggerAvailablenowError,
    MismatchedTopicPartitionsBetweenEndOffsetAndPrefetchedError,
)
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition
from directkafka.options.read_policy import RECORD_COLUMNS
from directkafka.options.spec import LONG_MAX
from directkafka.snapshot import ClusterSnapshot, EndedEpoch, PartitionSnapshot
from directkafka.spark import source_cluster
from directkafka.spark.datasource import readers, source
from directkafka.spark.datasource.readers import StreamReader
from directkafka.spark.datasource.task_reader import RangePartition, TaskReader
from directkafka.spark.schema import record_columns, record_schema

ALL = ReadAllAvailable()


class Clock:
    """Stands for the module ``time``."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake_clock = Clock()
    monkeypatch.setattr(readers, "time", fake_clock)
    return fake_clock


Known = Mapping[TopicPartition, PartitionProgress] | None


class Cluster:
    """Stands for ``SourceCluster``: the tests say what it sees."""

    def __init__(self, _: object) -> None:
        self.seen: dict[TopicPartition, tuple[int, int, str]] = {}
        self.later: list[dict[TopicPartition, tuple[int, int, str]]] = []
        self._last_snapshot: ClusterSnapshot | None = None
        self.closed = False
        self.by_name = True
        self.leader_epoch = self.cut_at = 0
        #: Of each look, whether topics had to be listed anew.
        self.looks: list[bool] = []
        #: The leader epochs of the tasks that were made last.
        self.task_epochs: list[int] = []
        self.told: list[dict[TopicPartition, int]] = []
        self.watched: list[dict[TopicPartition, int]] = []

    def has(self, latest: Mapping[int, int], *, topic_id: str = "id", earliest: int = 0) -> None:
        self.seen = {
            TopicPartition("flights", partition): (earliest, end, topic_id) for partition, end in latest.items()
        }

    def snapshot(self, *, must_exist: bool = False, fresh: bool = False, known: Known = None) -> ClusterSnapshot:
        if must_exist and self.by_name and not self.seen:
            raise TopicNotFoundError(topics=("flights",), addresses=("broker:9092",))
        self.looks.append(fresh)
        snapshot = ClusterSnapshot(
            cluster_id="c",
            partitions={
                topic_partition: PartitionSnapshot(
                    topic_id=topic_id,
                    leader=1,
                    leader_host="broker",
                    leader_port=9092,
                    leader_epoch=self.leader_epoch,
                    earliest=earliest,
                    latest=latest,
                    ended=self._ended(known.get(topic_partition) if known is not None else None),
                )
                for topic_partition, (earliest, latest, topic_id) in self.seen.items()
            },
            taken_at_ms=0,
        )
        if self.later:
            self.seen = self.later.pop(0)
        self._last_snapshot = snapshot
        return snapshot

    def _ended(self, known: PartitionProgress | None) -> EndedEpoch | None:
        is_older = known is not None and 0 <= known.leader_epoch < self.leader_epoch
        return EndedEpoch(known.leader_epoch, self.cut_at) if known is not None and is_older else None

    @property
    def last_snapshot(self) -> ClusterSnapshot:
        return self._last_snapshot or self.snapshot()

    def commit_to_group(self, ends: dict[TopicPartition, int]) -> None:
        self.told.append(ends)

    def warn_of_retention(self, ends: dict[TopicPartition, int]) -> None:
        self.watched.append(ends)

    def lookups(self, *_: object) -> dict[TopicPartition, int | None]:
        return {}

    def tasks(self, ranges: tuple[OffsetRange, ...], snapshot: ClusterSnapshot) -> tuple[OffsetRange, ...]:
        self.task_epochs = [snapshot.partitions[offset_range.topic_partition].leader_epoch for offset_range in ranges]
        return ranges

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "SourceCluster", Cluster)
    monkeypatch.setattr(source_cluster, "CONFIRM_LOSS_S", 0.0)


def made(**options: str) -> source.DirectKafkaDataSource:
    given = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "flights", **options}
    return source.DirectKafkaDataSource(given)


def schema(*columns: str) -> StructType:
    """What Spark makes of the source's own DDL, types by their names only."""

    class Named(StringType):
        def __init__(self, name: str) -> None:
            self.name = name

        def simpleString(self) -> str:  # noqa: N802 - Spark's name
            return self.name

    return StructType([StructField(name, Named(kind)) for name, kind in record_columns(columns or RECORD_COLUMNS)])


def stream(**options: str) -> tuple[StreamReader, Cluster]:
    reader = made(**options).streamReader(schema())
    assert isinstance(reader, StreamReader)
    assert isinstance(reader._cluster, Cluster)
    return reader, reader._cluster


def test_the_first_offsets_are_the_starts_and_nothing_is_read_before_they_are_durable() -> None:
    reader, cluster = stream(startingOffsets="earliest")
    cluster.has({0: 10, 1: 20}, earliest=3)
    assert reader.initialOffset() == {}
    starts = reader.latestOffset({}, ALL)
    assert starts == {"flights": {"0": 3, "1": 3}}
    assert reader.partitions({}, starts) == []


def test_latest_is_what_it_was_when_the_query_began() -> None:
    reader, cluster = stream(startingOffsets="latest")
    cluster.has({0: 10})
    starts = reader.latestOffset({}, ALL)
    cluster.has({0: 15})
    ends = reader.latestOffset(starts, ALL)
    assert (starts, ends) == ({"flights": {"0": 10}}, {"flights": {"0": 15}})
    assert ranges(reader, starts, ends) == [OffsetRange("flights", 0, 10, 15)]


def ranges(reader: StreamReader, start: readers.Nested, end: readers.Nested) -> list[RangeTask | OffsetRange]:
    return tasks_of(reader.partitions(start, end))


def tasks_of(partitions: Sequence[InputPartition]) -> list[RangeTask | OffsetRange]:
    return [partition.task for partition in partitions if isinstance(partition, RangePartition)]


def test_without_new_records_the_offset_stays() -> None:
    reader, cluster = stream()
    cluster.has({0: 10})
    start = reader.latestOffset({}, ALL)
    assert reader.latestOffset(start, ALL) == start
    assert reader.reportLatestOffset() == start


def test_the_default_limit_is_the_option_s() -> None:
    assert stream()[0].getDefaultReadLimit() == ReadAllAvailable()
    assert stream(maxOffsetsPerTrigger="7")[0].getDefaultReadLimit() == ReadMaxRows(7)


def test_a_limit_cuts_the_batch() -> None:
    reader, cluster = stream(startingOffsets="earliest", maxOffsetsPerTrigger="30")
    cluster.has({0: 100})
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset({}, limit)
    assert reader.latestOffset(start, limit) == {"flights": {"0": 30}}


def test_a_partition_that_comes_later_enters_at_its_earliest_offset_first() -> None:
    reader, cluster = stream()
    cluster.has({0: 10})
    start = reader.latestOffset({}, ALL)
    cluster.has({0: 10, 1: 5})
    middle = reader.latestOffset(start, ALL)
    assert middle == {"flights": {"0": 10, "1": 0}}
    assert ranges(reader, start, middle) == []
    end = reader.latestOffset(middle, ALL)
    assert end == {"flights": {"0": 10, "1": 5}}
    assert ranges(reader, middle, end) == [OffsetRange("flights", 1, 0, 5)]


def test_topics_that_a_pattern_finds_later_are_read_from_their_start() -> None:
    reader, cluster = _pattern()
    assert reader.latestOffset({}, ALL) == {}
    cluster.has({0: 5})
    start = reader.latestOffset({}, ALL)
    assert start == {"flights": {"0": 0}}
    assert reader.latestOffset(start, ALL) == {"flights": {"0": 5}}


def test_topics_that_a_pattern_finds_after_a_restart_are_read_from_their_start_too() -> None:
    """Spark has logged that the query has found nothing so far, and asks for that batch when it is started again."""
    reader, cluster = _pattern()
    assert reader.partitions({}, {}) == []
    cluster.has({0: 5})
    start = reader.latestOffset({}, ALL)
    assert start == {"flights": {"0": 0}}
    assert reader.latestOffset(start, ALL) == {"flights": {"0": 5}}


def _pattern() -> tuple[StreamReader, Cluster]:
    """A stream on a pattern; that it finds nothing is no error."""
    options = {"kafka.bootstrap.servers": "broker:9092", "subscribePattern": "flights", "startingOffsets": "latest"}
    reader = source.DirectKafkaDataSource(options).streamReader(schema())
    assert isinstance(reader, StreamReader)
    assert isinstance(reader._cluster, Cluster)
    reader._cluster.by_name = False
    return reader, reader._cluster


def test_an_available_now_run_ends_where_the_log_ended_when_it_was_prepared() -> None:
    reader, cluster = stream(startingOffsets="earliest")
    cluster.has({0: 10})
    reader.prepareForTriggerAvailableNow()
    cluster.has({0: 15, 1: 5})
    start = reader.latestOffset({}, ALL)
    end = reader.latestOffset(start, ALL)
    assert (start, end) == ({"flights": {"0": 0, "1": 0}}, {"flights": {"0": 10, "1": 0}})
    assert reader.latestOffset(end, ALL) == end


def test_a_partition_that_was_read_before_and_not_seen_when_an_available_now_run_was_prepared_is_no_loss() -> None:
    reader, cluster = stream(startingOffsets="earliest")
    cluster.has({0: 10})
    reader.prepareForTriggerAvailableNow()
    cluster.has({0: 10, 1: 70})
    end = reader.latestOffset({"flights": {"0": 5, "1": 50}}, ALL)
    assert end == {"flights": {"0": 10, "1": 70}}


def test_an_available_now_run_on_latest_starts_no_later_than_it_ends() -> None:
    reader, cluster = stream(startingOffsets="latest")
    cluster.has({0: 10})
    reader.prepareForTriggerAvailableNow()
    cluster.has({0: 15})
    start = reader.latestOffset({}, ALL)
    assert start == {"flights": {"0": 10}}
    assert reader.latestOffset(start, ALL) == start


@pytest.mark.parametrize(("starting", "start"), [("earliest", 0), ("latest", 10)])
def test_a_topic_that_was_not_seen_when_an_available_now_run_was_prepared_is_read_all_the_same(
    starting: str, start: int
) -> None:
    reader, cluster = stream(startingOffsets=starting)
    reader.prepareForTriggerAvailableNow()
    cluster.has({0: 10})
    first = reader.latestOffset({}, ALL)
    cluster.has({0: 15})
    assert (first, reader.latestOffset(first, ALL)) == ({"flights": {"0": start}}, {"flights": {"0": 10}})


def test_a_query_whose_topic_was_not_seen_when_its_available_now_run_was_prepared_goes_on() -> None:
    reader, cluster = stream(startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    cluster.has({0: 10})
    at = {"flights": {"0": 4}}
    assert reader.latestOffset(at, ALL) == {"flights": {"0": 10}}
    cluster.has({0: 15})
    assert reader.latestOffset({"flights": {"0": 10}}, ALL) == {"flights": {"0": 10}}


def available_now(ends: dict[int, int]) -> tuple[StreamReader, Cluster]:
    """The reader of a query whose available-now run began with these ends of the log."""
    reader, cluster = stream(startingOffsets="earliest", maxOffsetsPerTrigger="4")
    cluster.has(ends)
    reader.prepareForTriggerAvailableNow()
    return reader, cluster


@pytest.mark.parametrize(
    ("at_start", "later", "error_type", "condition"),
    [
        ({0: 10}, None, MismatchedTopicPartitionsBetweenEndOffsetAndPrefetchedError, "MISMATCHED_"),
        ({0: 10, 1: 5}, {0: 10}, LostTopicPartitionsInEndOffsetWithTriggerAvailablenowError, "LOST_"),
        ({0: 10, 1: 2}, None, EndOffsetHasGreaterOffsetForTopicPartitionThanPrefetchedError, "END_OFFSET_HAS_GREATER"),
        (
            {0: 10, 1: 5},
            {0: 10, 1: 2},
            EndOffsetHasGreaterOffsetForTopicPartitionThanLatestWithTriggerAvailablenowError,
            "END_OFFSET_HAS_GREATER",
        ),
    ],
)
def test_a_loss_in_an_available_now_run_has_the_name_that_spark_has_for_it(
    at_start: dict[int, int], later: dict[int, int] | None, error_type: type[DataLossError], condition: str
) -> None:
    at = {"flights": {"0": 5, "1": 3}}
    reader, cluster = available_now(at_start)
    if later is not None:
        cluster.has(later)
    with pytest.raises(error_type) as caught:
        reader.latestOffset(at, ALL)
    assert str(caught.value).startswith(f"[{condition}")
    assert (caught.value.topic, caught.value.partition) == ("flights", 1)


def test_a_topic_that_is_missing_is_an_error_at_the_start_and_a_loss_later() -> None:
    reader, cluster = stream()
    with pytest.raises(TopicNotFoundError):
        reader.latestOffset({}, ALL)
    reader, cluster = stream()
    cluster.has({0: 10})
    start = reader.latestOffset({}, ALL)
    cluster.has({})
    with pytest.raises(DataLossError, match="PARTITIONS_DELETED"):
        reader.latestOffset(start, ALL)


def test_a_loss_that_a_second_look_does_not_show_is_none() -> None:
    """A new leader's high watermark lags for a moment (KAFKA-7703)."""
    reader, cluster = stream()
    cluster.has({0: 10})
    start = reader.latestOffset({}, ALL)
    now = dict(cluster.seen)
    cluster.has({0: 8})
    cluster.later, cluster.looks = [now], []
    assert reader.latestOffset(start, ALL) == start
    assert cluster.looks == [False, True]


def test_a_topic_made_again_is_a_loss_even_when_it_is_longer_than_before() -> None:
    reader, cluster = stream()
    cluster.has({0: 10})
    start = reader.latestOffset({}, ALL)
    cluster.has({0: 50}, topic_id="another")
    with pytest.raises(DataLossError, match="TOPIC_RECREATED"):
        reader.latestOffset(start, ALL)


@pytest.mark.parametrize("batches", [0, 1])
def test_a_log_that_was_cut_and_has_grown_again_while_the_query_runs_is_a_loss(batches: int) -> None:
    reader, cluster = stream()
    cluster.has({0: 10})
    start = reader.latestOffset({}, ALL)
    for number in range(batches):
        cluster.has({0: 11 + number})
        start = reader.latestOffset(start, ALL)
    cluster.has({0: 50})
    cluster.leader_epoch, cluster.cut_at = 2, 4
    with pytest.raises(DataLossError, match="LOG_TRUNCATED") as caught:
        reader.latestOffset(start, ALL)
    assert (caught.value.lost_from, caught.value.lost_until) == (4, 10 + batches)


@pytest.fixture
def planned() -> tuple[StreamReader, Cluster]:
    """A reader that has planned offsets 0 to 10 under leader epoch 0; the next look shows an end that lags."""
    reader, cluster = stream()
    cluster.has({0: 0})
    start = reader.latestOffset({}, ALL)
    cluster.has({0: 10})
    assert reader.latestOffset(start, ALL) == {"flights": {"0": 10}}
    cluster.has({0: 8})
    cluster.snapshot()
    return reader, cluster


def test_ranges_are_read_under_the_leader_epoch_that_they_were_planned_in(
    planned: tuple[StreamReader, Cluster],
) -> None:
    """What is cut away and written again behind this look is so no part of them."""
    reader, cluster = planned
    cluster.has({0: 50})
    cluster.leader_epoch, cluster.cut_at, cluster.looks = 2, 10, []
    start, end = {"flights": {"0": 0}}, {"flights": {"0": 10}}
    assert ranges(reader, start, end) == [OffsetRange("flights", 0, 0, 10)]
    assert (cluster.task_epochs, cluster.looks) == ([0], [True])


def test_ranges_whose_records_were_cut_away_and_replaced_are_a_loss(planned: tuple[StreamReader, Cluster]) -> None:
    reader, cluster = planned
    cluster.has({0: 50})
    cluster.leader_epoch, cluster.cut_at = 2, 4
    with pytest.raises(DataLossError, match="LOG_TRUNCATED") as caught:
        reader.partitions({"flights": {"0": 0}}, {"flights": {"0": 10}})
    assert (caught.value.lost_from, caught.value.lost_until) == (4, 10)


def test_a_loss_for_which_nothing_is_passed_over_costs_no_second_look_with_each_batch() -> None:
    reader, cluster = stream(failOnDataLoss="false")
    cluster.has({0: 10, 1: 10})
    start = reader.latestOffset({}, ALL)
    cluster.has({1: 20})
    cluster.looks = []
    assert reader.latestOffset(start, ALL) == {"flights": {"0": 10, "1": 20}}
    assert cluster.looks == [False]


def test_a_topic_made_again_is_read_whole_where_losses_are_accepted_also_if_it_is_empty_at_first() -> None:
    reader, cluster = stream(startingOffsets="earliest", failOnDataLoss="false")
    cluster.has({0: 10})
    start = reader.latestOffset(reader.latestOffset({}, ALL), ALL)
    cluster.has({0: 0}, topic_id="another")
    assert reader.latestOffset(start, ALL) == start
    cluster.has({0: 7}, topic_id="another")
    end = reader.latestOffset(start, ALL)
    assert end == {"flights": {"0": 7}}
    assert ranges(reader, start, end) == [OffsetRange("flights", 0, 0, 7)]


@pytest.mark.parametrize("accepted", [{}, {"failOnDataLoss": "false"}])
def test_a_start_that_seems_to_be_behind_the_log_is_looked_for_again(accepted: dict[str, str]) -> None:
    reader, cluster = stream(startingOffsets='{"flights": {"0": 10}}', **accepted)
    cluster.has({0: 15})
    now = dict(cluster.seen)
    cluster.has({0: 8})
    cluster.later = [now]
    assert reader.latestOffset({}, ALL) == {"flights": {"0": 10}}
    assert cluster.looks == [False, True]


@pytest.mark.parametrize("accepted", [{}, {"failOnDataLoss": "false"}])
def test_a_batch_read_s_offsets_that_seem_to_be_gone_are_looked_for_again(
    accepted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(None)
    monkeypatch.setattr(readers, "SourceCluster", lambda _: cluster)
    given = {"startingOffsets": '{"flights": {"0": 5}}', "endingOffsets": '{"flights": {"0": 10}}', **accepted}
    cluster.has({0: 10})
    now = dict(cluster.seen)
    cluster.has({0: 8})
    cluster.later = [now]
    partitions = made(**given).reader(schema()).partitions()
    assert tasks_of(partitions) == [OffsetRange("flights", 0, 5, 10)]
    assert cluster.looks == [False, True]


def test_ranges_that_seem_to_be_gone_are_looked_for_again() -> None:
    reader, cluster = stream()
    cluster.has({0: 8})
    cluster.later = [{topic_partition: (0, 10, "id") for topic_partition in cluster.seen}]
    assert ranges(reader, {"flights": {"0": 5}}, {"flights": {"0": 10}}) == [OffsetRange("flights", 0, 5, 10)]


def test_a_batch_that_is_replayed_has_the_same_ranges() -> None:
    """Spark asks for the partitions of a logged batch in a new process, before any latest offset."""
    reader, cluster = stream()
    cluster.has({0: 100})
    assert ranges(reader, {"flights": {"0": 5}}, {"flights": {"0": 9}}) == [OffsetRange("flights", 0, 5, 9)]


def test_what_travels_to_the_executors_only_reads() -> None:
    batch = made().reader(schema())
    for reader in (stream()[0], batch):
        travelled = pickle.loads(pickle.dumps(reader))
        assert travelled == TaskReader(reader._notes)
        assert list(travelled.read(InputPartition(None))) == []


def test_stopping_closes_the_connections() -> None:
    reader, cluster = stream()
    reader.stop()
    assert cluster.closed


def test_the_columns_are_spark_s() -> None:
    assert made().schema() == record_schema(RECORD_COLUMNS)
    assert made(columns="value,offset").schema() == "value binary, offset bigint"
    assert made(includeHeaders="TRUE").schema().endswith("headers array<struct<key:string,value:binary>>")
    assert made().name() == "directkafka"


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, RECORD_COLUMNS),
        ({"includeHeaders": "true"}, (*RECORD_COLUMNS, "headers")),
        ({"columns": "value"}, ("value",)),
    ],
)
def test_a_schema_of_the_user_s_own_is_refused(options: dict[str, str], columns: tuple[str, ...]) -> None:
    assert made(**options).reader(schema(*columns))
    with pytest.raises(OptionError, match=r"say with value\.format"):
        made(**options).reader(schema("key", *columns))
    with pytest.raises(OptionError, match="value string"):
        made(**options).streamReader(StructType([StructField("value", StringType())]))


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
        ({"maxOffsetsPerTrigger": "7", "minOffsetsPerTrigger": "3"}, ReadMaxRows(7)),
        ({"minOffsetsPerTrigger": "3"}, ReadMinRows(3)),
        ({"maxOffsetsPerTriggerByTopic": '{"flights": 5}'}, ReadMaxRows(LONG_MAX)),
    ],
)
def test_spark_is_told_of_a_limit_so_that_asking_for_all_means_all(options: dict[str, str], limit: object) -> None:
    reader, _ = stream(**options)
    assert reader.getDefaultReadLimit() == limit


def started(reader: StreamReader) -> readers.Nested:
    return reader.latestOffset({}, ALL)


def test_a_batch_waits_for_enough_offsets_but_not_the_first_of_a_run(clock: Clock) -> None:
    reader, cluster = stream(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    cluster.has({0: 3})
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(started(reader), limit)
    assert first == {"flights": {"0": 3}}
    cluster.has({0: 12})
    assert reader.latestOffset(first, limit) == first
    cluster.has({0: 13})
    assert reader.latestOffset(first, limit) == {"flights": {"0": 13}}


def test_a_batch_waits_no_longer_than_the_delay(clock: Clock) -> None:
    reader, cluster = stream(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    cluster.has({0: 3})
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(started(reader), limit)
    cluster.has({0: 4})
    clock.now_s += 59.9
    assert reader.latestOffset(first, limit) == first
    clock.now_s += 0.1
    assert reader.latestOffset(first, limit) == {"flights": {"0": 4}}


def test_both_limits_count_together(clock: Clock) -> None:
    # The numbers of Spark's test "compositeReadLimit": at least 5, at most 8.
    reader, cluster = stream(startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="8")
    cluster.has({0: 10})
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(started(reader), limit)
    assert first == {"flights": {"0": 8}}
    assert reader.latestOffset(first, limit) == first
    cluster.has({0: 13})
    assert reader.latestOffset(first, limit) == {"flights": {"0": 13}}


def test_a_run_with_an_end_to_reach_waits_for_nothing(clock: Clock) -> None:
    reader, cluster = stream(startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="8")
    cluster.has({0: 10})
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(started(reader), limit)
    assert reader.latestOffset(first, limit) == {"flights": {"0": 10}}


def test_once_takes_all_there_is_whatever_the_limits(clock: Clock) -> None:
    reader, cluster = stream(startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="8")
    cluster.has({0: 3})
    first = reader.latestOffset(started(reader), ALL)
    cluster.has({0: 100})
    assert reader.latestOffset(first, ALL) == {"flights": {"0": 100}}


def test_what_is_done_is_told_when_the_next_end_is_asked_for() -> None:
    reader, cluster = stream(startingOffsets="earliest")
    cluster.has({0: 3})
    origin = started(reader)
    assert cluster.told == []
    first = reader.latestOffset(origin, ALL)
    assert reader.latestOffset(first, ALL) == first
    assert cluster.told == [{TopicPartition("flights", 0): 0}, {TopicPartition("flights", 0): 3}]
    assert cluster.watched == cluster.told


def test_with_a_listener_the_source_tells_only_where_a_query_goes_on() -> None:
    """What was done when the process was killed is told then; the listener tells the rest."""
    given = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "flights"}
    reader = source.ListenedDataSource(given).streamReader(schema())
    assert isinstance(reader, StreamReader)
    cluster = reader._cluster
    assert isinstance(cluster, Cluster)
    cluster.has({0: 3})
    first = reader.latestOffset({"flights": {"0": 1}}, ALL)
    assert reader.latestOffset(first, ALL) == first
    assert cluster.told == [{TopicPartition("flights", 0): 1}]
    assert cluster.watched == [{TopicPartition("flights", 0): 1}, {TopicPartition("flights", 0): 3}]
