"""Writers that were given up and go on all the same.

Crash points 5, 7, 16 and 18. A writer is given up when Spark declares its executor lost, or when another attempt of its
task has reported; the process may live, and write on after the batch's EndTxn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from tests.contract.kafka_harness import KafkaHarness, KeyedRows
from tests.real.kafka.logs import end_offset
from tests.real.sinks.test_kafka_faults import NoClaims
from tests.waiting import until

from directkafka.errors.kafka import ProducerFencedError, ProducerStateError, SecondAttemptError
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.sinks.api import BatchAttempt, LedgerEntry, TaskReport
from directkafka.testing.store_driver import SCHEMA, Job, Rows, batches_of

pytestmark = pytest.mark.real

WAIT_S = 90.0


@dataclass
class Open:
    """A batch whose transaction is open, with one task to write it."""

    job: Job
    sink: KeyedRows
    entry: LedgerEntry
    batch: BatchAttempt
    router: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    writer: Any

    @classmethod
    def of(cls, job: Job, sink: KeyedRows, rows: Rows) -> Open:
        sink.prepare(SCHEMA)
        entry = job.next_entry()
        batch = job.batch(entry)
        store: Any = job.store
        report = sink.task_writer(batch, SCHEMA)(batches_of(rows))
        phase = sink.second_phase(store.begin(batch, sink), batch, [report], writers_max=1)
        return cls(job, sink, entry, batch, phase.router, phase.writer)

    def attempt(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        report: TaskReport = self.writer(self.router(batches))
        return report

    def attempt_unclaimed(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """An attempt that the rule of claims would not let write."""
        anybody = NoClaims(
            client=ClientOptions(bootstrap_servers=("nobody:1",)),
            ledger=TopicPartition("", 0),
            from_offset=0,
            name="",
        )
        report: TaskReport = replace(self.writer, claims=anybody)(self.router(batches))
        return report

    def commit(self, report: TaskReport) -> None:
        writes = [(self.sink, self.batch, [report])]
        self.job.last = self.job.store.commit(self.entry, previous=self.job.last, writes=writes)


@dataclass
class Zombie:
    """A writer in a thread of its own, which is held up after its first rows until it is told to go on."""

    write: Callable[[Iterator[pa.RecordBatch]], TaskReport]
    first: Rows
    rest: Rows
    outcome: list[Any] = field(default_factory=list)
    _go_on: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome.append(self.write(self._batches()))
        except Exception as error:  # noqa: BLE001 - judged by the test
            self.outcome.append(error)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.first:
            yield from batches_of(self.first)
        assert self._go_on.wait(WAIT_S), "nobody told it to go on"
        yield from batches_of(self.rest)

    def go_on(self) -> Any:
        """What became of it."""
        self._go_on.set()
        self._thread.join(WAIT_S)
        return self.outcome[0]


REFUSED = (ProducerFencedError, ProducerStateError)


def test_a_writer_that_was_given_up_lands_nothing_when_it_goes_on(harness: KafkaHarness) -> None:
    """Half of its rows are acknowledged when its executor is declared lost. The batch is done again, and committed."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    batch = Open.of(job, sink, [(1, 1), (2, 1)])
    zombie = Zombie(batch.attempt, first=[(1, 1)], rest=[(2, 1)])
    until(
        lambda: sum(end_offset(harness.servers, sink.name, partition) for partition in range(3)),
        "its first row does not come",
    )
    store: Any = job.store
    store.abort_with_cause(batch.batch, RuntimeError("the executor is lost"))
    job.run((sink, [[(7, 7), (8, 8)]]))
    assert isinstance(zombie.go_on(), REFUSED), zombie.outcome
    assert harness.rows(sink) == [(7, 7), (8, 8)]
    job.run((sink, [[(9, 9)]]))
    assert harness.rows(sink) == [(7, 7), (8, 8), (9, 9)]


@pytest.mark.slow
def test_a_twin_that_lost_writes_nothing_before_the_commit_and_nothing_after_it(harness: KafkaHarness) -> None:
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    batch = Open.of(job, sink, [(1, 1)])
    winner = batch.attempt(batches_of([(1, 1)]))
    before, after = (Zombie(batch.attempt, first=[], rest=[(1, 1)]) for _ in range(2))
    assert isinstance(before.go_on(), SecondAttemptError), before.outcome
    batch.commit(winner)
    assert isinstance(after.go_on(), SecondAttemptError), after.outcome
    assert harness.rows(sink) == [(1, 1)]


@pytest.mark.slow
def test_even_without_claims_a_twin_that_writes_after_the_commit_is_refused(harness: KafkaHarness) -> None:
    """The brokers' own line of defence: no row of it is there, and no transaction that nobody would end."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    batch = Open.of(job, sink, [(1, 1)])
    # More rows than the winner's: the same number would be taken for the winner's, sent again.
    zombie = Zombie(batch.attempt_unclaimed, first=[], rest=[(1, 1), (1, 2), (1, 3)])
    batch.commit(batch.attempt(batches_of([(1, 1)])))
    assert isinstance(zombie.go_on(), REFUSED), zombie.outcome
    assert harness.rows(sink) == [(1, 1)]
    assert harness.leftovers() == []
    job.run((sink, [[(2, 1)]]))
    assert harness.rows(sink) == [(1, 1), (2, 1)]
