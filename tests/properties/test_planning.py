"""What planning promises for any input: nothing dropped, nothing doubled, nothing out of bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from directkafka.offsets import (
    Earliest,
    Exact,
    OffsetRange,
    PartitionProgress,
    Positions,
    TopicPartition,
    from_nested,
    to_nested,
    total_count,
)
from directkafka.options.limits import OffsetLimits
from directkafka.planning.placement import split
from directkafka.planning.plan import BatchPlan, PlanPolicy, plan, plan_origin, plan_pinned
from directkafka.planning.rates import limited_ends
from directkafka.planning.starts import resolve_ranges
from directkafka.snapshot import ClusterSnapshot, PartitionSnapshot

LONG_MAX = 2**63 - 1

offsets = st.one_of(st.integers(0, 50), st.integers(0, LONG_MAX))
places = st.builds(TopicPartition, st.text(min_size=1, max_size=4), st.integers(0, 5))
few_places = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 5))


@st.composite
def range_lists(draw: st.DrawFn) -> list[OffsetRange]:
    chosen = draw(st.lists(places, unique=True, max_size=6))
    bounds = [sorted(draw(st.tuples(offsets, offsets))) for _ in chosen]
    return [
        OffsetRange(topic_partition.topic, topic_partition.partition, start, end)
        for topic_partition, (start, end) in zip(chosen, bounds, strict=True)
    ]


def joined(pieces: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Neighbouring pieces of a partition as one range; pieces that leave a gap or overlap stay apart."""
    whole: list[OffsetRange] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        if last and (last.topic_partition, last.until_offset) == (piece.topic_partition, piece.from_offset):
            whole[-1] = replace(last, until_offset=piece.until_offset)
        else:
            whole.append(piece)
    return whole


@given(range_lists(), st.none() | st.integers(1, 64), st.integers(1, 64))
def test_splits_tile_the_ranges_exactly(ranges: list[OffsetRange], min_partitions: int | None, pieces_max: int) -> None:
    # A limit of records that gives a bounded number of pieces, however long the range.
    records_max = max((offset_range.count() for offset_range in ranges), default=1) // pieces_max + 1
    pieces = split(ranges, min_partitions=min_partitions, max_records_per_partition=records_max)
    assert joined(pieces) == [offset_range for offset_range in ranges if offset_range.count()]
    assert all(0 < offset_range.count() <= records_max for offset_range in pieces)


@given(range_lists(), st.integers(1, 64))
def test_pieces_of_one_range_differ_by_one_offset_at_most(ranges: list[OffsetRange], wanted: int) -> None:
    pieces = split(ranges, min_partitions=wanted)
    for offset_range in ranges:
        counts = {piece.count() for piece in pieces if piece.topic_partition == offset_range.topic_partition}
        assert not counts or max(counts) - min(counts) <= 1


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    chosen = draw(st.lists(few_places, unique=True, max_size=8))
    return {topic_partition: draw(offsets) for topic_partition in chosen}, {
        topic_partition: draw(offsets) for topic_partition in chosen
    }


def limits(counts: st.SearchStrategy[int]) -> st.SearchStrategy[OffsetLimits]:
    return st.builds(
        OffsetLimits,
        total=st.none() | counts,
        topics=st.dictionaries(st.sampled_from("ab"), counts),
        partitions=st.dictionaries(few_places, counts),
    )


@given(backlogs(), limits(st.integers(1, 1000) | st.integers(1, LONG_MAX)))
def test_no_limit_moves_an_end_below_its_start_or_past_latest(
    backlog: tuple[dict[TopicPartition, int], dict[TopicPartition, int]], limits: OffsetLimits
) -> None:
    starts, latest = backlog
    ends = limited_ends(starts, latest, limits)
    assert ends.keys() == starts.keys()
    for topic_partition, end in ends.items():
        assert starts[topic_partition] <= end <= max(starts[topic_partition], latest[topic_partition])


@given(backlogs(), st.integers(1, 1000))
def test_a_limit_is_kept_but_for_one_offset_a_partition_and_none_starves(
    backlog: tuple[dict[TopicPartition, int], dict[TopicPartition, int]], limit: int
) -> None:
    starts, latest = backlog
    ends = limited_ends(starts, latest, OffsetLimits(total=limit))
    assert sum(ends[topic_partition] - starts[topic_partition] for topic_partition in starts) <= limit + len(starts)
    for topic_partition, start in starts.items():
        assert (ends[topic_partition] > start) == (latest[topic_partition] > start)


@given(backlogs(), limits(st.integers(1, 1000)))
def test_every_limit_is_kept_but_for_one_offset_a_partition_and_none_starves(
    backlog: tuple[dict[TopicPartition, int], dict[TopicPartition, int]], limits: OffsetLimits
) -> None:
    starts, latest = backlog
    ends = limited_ends(starts, latest, limits)
    sizes = {topic_partition: ends[topic_partition] - starts[topic_partition] for topic_partition in starts}
    assert all(
        sizes[topic_partition] <= limit
        for topic_partition, limit in limits.partitions.items()
        if topic_partition in sizes
    )
    for topic, limit in limits.topics.items():
        of_topic = [size for topic_partition, size in sizes.items() if topic_partition.topic == topic]
        assert sum(of_topic) <= limit + len(of_topic)
    assert limits.total is None or sum(sizes.values()) <= limits.total + len(sizes)
    for topic_partition, start in starts.items():
        assert (ends[topic_partition] > start) == (latest[topic_partition] > start)


@given(st.dictionaries(places, offsets))
def test_offsets_survive_their_json_form(by_partition: dict[TopicPartition, int]) -> None:
    text = json.dumps(to_nested(by_partition))
    assert from_nested(json.loads(text)) == by_partition
    # Equal offsets have equal texts, in whatever order they were put in.
    assert text == json.dumps(to_nested(dict(reversed(by_partition.items()))))


