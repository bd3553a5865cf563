"""A pipeline's world without Spark, Kafka and a database: everything that happens is written to one list.

Failures are scripted: ``world.fail("commit a", error)`` makes the next ``commit a`` raise.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from directkafka.errors import DirectKafkaError, FencedError
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount, read_by_topic
from directkafka.offsets import Earliest, OffsetRange, PartitionProgress, Positions, TopicPartition
from directkafka.options.limits import NO_WAIT, MinOffsets, OffsetLimits
from directkafka.pipeline.direct.engine import DirectEngine
from directkafka.pipeline.execution.batch_writer import WrittenBatch
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.retry import RetryPolicy
from directkafka.pipeline.run_writers import RunWriters
from directkafka.planning.plan import PlanPolicy
from directkafka.planning.trigger import AvailableNow, Trigger
from directkafka.sinks.api import BatchAttempt, LedgerEntry, Sink, TaskReport
from directkafka.snapshot import ClusterSnapshot, EndedEpoch, PartitionSnapshot

NAME = "flights"
PARTITION = TopicPartition("t", 0)


class Clock:
    """Seconds that pass only when somebody waits."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class FakeStop:
    """An event whose waiting moves the clock; ``after`` waits it sets itself, so that no test runs for ever."""

    def __init__(self, clock: Clock, *, after: int = 1_000) -> None:
        self._clock = clock
        self._left = after
        self._is_set = False
        self.waits_s: list[float] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits_s.append(timeout)
        self._clock.now_s += timeout
        self._left -= 1
        if self._left <= 0:
            self._is_set = True
        return self._is_set


@dataclass
class World:
    """What happened, and what is to go wrong."""

    events: list[str] = field(default_factory=list)
    failures: dict[str, deque[Any]] = field(default_factory=lambda: defaultdict(deque))

    def fail(self, event: str, *errors: BaseException | Callable[[], None] | None) -> None:
        """At its next passes the event raises these, or calls them; None lets one pass."""
        self.failures[event].extend(errors)

    def happens(self, event: str) -> None:
        self.events.append(event)
        if self.failures[event]:
            what = self.failures[event].popleft()
            if isinstance(what, BaseException):
                raise what
            if what is not None:
                what()

    def after(self, event: str) -> list[str]:
        """What happened behind the first such event."""
        return self.events[self.events.index(event) + 1 :]


class FakeStore:
    """A ledger in memory, with the checks of the contract."""

    def __init__(self, world: World, name: str, entry: LedgerEntry | None = None, generation: int = 0) -> None:
        self._world = world
        self.name = name
        self.entry = entry
        self.generation = generation
        self.held: int | None = None
        self.is_durable = False
        self.rows: list[tuple[int, str]] = []
        self.committed: list[LedgerEntry] = []
        #: What it has under the name of the pipeline's pause.
        self.pause: LedgerEntry | None = None

    @property
    def identity(self) -> str:
        return self.name

    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        self._world.happens(f"fence {self.name}")
        if generation is not None and generation <= self.generation:
            raise FencedError(store=self.name, pipeline=pipeline, held=generation, found=self.generation)
        self.generation = self.held = generation or self.generation + 1
        return self.generation

    def read(self, pipeline: str) -> LedgerEntry | None:
        if pipeline.endswith(".paused"):
            return self.pause
        self._world.happens(f"read {self.name}")
        if self.held is not None and self.generation > self.held:
            raise FencedError(store=self.name, pipeline=pipeline, held=self.held, found=self.generation)
        return self.entry

    def commit(self, entry: LedgerEntry, *, previous: LedgerEntry | None, writes: Sequence[Any] = ()) -> LedgerEntry:
        self._world.happens(f"commit {self.name}")
        if entry.generation != self.generation:
            raise FencedError(store=self.name, pipeline=NAME, held=entry.generation, found=self.generation)
        assert previous == self.entry, "the caller must continue what the ledger has"
        self.rows += [(entry.batch_id, name.attempt) for _, name, _ in writes]
        counts = {sink.name: sum(report.rows for report in reports) for sink, _, reports in writes}
        self.entry = replace(entry, row_counts={**entry.row_counts, **counts})
        self.committed.append(self.entry)
        if self._world.failures[f"answer {self.name}"]:
            self._world.happens(f"answer {self.name}")
        return self.entry

    def abort(self, batch: BatchAttempt) -> None:
        self._world.happens(f"abort {self.name}")

    def force_durable(self) -> None:
        self.is_durable = True

    def close(self) -> None:
        self._world.happens(f"close {self.name}")


