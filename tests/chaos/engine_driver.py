"""The direct engine and replays without Spark and a source.

Engine, ledgers, stores and sinks are the real ones; only Kafka as the source and Spark in the middle are made up. The
topic has as many records as the test says, and each record becomes one row: its offset, and the batch that wrote it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from tests.contract.kafka_harness import KafkaHarness

from directkafka.kafka.consumer.range_task import RangeTask, ReadCount
from directkafka.offsets import Earliest, OffsetRange, Positions, TopicPartition
from directkafka.options.limits import OffsetLimits
from directkafka.pipeline.direct.engine import DirectEngine
from directkafka.pipeline.execution.batch_writer import WrittenBatch
from directkafka.pipeline.execution.routes import Route, route_outputs
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.progress import log_report
from directkafka.pipeline.replay.report import log_replay
from directkafka.pipeline.replay.selection import ReplaySelection, with_dead_letters_last
from directkafka.pipeline.retry import RetryPolicy
from directkafka.pipeline.run_writers import RunWriters
from directkafka.planning.plan import PlanPolicy
from directkafka.planning.trigger import AvailableNow
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.dead_letters import table as dead_letters_module
from directkafka.sinks.dead_letters.replay import DeadLetterReplaySink
from directkafka.sinks.embedded.duckdb import DuckDBSink
from directkafka.sinks.embedded.sqlite import SQLiteSink
from directkafka.sinks.mysql.sink import MySQLSink
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.snapshot import ClusterSnapshot, PartitionSnapshot
from directkafka.testing.store_driver import SCHEMA, batches_of

PIPELINE = "flights"
TOPIC = TopicPartition("flights", 0)
BATCH = 10

LETTER_SCHEMA = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")), ("key", pa.binary()), ("value", pa.binary()),
        ("reason", pa.string()),
    ]
)  # fmt: skip
#: A replay's letters have one column more.
REPLAYED_SCHEMA = LETTER_SCHEMA.append(pa.field("replays", pa.int32()))


@dataclass(frozen=True)
class Place:
    """A store as a test names it; ``address`` is a DSN, a path, or Kafka's servers, a blank and a prefix."""

    kind: Literal["postgres", "mysql", "kafka", "duckdb", "sqlite"]
    address: str
    #: 0 makes every task into Postgres or MySQL stage its rows.
    inline_bytes_max: int = 64 * 1024 * 1024

    def sink(self, table: str = "flights") -> Any:
        match self.kind:
            case "postgres":
                return PostgresSink(self.address, table, inline_bytes_max=self.inline_bytes_max)
            case "mysql":
                return MySQLSink(self.address, table, inline_bytes_max=self.inline_bytes_max)
            case "kafka":
                servers, prefix = self.address.split()
                return KafkaHarness(servers, prefix).sink(table)
            case "duckdb":
                return DuckDBSink(self.address, table, lock_timeout_s=5.0)
            case "sqlite":
                return SQLiteSink(self.address, table, lock_timeout_s=5.0)

    def rows(self, table: str = "flights") -> list[tuple[int, int]]:
        """Each row's offset and batch, sorted."""
        sink = self.sink(table)
        if self.kind == "kafka":
            harness = KafkaHarness(*self.address.split())
            return harness.rows(sink)
        with sink.dead_letters().opened() as rows:
            return sorted(rows("SELECT id, flights FROM flights", ()))


class MadeUpTopic:
    """One partition with so many records."""

    def __init__(self, records: int) -> None:
        self._records = records

    def snapshot(self, *, must_exist: bool = False, fresh: bool = False, known: object = None) -> ClusterSnapshot:
        seen = PartitionSnapshot(
            topic_id="id-1", leader=1, leader_host="h", leader_port=1, leader_epoch=0, earliest=0,
            latest=self._records,
        )  # fmt: skip
        return ClusterSnapshot(cluster_id="c", partitions={TOPIC: seen}, taken_at_ms=0)

    def report_progress(self, ends: Mapping[TopicPartition, int]) -> None:
        """Nobody listens."""

    def commit_to_group(self, ends: Mapping[TopicPartition, int]) -> None:
        """Nobody listens."""

    def lookups(self, positions: Positions, snapshot: ClusterSnapshot) -> dict[TopicPartition, int | None]:
        return {}

    def tasks(self, ranges: Sequence[OffsetRange], snapshot: ClusterSnapshot) -> Any:
        return tuple(ranges)

    def close(self) -> None:
        """There is nothing to close."""


class DoneAhead:
    """A batch that was written in another thread, to its end before anything else happens: all of it is there."""

    def __init__(self, write: Callable[[], WrittenBatch]) -> None:
        with ThreadPoolExecutor(1) as threads:
            self._outcome = threads.submit(write)

    def result(self) -> WrittenBatch:
        return self._outcome.result()

    def cancel(self) -> bool:
        return True


