"""Tools of the store contract: a harness, a driver without Spark, a sink that breaks."""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from directkafka.offsets import PartitionProgress
from directkafka.sinks.api import TARGET, BatchAttempt, LedgerEntry, SecondPhase, Sink, Store, TaskReport
from directkafka.sinks.wrapped_sink import WrappedSink

Rows = Sequence[tuple[Any, ...]]

#: The schema of all rows in this suite.
SCHEMA = pa.schema([("id", pa.int64()), ("flights", pa.int64())])


class StoreHarness(Protocol):
    """How the suite gets hold of a store. Everything one harness opens lives in one place."""

    def open_store(self) -> Store:
        """A new store object, as another driver process would make it."""

    def sink(
        self,
        table: str,
        *,
        mode: Literal["append", "ignore", "upsert", "merge", "replace"] = "append",
        order: Sequence[str] = (),
        staged: bool = False,
    ) -> Sink:
        """A sink for a table of columns ``id`` (the key of ignore, upsert and merge) and ``flights`` (added up).

        With ``staged``, every task's rows take the way of large batches, however few they are. The harness of a
        store whose sinks only append is never asked for another mode.
        """

    def rows(self, sink: Sink) -> list[tuple[Any, ...]]:
        """What a reader sees in the sink's table, sorted; empty when there is no table."""

    def leftovers(self) -> list[str]:
        """Names of what staging has left behind, for example tables or files."""


def batches_of(rows: Rows) -> Iterator[pa.RecordBatch]:
    """Rows as one record batch of the suite's schema."""
    columns = list(zip(*rows, strict=True)) or [(), ()]
    arrays = [pa.array(column, type=SCHEMA.field(i).type) for i, column in enumerate(columns)]
    yield pa.record_batch(arrays, schema=SCHEMA)


@dataclass
class Job:
    """A driver: one store object, the generation it took, the entry it committed last."""

    store: Store
    pipeline: str = "flights"
    lineage: str = "lineage-1"
    generation: int = 0
    last: LedgerEntry | None = None
    _prepared: set[int] = field(default_factory=set)

    def start(self, generation: int | None = None) -> Job:
        """Fence and read."""
        self.generation = self.store.fence(self.pipeline, generation=generation)
        self.last = self.store.read(self.pipeline)
        return self

    def next_entry(self, records: int = 10) -> LedgerEntry:
        """The entry that follows the last one, ``records`` offsets on."""
        start = self.last.progress[0].end if self.last else 0
        progress = PartitionProgress(
            topic="flights", partition=0, topic_id="id-1", start=start, end=start + records,
            leader_epoch=0, origin=0,
        )  # fmt: skip
        return LedgerEntry(
            pipeline=self.pipeline,
            generation=self.generation,
            lineage=self.lineage,
            batch_id=self.last.batch_id + 1 if self.last else 0,
            progress=(progress,),
            committed_at_ms=1_700_000_000_123,
        )

    def batch(self, entry: LedgerEntry) -> BatchAttempt:
        """A try of the entry's batch."""
        return BatchAttempt(
            pipeline=self.pipeline,
            generation=self.generation,
            batch_id=entry.batch_id,
            attempt=uuid.uuid4().hex,
        )

    def write(
        self, sink: Sink, batch: BatchAttempt, tasks: Sequence[Rows]
    ) -> tuple[Sink, BatchAttempt, list[TaskReport]]:
        """Run one task per element and gather the reports."""
        if id(sink) not in self._prepared:
            sink.prepare(SCHEMA)
            self._prepared.add(id(sink))
        writer = sink.task_writer(batch, SCHEMA)
        reports = [writer(batches_of(rows)) for rows in tasks]
        return sink, batch, self.finish(sink, batch, [list(batches_of(rows)) for rows in tasks], reports)

    def finish(
        self, sink: Sink, batch: BatchAttempt, tasks: Sequence[Sequence[pa.RecordBatch]], reports: list[TaskReport]
    ) -> list[TaskReport]:
        """The second phase of a sink that has one and needs it: its reports; otherwise the first ones."""
        if not sink.needs_second_phase(reports):
            return reports
        store: Any = self.store
        transaction = store.begin(batch, sink)
        try:
            return _write_shares(sink.second_phase(transaction, batch, reports, writers_max=2), tasks)
        except Exception as error:
            store.abort_with_cause(batch, error)
            raise

    def run(self, *outputs: tuple[Sink, Sequence[Rows]]) -> LedgerEntry:
        """One whole batch: write each output, commit, remember the entry."""
        entry = self.next_entry()
        batch = self.batch(entry)
        writes = [self.write(sink, batch, tasks) for sink, tasks in outputs]
        self.last = self.store.commit(entry, previous=self.last, writes=writes)
        return self.last


def _write_shares(phase: SecondPhase, tasks: Sequence[Sequence[pa.RecordBatch]]) -> list[TaskReport]:
    """What Spark does: route each task's rows, shuffle them, run one writer on each share."""
    router, writer = pickle.loads(pickle.dumps((phase.router, phase.writer)))
    rows = pa.Table.from_batches(routed for task in tasks for routed in router(iter(task)))
    share_of = np.asarray(rows.column(TARGET)) % phase.writer_count
    shares = (rows.filter(pa.array(share_of == share)) for share in range(phase.writer_count))
    return [writer(iter(share.to_batches())) for share in shares]


class BrokenSink(WrappedSink):
    """A sink whose rows arrive and which then fails, as a machine might."""

    def apply(self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Move the rows, then fail."""
        self._inner.apply(transaction, batch, reports)
        raise RuntimeError("the sink broke after its rows had been moved")


def seen_soon(read: Callable[[], Any], expected: Any, *, timeout_s: float = 10.0) -> Any:
    """What a driver without a fence sees, asked again until it is what is expected, or time is over.

    A store may answer a commit a moment before everybody sees it: Kafka answers EndTxn before it writes the markers.
    """
    deadline = time.monotonic() + timeout_s
    while (answer := read()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def run_together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at one moment; results and errors in their order."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(index: int, call: Any) -> None:
        barrier.wait()
        try:
            results[index] = call()
        except Exception as error:  # noqa: BLE001 - judged by the test
            results[index] = error

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