class FakeSink(Sink):
    """A sink that only has a name and a store."""

    name: Any = None
    store: Any = None
    check: Any = None
    prepare: Any = None
    task_writer: Any = None
    apply: Any = None
    recount: Any = None

    def __init__(self, store: FakeStore, name: str = "rows") -> None:
        self.store = store
        self.name = name


class FakeCluster:
    """One partition whose end the test moves; ``moves`` are applied at the views, one each."""

    def __init__(self, world: World, latest: int = 0) -> None:
        self._world = world
        self.latest = latest
        self.moves: deque[int] = deque()
        self.topic_id = "id-1"
        #: What the next views show instead, one each.
        self.stale_ids: deque[str] = deque()
        self.leader_epoch = 0
        #: Where earlier leader epochs end in the log now.
        self.cut_at: int | None = None
        #: The leader epoch of each task.
        self.task_epochs: list[int] = []
        #: Of each view, whether topics had to be listed anew.
        self.looks: list[bool] = []
        #: So many of the next views do not know the topic yet.
        self.blind_views = 0
        self.told: list[int] = []
        #: What the group was told beside that: at the start, in idle looks, at the end.
        self.group: list[int] = []

    def snapshot(
        self,
        *,
        must_exist: bool = False,
        fresh: bool = False,
        known: Mapping[TopicPartition, PartitionProgress] | None = None,
    ) -> ClusterSnapshot:
        self._world.happens("snapshot")
        self.looks.append(fresh)
        here = (known or {}).get(PARTITION)
        ended = None
        if self.cut_at is not None and here is not None and here.leader_epoch < self.leader_epoch:
            ended = EndedEpoch(here.leader_epoch, self.cut_at)
        if self.moves:
            self.latest = self.moves.popleft()
        topic_id = self.stale_ids.popleft() if self.stale_ids else self.topic_id
        seen = PartitionSnapshot(
            topic_id=topic_id,
            leader=1,
            leader_host="h",
            leader_port=1,
            leader_epoch=self.leader_epoch,
            earliest=0,
            latest=self.latest,
            ended=ended,
        )
        self.blind_views -= 1
        return ClusterSnapshot(
            cluster_id="c", partitions={PARTITION: seen} if self.blind_views < 0 else {}, taken_at_ms=0
        )

    def report_progress(self, ends: Mapping[TopicPartition, int]) -> None:
        self.told.append(ends[PARTITION])

    def warn_of_retention(self, ends: Mapping[TopicPartition, int]) -> None: ...

    def commit_to_group(self, ends: Mapping[TopicPartition, int]) -> None:
        self.group.append(ends[PARTITION])

    def lookups(self, positions: Positions, snapshot: ClusterSnapshot) -> dict[TopicPartition, int | None]:
        return {}

    def tasks(self, ranges: Sequence[OffsetRange], snapshot: ClusterSnapshot) -> tuple[Any, ...]:
        self.task_epochs += [snapshot.partitions[offset_range.topic_partition].leader_epoch for offset_range in ranges]
        return tuple(ranges)

    def close(self) -> None:
        self._world.happens("close cluster")


