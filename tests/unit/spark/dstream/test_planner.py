"""What a direct stream plans, with a cluster and a scheduler that the test scripts; the RDDs are a real Spark's."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.streaming import StreamingContext
from tests.unit.planning.snapshots import T0, T1, seen, snapshot
from tests.unit.spark.dstream.scheduler import KEPT_MS, Scheduler, at

from directkafka.errors import DataLossError, EnvironmentFaultError, OptionError
from directkafka.errors.streams import BatchFailedError, OffsetsNotCommittedError
from directkafka.offsets import OffsetRange, Positions, TopicPartition
from directkafka.options.consumer import ConsumerOptions, Subscribe
from directkafka.options.limits import FeedbackPolicy, RatePolicy
from directkafka.planning.placement import Placement, PreferConsistent
from directkafka.planning.rates import BatchTimes
from directkafka.planning.trigger import Backlog, Custom, Delay, Interval, Moment, Trigger
from directkafka.snapshot import ClusterSnapshot, PartitionSnapshot
from directkafka.spark import source_cluster
from directkafka.spark.dstream import batches
from directkafka.spark.dstream import planner as planner_module
from directkafka.spark.dstream.batch_tracker import Pace, batch_ms, shown_time
from directkafka.spark.dstream.jvm_scheduler import StreamingJVM
from directkafka.spark.dstream.offset_commits import Queued
from directkafka.spark.dstream.planner import DirectPlanner, planner_of
from directkafka.spark.dstream.state import Program, StreamPlan, StreamState
from directkafka.spark.rdd.tasks import ReadRecords

INTERVAL_MS = 1_000


class Cluster:
    """Answers with what the test says the cluster has."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionSnapshot] = {}
        self.told: list[dict[TopicPartition, int]] = []
        #: What the next views show instead, one each.
        self.stale: list[dict[TopicPartition, PartitionSnapshot]] = []
        #: Of each look, whether topics had to be listed anew.
        self.looks: list[bool] = []
        #: The leader epochs of the tasks that were made last.
        self.task_epochs: list[int] = []
        self.committed: list[Mapping[TopicPartition, int]] = []

    def commit(self, _: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.committed.append(offsets)

    @property
    def last_snapshot(self) -> ClusterSnapshot:
        return self.snapshot()

    def snapshot(
        self, *, must_exist: bool = False, fresh: bool = False, known: Mapping[TopicPartition, object] | None = None
    ) -> ClusterSnapshot:
        self.looks.append(fresh)
        shown = self.stale.pop(0) if self.stale else self.partitions
        # Where epochs have ended is asked for the partitions that the reader names.
        return snapshot(
            {
                topic_partition: here if known and topic_partition in known else replace(here, ended=None)
                for topic_partition, here in shown.items()
            }
        )

    def lookups(self, starts: Positions, _: object) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(starts.partitions)

    def report_progress(self, ends: Mapping[TopicPartition, int]) -> None:
        self.told.append(dict(ends))

    def tasks(self, ranges: Collection[OffsetRange], snapshot: ClusterSnapshot) -> tuple[OffsetRange, ...]:
        self.task_epochs = [snapshot.partitions[offset_range.topic_partition].leader_epoch for offset_range in ranges]
        return tuple(ranges)

    def close(self) -> None:
        pass


class Ranges:
    """In place of an RDD: its ranges."""

    def __init__(self, _: object, tasks: tuple[OffsetRange, ...], *__: object) -> None:
        self.offset_ranges = tasks


class Tick:
    ctx = None


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def make(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., DirectPlanner]]:
    """``make(offsets=..., **fields of the plan)``: a planner over the cluster."""
    monkeypatch.setattr(planner_module, "KafkaRDD", Ranges)
    monkeypatch.setattr(planner_module, "located", lambda *_: Placement())
    monkeypatch.setattr(batches, "EVENTS_S", 0.1)
    monkeypatch.setattr(planner_module, "EVENTS_S", 0.1)
    monkeypatch.setattr(planner_module, "remember_ranges", lambda rdd: ("app", 1))
    monkeypatch.setattr(source_cluster, "CONFIRM_LOSS_S", 0.0)
    made: list[str] = []

    def plan(offsets: Mapping[TopicPartition, int] | None = None, **fields: Any) -> DirectPlanner:
        params = {"bootstrap.servers": "h:1", "auto.offset.reset": "earliest"}
        values: dict[str, Any] = {
            "stream_id": f"stream {len(made)}",
            "options": ConsumerOptions.read(Subscribe("t", params, offsets)),
            "rates": RatePolicy(),
            "partition_config": None,
            "location": PreferConsistent(),
            "read": ReadRecords(),
            "poll_timeout_ms": 1_000,
            "interval_ms": INTERVAL_MS,
            "waiting_batches_max": None,
            "program": Program.running(),
            **fields,
        }
        planner = DirectPlanner(StreamPlan(**values), StreamState())
        made.append(values["stream_id"])
        monkeypatch.setattr(planner, "_cluster", cluster)
        return planner

    yield plan
    for name in made:
        planner_module._planners.pop(name, None)