@given(offsets, offsets, offsets, offsets)
def test_what_a_batch_reads_and_what_it_lost_are_together_what_was_asked_for(
    first: int, second: int, third: int, fourth: int
) -> None:
    topic_partition = TopicPartition("t", 0)
    (start, end), (earliest, latest) = sorted((first, second)), sorted((third, fourth))
    resolved = resolve_ranges(
        Positions(default=Exact(start)),
        Positions(default=Exact(end)),
        cluster({topic_partition: Log(earliest=earliest, latest=latest)}),
        {},
        {},
    )
    parts = [(loss.lost_from, loss.lost_until) for loss in resolved.losses]
    parts += [
        (offset_range.from_offset, offset_range.until_offset)
        for offset_range in resolved.ranges
        if offset_range.count()
    ]
    covered = start
    for lower, upper in sorted(parts):
        assert lower == covered
        assert upper > lower
        covered = upper
    assert covered == end


@dataclass
class Log:
    """One partition's log, as the test lets it live."""

    earliest: int = 0
    latest: int = 0
    topic_id: str = "1"
    seen: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)


def cluster(logs: dict[TopicPartition, Log]) -> ClusterSnapshot:
    snapshots = {
        topic_partition: PartitionSnapshot(
            topic_id=log.topic_id,
            leader=0,
            leader_host="",
            leader_port=0,
            leader_epoch=0,
            earliest=log.earliest,
            latest=log.latest,
        )
        for topic_partition, log in logs.items()
    }
    return ClusterSnapshot(cluster_id="", partitions=snapshots, taken_at_ms=0)


class Successive(RuleBasedStateMachine):
    """Many batches over logs that grow, lose their beginnings and are joined by new ones.

    Each offset of each log must be read exactly once, or be named as lost, never both.
    """

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[TopicPartition, Log] = {}
        self.progress: tuple[PartitionProgress, ...] = ()

    @initialize(lengths=st.lists(st.integers(0, 30), min_size=1, max_size=3))
    def begin(self, lengths: list[int]) -> None:
        self.logs = {TopicPartition("t", number): Log(latest=length) for number, length in enumerate(lengths)}
        self.progress = plan_origin(Positions(default=Earliest()), cluster(self.logs), {}, PlanPolicy()).progress

    @rule(number=st.integers(0, 5), more=st.integers(1, 40))
    def grow(self, number: int, more: int) -> None:
        log = self.logs.get(TopicPartition("t", number))
        if log is not None:
            log.latest += more

    @rule(length=st.integers(0, 20))
    def add_partition(self, length: int) -> None:
        if len(self.logs) < 6:
            self.logs[TopicPartition("t", len(self.logs))] = Log(latest=length)

    @rule(number=st.integers(0, 5), share=st.floats(0, 1))
    def age(self, number: int, share: float) -> None:
        log = self.logs.get(TopicPartition("t", number))
        if log is not None:
            log.earliest += int((log.latest - log.earliest) * share)

    @rule(
        max_offsets=st.none() | st.integers(1, 30),
        min_partitions=st.none() | st.integers(1, 8),
        max_records=st.none() | st.integers(1, 10),
    )
    def read(self, max_offsets: int | None, min_partitions: int | None, max_records: int | None) -> None:
        policy = PlanPolicy(
            limits=OffsetLimits(total=max_offsets),
            fail_on_data_loss=False,
            min_partitions=min_partitions,
            max_records_per_partition=max_records,
        )
        previous = {partition_progress.topic_partition: partition_progress for partition_progress in self.progress}
        batch = plan(previous, cluster(self.logs), policy)
        if batch is None:
            assert self.backlog() == 0
            return
        self.take(batch)
        self.follows(batch, previous)
        # Whoever reads the batch again, from what it recorded, reads the same.
        again = plan_pinned(batch.progress, cluster(self.logs), policy)
        assert joined(again.ranges) == joined(batch.ranges)
        self.progress = batch.progress

    def take(self, batch: BatchPlan) -> None:
        for loss in batch.losses:
            self.logs[loss.topic_partition].lost.update(range(loss.lost_from, loss.lost_until))
        for offset_range in batch.ranges:
            log, taken = (
                self.logs[offset_range.topic_partition],
                set(range(offset_range.from_offset, offset_range.until_offset)),
            )
            assert not taken & log.seen, "read twice"
            assert log.earliest <= offset_range.from_offset, "read before the log starts"
            assert offset_range.until_offset <= log.latest, "read after the log ends"
            log.seen |= taken
        assert batch.offset_count == total_count(batch.ranges) > 0

    def follows(self, batch: BatchPlan, previous: dict[TopicPartition, PartitionProgress]) -> None:
        for partition_progress in batch.progress:
            known = previous.get(partition_progress.topic_partition)
            assert partition_progress.start == (
                known.end if known else self.logs[partition_progress.topic_partition].earliest
            )
        assert set(previous) <= set(batch.ends())

    def backlog(self) -> int:
        ends = {partition_progress.topic_partition: partition_progress.end for partition_progress in self.progress}
        return sum(
            max(log.latest - max(ends.get(topic_partition, 0), log.earliest), 0)
            for topic_partition, log in self.logs.items()
        )

    @invariant()
    def every_offset_up_to_the_end_is_read_or_named_as_lost(self) -> None:
        for partition_progress in self.progress:
            log = self.logs[partition_progress.topic_partition]
            assert not log.seen & log.lost
            assert log.seen | log.lost >= set(range(partition_progress.origin, partition_progress.end))


Successive.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestSuccessivePlansReadEveryOffsetOnce = Successive.TestCase