class FakeWriting:
    """A job in the background: it runs when it begins, and what it met is told when somebody asks."""

    def __init__(self, world: World, write: Callable[[], WrittenBatch]) -> None:
        self._world = world
        self._error: Exception | None = None
        try:
            self._written = write()
        except DirectKafkaError as error:
            self._error = error

    def result(self) -> WrittenBatch:
        self._world.happens("wait")
        if self._error is not None:
            raise self._error
        return self._written

    def cancel(self) -> bool:
        self._world.happens("cancel")
        return True


class FakeWriter:
    """One row for each offset, into every sink."""

    may_run_ahead = False

    def __init__(self, world: World, sinks: Sequence[FakeSink]) -> None:
        self._world = world
        self._sinks = sinks
        self.written: list[tuple[int, str]] = []
        self.attempts: list[str] = []
        #: For which stores, batch by batch.
        self.stores: list[tuple[str, ...]] = []
        #: Stores in whose open transactions rows lie after the write.
        self.early: list[FakeStore] = []

    def check(self) -> tuple[str, ...]:
        self._world.happens("check")
        return ()

    def prepare(self) -> None:
        self._world.happens("prepare")

    def begin(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> FakeWriting:
        self._world.happens("begin")
        return FakeWriting(self._world, lambda: self.write(name, tasks, stores=stores))

    def write(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> WrittenBatch:
        self._world.happens("write")
        self.stores.append(tuple(sorted(stores)))
        ranges: Sequence[Any] = tasks
        self.written.append((name.batch_id, ", ".join(str(offset_range) for offset_range in ranges)))
        self.attempts.append(name.attempt)
        count = sum(offset_range.count() for offset_range in ranges)
        report = TaskReport(rows=count, attempt="a", staged=False)
        reports = tuple((sink, (report,)) for sink in self._sinks if sink.store.identity in stores)
        return WrittenBatch(
            name=name,
            reports=reports,
            read=read_by_topic((offset_range.topic, ReadCount(offset_range.count(), 7)) for offset_range in ranges),
            early=tuple(self.early),
        )


@dataclass
class Bench:
    """An engine among fakes."""

    world: World
    stores: list[FakeStore]
    cluster: FakeCluster
    writer: FakeWriter
    clock: Clock
    stop: FakeStop
    reports: list[BatchReport]
    engine: DirectEngine

    @property
    def events(self) -> list[str]:
        return self.world.events


def bench(
    *,
    world: World | None = None,
    stores: Sequence[FakeStore] | None = None,
    latest: int = 0,
    trigger: Trigger | None = None,
    retry_ms_max: int = 60_000,
    stop_after_waits: int = 1_000,
    max_offsets: int | None = None,
    report: Callable[[BatchReport], None] | None = None,
    min_offsets: MinOffsets = NO_WAIT,
    fail_on_data_loss: bool = True,
    starting: Positions | None = None,
) -> Bench:
    """An engine over these stores, or over one empty store ``a``, with ``latest`` records in Kafka."""
    world = world or World()
    stores = list(stores if stores is not None else [FakeStore(world, "a")])
    sinks = [FakeSink(store) for store in stores]
    cluster, writer, clock = FakeCluster(world, latest), FakeWriter(world, sinks), Clock()
    stop = FakeStop(clock, after=stop_after_waits)
    reports: list[BatchReport] = []
    engine = DirectEngine(
        NAME,
        cluster=cluster,
        writers=RunWriters(writer),
        ledgers=Ledgers(NAME, [Route(output="default", sink=sink) for sink in sinks]),  # type: ignore[arg-type]
        starting=starting or Positions(default=Earliest()),
        policy=PlanPolicy(limits=OffsetLimits(total=max_offsets), fail_on_data_loss=fail_on_data_loss),
        trigger=trigger or AvailableNow(),
        report=report or reports.append,
        stop=stop,
        retry_policy=RetryPolicy(stop, retry_ms_max=retry_ms_max, clock=clock),
        min_offsets=min_offsets,
        clock=clock,
    )
    return Bench(world, stores, cluster, writer, clock, stop, reports, engine)
