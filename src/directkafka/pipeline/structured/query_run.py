"""One run of a streaming query under the structured engine, as numbered steps.

::

    at the first batch of a run
    0. check every table against the batch's columns, changing nothing
    1. fence all stores, in the order listed; the first hands out the generation
    2. make what tables are not there; read the ledgers, only after all are fenced
    then, for each batch that Spark hands over, the empty ones too:
    3. read what the checkpoint planned, decide which stores lack the batch; write its rows where no reader sees them
    4. commit rows and ledger entry, store by store, each in one transaction
    5. report the progress; Spark then notes the batch in its commit log

Spark reads the source and updates the query's state when it computes a batch's rows. So the rows of every batch are
computed, if possible only once: for several sinks they are kept, and if the batch is committed already they are
dropped.

What makes this more than ``foreachBatch``: the stores commit first, then Spark notes the batch as done. If the driver
dies between the two, Spark hands the batch over again from the same offsets after the restart, and the ledger says that
it is done (:mod:`directkafka.pipeline.structured.lineage`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame

from directkafka.errors.kafka import TransactionTooSlowError
from directkafka.fault_points import fault_point
from directkafka.offsets import OffsetRange
from directkafka.pipeline.execution.batch_writer import BatchWriter
from directkafka.pipeline.execution.transform import PythonTransform
from directkafka.pipeline.ledger.commit_session import CommitSession
from directkafka.pipeline.ledger.pause import PAUSE_POLL_S, Pause
from directkafka.pipeline.ledger.reconcile import Recovery
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.progress import Reporter, Stopwatch
from directkafka.pipeline.retry import RetryPolicy, StopAsked
from directkafka.pipeline.status import PipelineStatus, Step
from directkafka.pipeline.structured.checkpoint import Checkpoint
from directkafka.pipeline.structured.lineage import CheckpointBatch, decide, progress_of
from directkafka.sinks.api import LedgerEntry


def _same(frame: DataFrame) -> DataFrame:
    return frame


#: For a query whose rows go to the sinks as they are.
AS_IT_IS = PythonTransform(_same, "as it is")


log = logging.getLogger("directkafka.pipeline")


#: The remedy for a batch that is too slow: Spark's checkpoint has planned it for good.
_FIXED: Final = (
    "Raise kafka.transaction.timeout.ms of the sink, up to the brokers' transaction.max.timeout.ms, and start the "
    "query again: this batch is planned in the checkpoint, and cannot be made smaller. A lower maxOffsetsPerTrigger "
    "counts for the batches after it."
)


class QueryRun:
    """One run of a query, from its first batch to its end.

    Args:
        name: the pipeline's name in the ledgers.
        checkpoint: what Spark plans and notes.
        writer: what becomes of a batch.
        ledgers: where batches are committed.
        report: told of each committed batch.
        status: told what the query does.
        retry_policy: how failures that may pass are met.
        is_over: whether a batch that waits in a pause is not wanted any more.
    """

    def __init__(
        self,
        name: str,
        *,
        checkpoint: Checkpoint,
        writer: BatchWriter,
        ledgers: Ledgers,
        report: Reporter,
        retry_policy: RetryPolicy,
        status: PipelineStatus | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name = name
        self._checkpoint = checkpoint
        self._writer = writer
        self._ledgers = ledgers
        self._status = status or PipelineStatus(name)
        self._session = CommitSession(name, ledgers, status=self._status)
        self._pause = Pause(name)
        self._report = report
        self._retry_policy = retry_policy
        self._is_over = is_over
        #: What the ledgers say; None before they are read, and after any failure.
        self._recovery: Recovery | None = None

    def take_over(self) -> None:
        """Steps 0 to 2.

        Raises:
            FencedError: a newer driver took over.
            DirectKafkaError: a sink or a store cannot be used.
        """
        for remark in self._retry_policy.until_done(self._take_over):
            log.warning("%s: %s", self._name, remark)

    def run_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Steps 3 to 5 for one batch.

        Raises:
            LineageError: the checkpoint is not the one that the ledger follows.
            FencedError: a newer driver took over.
            DirectKafkaError: whatever stopped it; the batch is committed nowhere, or only in the first stores.
        """
        while self._retry_policy.until_done(lambda: self._pause.is_paused(self._ledgers.first)):
            if self._is_over():
                raise StopAsked("the query was stopped while its pipeline was paused")
            self._status.at(Step.PAUSED)
            self._retry_policy.wait(PAUSE_POLL_S, "the pipeline is paused")
        self._retry_policy.until_done(lambda: self._run_batch(frame, batch_id))

    def check_fenced(self) -> None:
        """Ask the ledgers whether a newer driver has taken the pipeline; wait for a store that is unavailable.

        Raises:
            FencedError: a newer driver has.
            StopAsked: a store was unavailable when a stop was asked for.
            DirectKafkaError: the ledgers cannot be read.
        """
        self._recovery = None
        self._recovery = self._retry_policy.until_done(self._ledgers.read)

    def close(self) -> None:
        """Give the stores' connections back."""
        self._ledgers.close()

    def _take_over(self) -> tuple[str, ...]:
        remarks = self._ledgers.take_over(self._writer)
        recovery = self._ledgers.read()
        if recovery.lacking_reset:
            self._session.finish_reset(recovery)
            recovery = self._ledgers.read()
        self._recovery = recovery
        self._status.fenced(self._ledgers.generation)
        if recovery.ahead is not None:
            self._status.set_ends(recovery.ahead.ends())
        return remarks

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        watch = Stopwatch()
        self._status.at(Step.PLAN)
        batch = self._checkpoint.planned(batch_id)
        recovery = self._recovery or self._ledgers.read()
        # Until the batch is through, what is remembered of the ledgers may be wrong.
        self._recovery = None
        decision = decide(recovery, batch, pipeline=self._name, stores=self._ledgers.identities)
        if recovery.ahead is not None and decision.join:
            self._session.join(recovery.ahead, decision.join)
        fault_point("batch.planned")
        watch.lap("plan")
        self._status.ready()
        self._status.at(Step.WRITE)
        if decision.write:
            try:
                self._write_and_commit(frame, batch, recovery.ahead, decision.write, watch)
            except TransactionTooSlowError as error:
                raise replace(error, remedy=_FIXED) from error
        else:
            log.warning("%s batch %d is committed already; its rows are dropped", self._name, batch_id)
            self._writer.run_into_nothing(frame)
        self._recovery = Recovery(ahead=self._ledgers.entry)
        self._status.ready(self._ledgers.entry.ends())
        self._status.at(Step.WAITING)

    def _write_and_commit(
        self,
        frame: DataFrame,
        batch: CheckpointBatch,
        ahead: LedgerEntry | None,
        stores: Sequence[int],
        watch: Stopwatch,
    ) -> None:
        is_ahead = ahead is not None and (ahead.lineage, ahead.batch_id) == (batch.lineage, batch.batch_id)
        if is_ahead:
            log.warning("%s: %d store(s) lack batch %d; it is redone there", self._name, len(stores), batch.batch_id)
        progress = ahead.progress if ahead is not None and is_ahead else progress_of(batch, ahead)
        # The entry must not be older than the plan: a plan that is younger is taken for another one.
        entry = self._session.entry(batch.batch_id, batch.lineage, progress, not_before_ms=batch.planned_at_ms)
        lacking = self._ledgers.identities_of(stores)
        kept = self._session.kept(entry, lacking) if is_ahead else None
        name = self._session.attempt(batch.batch_id)
        with kept or self._writer.write_frame(name, frame, stores=lacking) as written:
            fault_point("batch.written")
            watch.lap("write")
            self._status.at(Step.COMMIT)
            self._session.commit(entry, written, only=stores)
        watch.lap("commit")
        ranges = [
            OffsetRange(partition.topic, partition.partition, partition.start, partition.end)
            for partition in entry.progress
            if partition.end > partition.start
        ]
        self._session.report_batch(self._report, watch, ranges=ranges)
