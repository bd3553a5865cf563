"""The stream reader's decisions, with a cluster that is a value."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StringType, StructField, StructType

from directkafka.errors import DataLossError, OptionError, TopicNotFoundError
from directkafka.kafka.range_task import RangeTask
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.sources import structured
from directkafka.sources.columns import record_columns, record_schema
from directkafka.view import ClusterView, PartitionView

ALL = ReadAllAvailable()


class Cluster:
    """Stands for ``SourceCluster``: the tests say what it sees."""

    def __init__(self, _: object) -> None:
        self.seen: dict[TopicPartition, tuple[int, int, str]] = {}
        self.later: list[dict[TopicPartition, tuple[int, int, str]]] = []
        self._last_view: ClusterView | None = None
        self.closed = False
        self.by_name = True

    def has(self, latest: Mapping[int, int], *, topic_id: str = "id", earliest: int = 0) -> None:
        self.seen = {TopicPartition("flights", one): (earliest, end, topic_id) for one, end in latest.items()}

    def view(self, *, must_exist: bool = False) -> ClusterView:
        if must_exist and self.by_name and not self.seen:
            raise TopicNotFoundError(topics=("flights",), addresses=("broker:9092",))
        view = ClusterView(
            cluster_id="c",
            partitions={
                one: PartitionView(
                    topic_id=topic_id,
                    leader=1,
                    leader_host="broker",
                    leader_port=9092,
                    leader_epoch=0,
                    earliest=earliest,
                    latest=latest,
                )
                for one, (earliest, latest, topic_id) in self.seen.items()
            },
            taken_at_ms=0,
        )
        if self.later:
            self.seen = self.later.pop(0)
        self._last_view = view
        return view

    @property
    def last_view(self) -> ClusterView:
        return self._last_view or self.view()

    def timestamps(self, *_: object) -> dict[TopicPartition, int | None]:
        return {}

    def tasks(self, ranges: tuple[OffsetRange, ...], _: ClusterView) -> tuple[OffsetRange, ...]:
        return ranges

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured, "SourceCluster", Cluster)
    monkeypatch.setattr(structured, "_SECOND_LOOK_S", 0.0)


def source(**options: str) -> structured.DirectKafkaDataSource:
    given = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "flights", **options}
    return structured.DirectKafkaDataSource(given)


def schema(*, include_headers: bool = False) -> StructType:
    """What Spark makes of the source's own DDL, types by their names only."""

    class Named(StringType):
        def __init__(self, name: str) -> None:
            self.name = name

        def simpleString(self) -> str:  # noqa: N802 - Spark's name
            return self.name

    return StructType(
        [StructField(name, Named(kind)) for name, kind in record_columns(include_headers=include_headers)]
    )


def stream(**options: str) -> tuple[structured._StreamReader, Cluster]:
    reader = source(**options).streamReader(schema())
    assert isinstance(reader, structured._StreamReader)
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


def ranges(
    reader: structured._StreamReader, start: structured.Nested, end: structured.Nested
) -> list[RangeTask | OffsetRange]:
    return [one.task for one in reader.partitions(start, end) if isinstance(one, structured._RangePartition)]


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
    reader, cluster = stream(startingOffsets="earliest")
    cluster.has({0: 100})
    start = reader.latestOffset({}, ReadMaxRows(30))
    assert reader.latestOffset(start, ReadMaxRows(30)) == {"flights": {"0": 30}}


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


def _pattern() -> tuple[structured._StreamReader, Cluster]:
    """A stream on a pattern; that it finds nothing is no error."""
    options = {"kafka.bootstrap.servers": "broker:9092", "subscribePattern": "flights", "startingOffsets": "latest"}
    reader = structured.DirectKafkaDataSource(options).streamReader(schema())
    assert isinstance(reader, structured._StreamReader)
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


def test_an_available_now_run_on_latest_starts_no_later_than_it_ends() -> None:
    reader, cluster = stream(startingOffsets="latest")
    cluster.has({0: 10})
    reader.prepareForTriggerAvailableNow()
    cluster.has({0: 15})
    start = reader.latestOffset({}, ALL)
    assert start == {"flights": {"0": 10}}
    assert reader.latestOffset(start, ALL) == start


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
    cluster.later = [now]
    assert reader.latestOffset(start, ALL) == start


def test_a_topic_made_again_is_a_loss_even_when_it_is_longer_than_before() -> None:
    reader, cluster = stream()
    cluster.has({0: 10})
    start = reader.latestOffset({}, ALL)
    cluster.has({0: 50}, topic_id="another")
    with pytest.raises(DataLossError, match="TOPIC_RECREATED"):
        reader.latestOffset(start, ALL)


def test_a_batch_that_is_replayed_has_the_same_ranges() -> None:
    """Spark asks for the partitions of a logged batch in a new process, before any latest offset."""
    reader, cluster = stream()
    cluster.has({0: 100})
    assert ranges(reader, {"flights": {"0": 5}}, {"flights": {"0": 9}}) == [OffsetRange("flights", 0, 5, 9)]


def test_only_the_options_travel_to_the_executors() -> None:
    reader, _ = stream()
    travelled = pickle.loads(pickle.dumps(reader))
    assert vars(travelled) == {"_options": reader._options}
    assert list(travelled.read(structured.InputPartition(None))) == []


def test_stopping_closes_the_connections() -> None:
    reader, cluster = stream()
    reader.stop()
    assert cluster.closed


def test_the_columns_are_spark_s() -> None:
    assert source().schema() == record_schema(include_headers=False)
    assert source(includeHeaders="TRUE").schema().endswith("headers array<struct<key:string,value:binary>>")
    assert source().name() == "directkafka"


@pytest.mark.parametrize("include_headers", [False, True])
def test_a_schema_of_the_user_s_own_is_refused(include_headers: bool) -> None:
    options = {"includeHeaders": str(include_headers).lower()}
    assert source(**options).reader(schema(include_headers=include_headers))
    with pytest.raises(OptionError, match="fixed columns"):
        source(**options).reader(schema(include_headers=not include_headers))
    with pytest.raises(OptionError, match="value string"):
        source(**options).streamReader(StructType([StructField("value", StringType())]))