def ranges_at(planner: DirectPlanner, seconds: int) -> tuple[OffsetRange, ...]:
    return planner(at(seconds), Tick()).offset_ranges  # type: ignore[arg-type]


def with_scheduler(planner: DirectPlanner) -> Scheduler:
    scheduler = Scheduler()
    planner.batches.jvm = scheduler  # type: ignore[assignment]
    planner.batches.statuses.listen(0)
    return scheduler


def test_a_time_has_its_ranges_once_whatever_has_come_since(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    first = ranges_at(planner, 1)
    cluster.partitions = {T0: seen(0, 25)}
    assert ranges_at(planner, 1) == first == (OffsetRange("t", 0, 0, 10),)
    assert ranges_at(planner, 2) == (OffsetRange("t", 0, 10, 25),)
    # Asked for again after another one, as a window does.
    assert ranges_at(planner, 1) == first


def test_a_copy_from_a_checkpoint_gives_batches_their_ranges_again_and_goes_on_behind_them(
    make: Callable[..., DirectPlanner], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = make()
    cluster.partitions = {T0: seen(0, 10)}
    with_scheduler(planner)
    assert ranges_at(planner, 1) == (OffsetRange("t", 0, 0, 10),)
    copy = pickle.loads(pickle.dumps(planner))
    assert copy is not planner, "the first one has run"
    assert planner_of(planner.plan.stream_id) is copy
    monkeypatch.setattr(copy, "_cluster", cluster)
    with_scheduler(copy)
    cluster.partitions = {T0: seen(0, 25)}
    assert ranges_at(copy, 1) == (OffsetRange("t", 0, 0, 10),)
    assert ranges_at(copy, 2) == (OffsetRange("t", 0, 10, 25),)
    # A stream that has not run has one planner, however many copies there are.
    fresh = make()
    assert pickle.loads(pickle.dumps(fresh)) is fresh


@pytest.mark.parametrize(
    ("partition_snapshot", "condition"),
    [
        (seen(0, 10, topic_id="id-2"), "TOPIC_RECREATED"),
        (seen(0, 30, leader_epoch=7, ended=(5, 4)), r"LOG_TRUNCATED.*\[4, 10\)"),
    ],
)
def test_a_batch_that_runs_again_over_other_records_than_it_was_planned_over_is_a_loss(
    make: Callable[..., DirectPlanner],
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    partition_snapshot: PartitionSnapshot,
    condition: str,
) -> None:
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    copy = pickle.loads(pickle.dumps(planner))
    monkeypatch.setattr(copy, "_cluster", cluster)
    cluster.partitions = {T0: partition_snapshot}
    with pytest.raises(DataLossError, match=condition):
        ranges_at(copy, 1)


def test_a_log_that_was_cut_and_has_grown_again_between_two_batches_is_a_loss(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    cluster.partitions = {T0: seen(0, 30, leader_epoch=7, ended=(5, 4))}
    with pytest.raises(DataLossError, match=r"LOG_TRUNCATED.*\[4, 10\)"):
        ranges_at(planner, 2)


def test_a_log_that_was_cut_is_noticed_also_where_the_first_look_showed_another_loss(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    """The new leader's high watermark lags for a moment."""
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    cluster.stale, cluster.looks = [{T0: seen(0, 3)}], []
    cluster.partitions = {T0: seen(0, 30, leader_epoch=7, ended=(5, 4))}
    with pytest.raises(DataLossError, match=r"LOG_TRUNCATED.*\[4, 10\)"):
        ranges_at(planner, 2)
    assert cluster.looks == [False, True]


def test_a_batch_that_runs_again_is_read_under_the_leader_epoch_that_it_was_planned_in(
    make: Callable[..., DirectPlanner], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cut away and written again behind this look is so no part of it."""
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    copy = pickle.loads(pickle.dumps(planner))
    monkeypatch.setattr(copy, "_cluster", cluster)
    with_scheduler(copy)
    cluster.stale, cluster.looks = [{T0: seen(0, 8)}], []
    cluster.partitions = {T0: seen(0, 30, leader_epoch=7, ended=(5, 10))}
    assert ranges_at(copy, 1) == (OffsetRange("t", 0, 0, 10),)
    assert (cluster.task_epochs, cluster.looks) == ([5], [False, True])
    ranges_at(copy, 2)
    assert cluster.task_epochs == [7]


def test_nothing_is_planned_behind_a_batch_that_failed(make: Callable[..., DirectPlanner], cluster: Cluster) -> None:
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    planner.fail(batch_ms(at(1)), "no such column")
    with pytest.raises(BatchFailedError, match="no such column"):
        ranges_at(planner, 2)


def test_a_stream_that_cannot_plan_stops_the_others_that_have_planned_the_same_batch(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    """Spark drops the batch of all of them."""
    planner, other = make(), make()
    with_scheduler(planner), with_scheduler(other)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1), ranges_at(other, 1)
    ranges_at(planner, 2)
    cluster.partitions = {T0: seen(0, 5)}
    with pytest.raises(DataLossError):
        ranges_at(other, 2)
    cluster.partitions = {T0: seen(0, 20)}
    with pytest.raises(BatchFailedError, match="another stream could not plan it: "):
        ranges_at(planner, 3)


def test_a_batch_that_cannot_be_made_once_it_is_planned_fails(
    make: Callable[..., DirectPlanner], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark drops it, and the next one would begin behind it."""
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    with monkeypatch.context() as broken:
        broken.setattr(cluster, "tasks", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ranges_at(planner, 1)
    with pytest.raises(BatchFailedError, match="ZeroDivisionError"):
        ranges_at(planner, 2)


def test_the_first_batch_that_spark_has_dropped_is_noticed_by_the_next_one(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make()
    scheduler = with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    scheduler.reported = "no such column"
    with pytest.raises(BatchFailedError, match=f"{shown_time(batch_ms(at(1)))}.*Spark has reported: no such column"):
        ranges_at(planner, 2)


def test_a_stream_that_is_restored_plans_before_it_knows_its_scheduler(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make()
    cluster.partitions = {T0: seen(0, 10)}
    assert [len(ranges_at(planner, second)) for second in (1, 2, 3)] == [1, 0, 0]


def test_a_time_that_a_window_asks_for_behind_a_later_one_has_no_records(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    assert ranges_at(planner, 3) == (OffsetRange("t", 0, 0, 10),)
    cluster.partitions = {T0: seen(0, 25)}
    assert ranges_at(planner, 2) == ()
    assert ranges_at(planner, 4) == (OffsetRange("t", 0, 10, 25),)


def test_the_state_is_pickled_once_for_all_outputs_and_anew_when_it_has_changed(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make(rates=RatePolicy(feedback=FeedbackPolicy()))
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}

    def pickled() -> bytes:
        _, (_, state) = planner.__reduce__()
        assert isinstance(state, bytes)
        assert pickled_again() is state
        return state

    def pickled_again() -> object:
        return planner.__reduce__()[1][1]

    states = []
    for second in (1, 2):
        ranges_at(planner, second)
        states.append(pickled())
    times = BatchTimes(ended_ms=1, records=0, processing_ms=500, scheduling_ms=0)
    planner.observe(batch_ms(at(1)), times)
    states.append(pickled())
    assert len(set(states)) == 3


def test_a_restored_stream_commits_before_its_next_batch_is_due(
    make: Callable[..., DirectPlanner], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs again after a crash is committed when it is done, not when the next interval ends."""
    planner, scheduler = make(), Scheduler()
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    assert planner.batches.jvm is None, "the context has not started"

    class Context:
        sparkContext = _jssc = property(lambda self: self)  # noqa: N815 - Spark's name

        def ssc(self) -> None: ...
        def stop(self) -> None: ...

    context = Context()
    monkeypatch.setattr(planner_module, "StreamingJVM", lambda *_: scheduler)
    monkeypatch.setattr(StreamingContext, "_activeContext", context)
    assert not planner._is_done(batch_ms(at(1))), "a context of something else"
    planner._sc = context  # type: ignore[assignment]
    assert planner._is_done(batch_ms(at(1)))
    assert planner.batches.jvm is scheduler  # type: ignore[comparison-overlap]
    assert not planner._is_done(batch_ms(at(2))), "of later ones, Spark's events are heard"


@pytest.mark.parametrize("is_whole", [True, False])
def test_offsets_are_not_committed_when_spark_has_stopped_before_its_streams(
    make: Callable[..., DirectPlanner], cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """Spark passes over the outputs that have not begun by then, and calls the batch done."""
    params = {"bootstrap.servers": "h:1", "auto.offset.reset": "earliest", "group.id": "g"}
    planner = make(options=ConsumerOptions.read(Subscribe("t", params)))
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    monkeypatch.setattr(planner, "_group", cluster)
    told: list[object] = []
    planner.commits.add(Queued({T0: 10}, lambda _, error: told.append(error), batch_ms(at(1))))
    planner._end(is_whole=is_whole)
    if is_whole:
        assert (cluster.committed, told) == ([{T0: 10}], [None])
    else:
        assert (cluster.committed, [type(told_error) for told_error in told]) == ([], [OffsetsNotCommittedError])


def test_a_batch_that_failed_before_the_restored_stream_could_hear_of_it_is_not_committed(
    make: Callable[..., DirectPlanner], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A restored batch runs; the context has not started yet. 2. Its first output fails, and nobody hears it. 3. Its
    last one succeeds: Spark counts it as done. 4. The stream is bound, and asks what Spark has reported."""
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    copy = pickle.loads(pickle.dumps(planner))
    monkeypatch.setattr(copy, "_cluster", cluster)
    ranges_at(copy, 1), ranges_at(copy, 2)
    scheduler = with_scheduler(copy)
    copy.batches.statuses.listen_no_more()
    scheduler.reported = "no such column"
    with pytest.raises(BatchFailedError, match=shown_time(batch_ms(at(1)))):
        copy._is_done(batch_ms(at(1)))


def test_what_waits_is_kept_when_the_stream_is_bound_while_it_plans(
    make: Callable[..., DirectPlanner], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = make()
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    forgotten: list[object] = []
    monkeypatch.setattr(planner_module, "forget_ranges", forgotten.append)
    snapshot = cluster.snapshot

    def bind_and_view(**given: bool) -> ClusterSnapshot:
        with_scheduler(planner).waiting = {batch_ms(at(1))}
        return snapshot(**given)

    monkeypatch.setattr(cluster, "snapshot", bind_and_view)
    ranges_at(planner, 1_000)
    assert forgotten == []
    assert planner.batch_of({T0: 10}) == batch_ms(at(1))


def test_a_function_of_an_earlier_life_keeps_its_own_planner(make: Callable[..., DirectPlanner]) -> None:
    """An output that still runs when the stream is restored in the same process must not fail the new one."""
    planner = make()
    copied = pickle.loads(pickle.dumps(planner.handle))
    assert copied() is planner
    planner.has_run = True
    restored = pickle.loads(pickle.dumps(planner))
    assert restored is not planner
    assert planner.handle() is copied() is planner
    assert pickle.loads(pickle.dumps(planner.handle))() is restored


def test_no_checkpoint_is_written_behind_a_failure(make: Callable[..., DirectPlanner], cluster: Cluster) -> None:
    planner = make()
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    pickle.dumps(planner)
    planner.fail(batch_ms(at(1)), "no such column")
    with pytest.raises(BatchFailedError):
        pickle.dumps(planner)


def test_threads_that_are_not_the_jvm_s_are_refused(
    make: Callable[..., DirectPlanner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with pytest.raises(EnvironmentFaultError, match="PYSPARK_PIN_THREAD"):
        StreamingJVM(None, None, make())  # type: ignore[arg-type]


def test_a_queue_that_is_full_makes_an_empty_batch_and_the_records_come_later(
    make: Callable[..., DirectPlanner], cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    planner = make(waiting_batches_max=2)
    scheduler = with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    scheduler.waiting = {batch_ms(at(1)), batch_ms(at(0))}
    cluster.partitions = {T0: seen(0, 25)}
    with caplog.at_level(logging.WARNING, "directkafka"):
        assert ranges_at(planner, 2) == ()
        assert ranges_at(planner, 3) == ()
        assert caplog.text.count("2 batches wait") == 1, "said once"
        scheduler.waiting = set()
        assert ranges_at(planner, 4) == (OffsetRange("t", 0, 10, 25),)
    assert "have records again" in caplog.text


def backlog_of_ten(moment: Moment) -> float:
    return 0 if (moment.backlog or 0) >= 10 else 1


@pytest.mark.parametrize(
    ("trigger", "with_records"),
    [
        pytest.param(Backlog(10, 60_000), [1, 5], id="so many records"),
        pytest.param(Backlog(1_000, 3_000), [1, 4], id="or so late"),
        pytest.param(Interval(2_000), [1, 3, 5], id="from start to start"),
        pytest.param(Custom(backlog_of_ten), [1, 5], id="a function"),
        pytest.param(None, [1, 2, 3, 4, 5], id="no policy"),
    ],
)
def test_a_policy_says_which_batches_have_records_and_none_is_left_out(
    make: Callable[..., DirectPlanner], cluster: Cluster, trigger: Trigger | None, with_records: list[int]
) -> None:
    planner = make(trigger=trigger)
    with_scheduler(planner)
    ranges_by_second: dict[int, tuple[OffsetRange, ...]] = {}
    for second in range(1, 6):
        cluster.partitions = {T0: seen(0, 3 * second)}
        ranges_by_second[second] = ranges_at(planner, second)
        planner.succeed(batch_ms(at(second)))
    assert [second for second, ranges in ranges_by_second.items() if ranges] == with_records
    read = [offset_range for ranges in ranges_by_second.values() for offset_range in ranges]
    assert [offset_range.from_offset for offset_range in read] == [
        0,
        *(offset_range.until_offset for offset_range in read[:-1]),
    ]


def test_a_delay_counts_from_the_end_of_the_last_batch_that_had_records(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make(trigger=Delay(2_000))
    scheduler, clock = with_scheduler(planner), [0]
    planner._pace = Pace(Delay(2_000), now_ms=lambda: clock[0])
    scheduler.waiting = {batch_ms(at(1))}
    with_records = []
    for second in range(1, 8):
        cluster.partitions = {T0: seen(0, 3 * second)}
        clock[0] = batch_ms(at(second))
        if ranges_at(planner, second):
            with_records.append(second)
        if second == 3:
            scheduler.waiting = set()
            planner.succeed(batch_ms(at(1)))
    assert with_records == [1, 5]


def test_a_batch_whose_end_nobody_heard_has_ended_once_spark_has_it_no_more(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    """A restored stream plans its first batches, and they may end, before anybody can listen."""
    planner = make(trigger=Delay(2_000))
    with_records = []
    for second in range(1, 6):
        if second == 3:
            with_scheduler(planner)
        cluster.partitions = {T0: seen(0, 3 * second)}
        if ranges_at(planner, second):
            with_records.append(second)
    assert with_records == [1, 5]


def test_retention_is_held_against_what_no_finished_batch_has_read(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make()
    scheduler = with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10), T1: seen(0, 3)}
    ranges_at(planner, 1)
    scheduler.waiting = {batch_ms(at(1))}
    cluster.partitions = {T0: seen(0, 25), T1: seen(0, 3)}
    ranges_at(planner, 2)
    scheduler.waiting = set()
    ranges_at(planner, 3)
    assert cluster.told == [{}, {T0: 0, T1: 0}, {T0: 25, T1: 3}]


def test_ranges_are_kept_for_as_long_as_spark_may_ask_or_the_batch_waits(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make()
    scheduler = with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    ranges_at(planner, 1)
    scheduler.waiting = {batch_ms(at(1))}
    ranges_at(planner, 1 + 2 * KEPT_MS // 1000)
    assert ranges_at(planner, 1) == (OffsetRange("t", 0, 0, 10),)
    scheduler.waiting = set()
    # The next plan finds it too old, and the one after it forgets it.
    ranges_at(planner, 1 + 4 * KEPT_MS // 1000)
    assert ranges_at(planner, 1) == (OffsetRange("t", 0, 0, 10),)
    ranges_at(planner, 1 + 5 * KEPT_MS // 1000)
    with pytest.raises(EnvironmentFaultError, match="its ranges are forgotten"):
        ranges_at(planner, 1)


def test_offsets_belong_to_the_youngest_batch_that_reads_up_to_them(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make()
    with_scheduler(planner)
    for second, latest in ((1, 10), (2, 25)):
        cluster.partitions = {T0: seen(0, latest), T1: seen(0, 4)}
        ranges_at(planner, second)
    assert planner.batch_of({T0: 10}) == batch_ms(at(1))
    assert planner.batch_of({T0: 11}) == batch_ms(at(2))
    assert planner.batch_of({T0: 10, T1: 4}) == batch_ms(at(1))
    assert planner.batch_of({T0: 26}) is None
    assert planner.batch_of({}) is None


def test_the_rate_follows_what_batches_could_process(make: Callable[..., DirectPlanner], cluster: Cluster) -> None:
    planner = make(rates=RatePolicy(feedback=FeedbackPolicy(), initial_rate=100))
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10_000)}
    assert ranges_at(planner, 1) == (OffsetRange("t", 0, 0, 100),)
    # 100 records in half a second: 200 a second, twice, and nothing waits.
    for second in (1, 2):
        ended_ms = batch_ms(at(second)) + 500
        planner.observe(
            batch_ms(at(second)), BatchTimes(ended_ms=ended_ms, records=0, processing_ms=500, scheduling_ms=0)
        )
        [offset_range] = ranges_at(planner, second + 1)
    assert offset_range.count() == 200


def test_offsets_for_partitions_that_are_not_there_are_told_with_the_first_batch(
    make: Callable[..., DirectPlanner], cluster: Cluster
) -> None:
    planner = make(offsets={T1: 5})
    with_scheduler(planner)
    cluster.partitions = {T0: seen(0, 10)}
    with pytest.raises(OptionError, match="names partitions that are not there: t-1"):
        ranges_at(planner, 1)


def test_a_stream_of_another_process_is_told_where_to_use_it() -> None:
    with pytest.raises(OptionError, match="use it on the driver, in foreachRDD"):
        planner_of("no such stream")
