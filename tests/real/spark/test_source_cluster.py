"""What the driver's side of a source remembers from one look at the cluster to the next."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest
from tests.real.kafka.logs import add_partitions, create_topic_again, delete_records, delete_topic, produce
from tests.unit.planning.snapshots import at
from tests.waiting import until

from directkafka.offsets import TopicPartition
from directkafka.options.source import SourceOptions
from directkafka.spark.source_cluster import SourceCluster

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]


@pytest.fixture
def looking(servers: str) -> Iterator[Callable[..., SourceCluster]]:
    """Makes a ``SourceCluster`` with these options."""
    made: list[SourceCluster] = []

    def make(topic: str, **options: str) -> SourceCluster:
        given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
        made.append(SourceCluster(SourceOptions.parse(given, streaming=True)))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


def test_a_list_of_partitions_is_good_for_as_long_as_the_option_says(
    looking: Callable[..., SourceCluster], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    kept, never_kept = looking(topic, **{"partition.metadata.cache.ttl.ms": "600000"}), looking(topic)
    assert (len(kept.snapshot().partitions), len(never_kept.snapshot().partitions)) == (1, 1)
    add_partitions(servers, topic, 3)
    assert (len(kept.snapshot().partitions), len(never_kept.snapshot().partitions)) == (1, 3)
    assert len(kept.snapshot(fresh=True).partitions) == 3


def test_offsets_are_looked_up_anew_while_a_list_of_partitions_is_good(
    looking: Callable[..., SourceCluster], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    kept, partition = looking(topic, **{"partition.metadata.cache.ttl.ms": "600000"}), TopicPartition(topic, 0)
    assert kept.snapshot().partitions[partition].latest == 0
    produce(servers, topic, [b"value"] * 5)
    assert kept.snapshot().partitions[partition].latest == 5


def test_records_that_are_too_young_are_known_by_their_timestamp(
    looking: Callable[..., SourceCluster], servers: str, create_topic: CreateTopic
) -> None:
    topic, now_ms = create_topic(3), int(time.time() * 1000)
    for partition, ages_s in enumerate([(900, 700, 500), (900, 900), (10,)]):
        for age_s in ages_s:
            produce(servers, topic, [b"value"], partition=partition, timestamp_ms=now_ms - age_s * 1000)
    snapshot = looking(topic, minRecordAge="10 minutes").snapshot()
    assert snapshot.latest() == {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 2, TopicPartition(topic, 2): 1}
    assert snapshot.readable() == {
        TopicPartition(topic, 0): 2,
        TopicPartition(topic, 1): 2,
        TopicPartition(topic, 2): 0,
    }
    assert looking(topic).snapshot().readable() == snapshot.latest()


def test_a_topic_that_is_deleted_is_told_from_one_that_is_only_not_to_be_seen(
    looking: Callable[..., SourceCluster], servers: str, create_topic: CreateTopic
) -> None:
    """By its id: one that the pattern does not find any more, or that this user may not see, is not deleted."""
    kept, left_out, deleted, again = (create_topic(2) for _ in range(4))
    source = looking(kept, failOnDataLoss="false")
    snapshot = source._admin.snapshot(
        [TopicPartition(topic, number) for topic in (kept, left_out, deleted, again) for number in range(2)],
        source._admin.topics(),
    )
    known = {partition: at(partition, 5, topic_id=seen.topic_id) for partition, seen in snapshot.partitions.items()}
    delete_topic(servers, deleted)
    delete_topic(servers, again)
    create_topic_again(servers, again)
    gone = {TopicPartition(topic, number) for topic in (deleted, again) for number in range(2)}
    until(lambda: source.snapshot(known=known).deleted == gone, "the broker knows deleted topics")
    assert source.snapshot().deleted == frozenset()
    assert looking(kept).snapshot(known=known).deleted == frozenset()


@pytest.mark.parametrize(("position", "warnings"), [(90, 0), (60, 1)])
def test_retention_that_comes_near_is_told_before_it_takes_anything(
    position: int,
    warnings: int,
    looking: Callable[..., SourceCluster],
    servers: str,
    create_topic: CreateTopic,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = create_topic(1)
    partition = TopicPartition(topic, 0)
    produce(servers, topic, [b"value"] * 100)
    cluster = looking(topic)
    cluster.snapshot()
    cluster.report_progress({partition: 0})
    delete_records(servers, topic, 40)
    # Between two batches there may be a look at the backlog.
    cluster.snapshot()
    cluster.snapshot()
    with caplog.at_level(logging.WARNING, logger="directkafka.source"):
        cluster.report_progress({partition: position})
        cluster.report_progress({partition: position})
    begin = f"{partition}: retention has just deleted 40 offsets, the log starts at 40 now; "
    told = [f"{begin}the query is at 60, with 40 waiting"] * warnings
    assert [record.message.split(".")[0] for record in caplog.records] == told