class RowWriter:
    """One row for each offset, into every sink, by two tasks."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)

    @property
    def may_run_ahead(self) -> bool:
        return all(route.sink.capabilities.allows_prefetch for route in self._routes)

    def begin(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> DoneAhead:
        return DoneAhead(partial(self.write, name, tasks, stores=stores))

    @property
    def routes(self) -> tuple[Route, ...]:
        return self._routes

    def check(self) -> tuple[str, ...]:
        for route in self._routes:
            route.sink.check(self.schema_of(route))
        return ()

    def prepare(self) -> None:
        for route in self._routes:
            route.sink.prepare(self.schema_of(route))

    def schema_of(self, route: Route) -> pa.Schema:
        return SCHEMA

    def write(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> WrittenBatch:
        ranges: Sequence[Any] = tasks
        offsets = [
            offset for offset_range in ranges for offset in range(offset_range.from_offset, offset_range.until_offset)
        ]
        wanted = [route for route in self._routes if route.sink.store.identity in stores]
        reports = tuple((route.sink, self.write_rows(route, name, offsets)) for route in wanted)
        read = {"numbers": ReadCount(len(offsets), 0)}
        return WrittenBatch(name=name, reports=reports, read=read)

    def write_rows(self, route: Route, name: BatchAttempt, offsets: Sequence[int]) -> tuple[TaskReport, ...]:
        writer = route.sink.task_writer(name, SCHEMA)
        halves = (offsets[::2], offsets[1::2])
        return tuple(writer(batches_of([(offset, name.batch_id) for offset in half])) for half in halves)


class DeadLetterRowWriter(RowWriter):
    """One row for each letter, unless its offset can be divided by ``rejected``."""

    def __init__(self, routes: Sequence[Route], settled: DeadLetterReplaySink, rejected: int) -> None:
        super().__init__(routes)
        self._settled = settled
        self._rejected = rejected

    @property
    def settled(self) -> DeadLetterReplaySink:
        return self._settled

    @property
    def writers(self) -> RunWriters[RowWriter]:
        return RunWriters(self)

    def schema_of(self, route: Route) -> pa.Schema:
        return REPLAYED_SCHEMA if route.sink is self._settled else SCHEMA

    def write_dead_letters(self, name: BatchAttempt, dead_letters: pa.Table, rows: RowWriter) -> WrittenBatch:
        self._settled.expected = dead_letters.num_rows
        offsets = dead_letters.column("offset").to_pylist()
        reports = []
        for route in self._routes:
            if route.sink is self._settled:
                again = [letter for letter in dead_letters.to_pylist() if letter["offset"] % self._rejected == 0]
                back = [letter | {"reason": "again", "replays": letter["replays"] + 1} for letter in again]
                writer = route.sink.task_writer(name, REPLAYED_SCHEMA)
                reports.append((route.sink, (writer(iter([pa.RecordBatch.from_pylist(back, REPLAYED_SCHEMA)])),)))
            else:
                kept = [offset for offset in offsets if offset % self._rejected]
                reports.append((route.sink, self.write_rows(route, name, kept)))
        return WrittenBatch(name=name, reports=tuple(reports), read={})


def run_pipeline(places: Sequence[Place], records: int, writer_type: type[RowWriter] = RowWriter) -> None:
    """The direct engine to the end of the topic; ``writer_type`` makes the rows."""
    routes, stop = route_outputs([target.sink() for target in places]), threading.Event()
    DirectEngine(
        PIPELINE,
        cluster=MadeUpTopic(records),
        writers=RunWriters(writer_type(routes)),
        ledgers=Ledgers(PIPELINE, routes),
        starting=Positions(default=Earliest()),
        policy=PlanPolicy(limits=OffsetLimits(total=BATCH)),
        trigger=AvailableNow(),
        report=log_report,
        stop=stop,
        retry_policy=RetryPolicy(stop, retry_ms_max=20_000),
    ).run()


def run_replay(places: Sequence[Place], dead_letters: Place, rejected: int) -> None:
    """A replay of all letters of a table, few in each batch."""
    dead_letters_module.DEAD_LETTERS_MAX = BATCH  # type: ignore[misc]  # only tests change it
    routes, stop = route_outputs([target.sink() for target in places], dead_letters.sink("rejected")), threading.Event()
    choice = ReplaySelection.of(PIPELINE, routes)
    settled = DeadLetterReplaySink(choice.sink, choice.dead_letters)
    writer = DeadLetterRowWriter(with_dead_letters_last(routes, settled), settled, rejected)
    retry_policy = RetryPolicy(stop, retry_ms_max=20_000)
    choice.engine(writer, report=log_replay, stop=stop, retry_policy=retry_policy).run()
