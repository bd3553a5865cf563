"""The writer of a pipeline that isolates: what makes a batch fail is found, taken out, and becomes dead letters.

A failure in step 3 (the transform raises, a task's rows cannot be encoded) is searched for by writing parts of the
batch. One in step 4 (a store refuses a row) is searched for by writing parts and rehearsing their commit, which is
taken back. Nothing of a search is ever committed, so a driver that is killed in it leaves what any failed try of a
batch leaves; the next one searches again.

Then the batch is written without the records that were found. They are read again as they came, and their dead letters
join the batch: rows and letters are one commit where they are in one store. With several stores the records stand in
the ledger entry, so that a store that lacks the batch goes without them as well.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Final

from pyspark.sql import SparkSession

from directkafka.errors import DirectKafkaError, OptionError, RowRejectedError, TransformError
from directkafka.errors.kafka import TransactionTooSlowError
from directkafka.errors.registry import UnencodableRowError
from directkafka.errors.streams import MalformedPayloadError
from directkafka.fault_points import fault_point
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount
from directkafka.pipeline.execution.background_job import BackgroundJob
from directkafka.pipeline.execution.batch_writer import BatchWriter, RangesWriter, WrittenBatch
from directkafka.pipeline.execution.native.dead_letters import DeadLettersOfBatch
from directkafka.pipeline.isolation.dead_letters import reason_of, write_dead_letters
from directkafka.pipeline.isolation.policy import ON_ERROR_NAME, DeadLetterPolicy
from directkafka.pipeline.isolation.ranges import RecordPlace, within, without
from directkafka.pipeline.isolation.search import FailureOf, TooManyError, failing_records
from directkafka.pipeline.retry import StopAsked
from directkafka.sinks.api import BatchAttempt, LedgerEntry
from directkafka.sinks.ledger import records_set_apart

log = logging.getLogger("directkafka.pipeline")

#: What a record can be the reason of.
ISOLABLE: Final = (TransformError, RowRejectedError, MalformedPayloadError, UnencodableRowError)

_OF_ANOTHER_TRY: Final = "it was set apart when the batch was first tried; the driver's log of then says why"


class _EveryRecordFailsError(Exception):
    """All records of a batch were found, so none of them is the reason."""


class IsolatingWriter:
    """Writes batches without the records that make them fail; in the place of the writer that it is given.

    Args:
        inner: writes ranges.
        by_spark: knows the columns of the outputs; the same as ``inner``, or what stands behind it.
        policy: how many records may be set apart.
        stop: ends a search.
    """

    def __init__(self, inner: RangesWriter, by_spark: BatchWriter, policy: DeadLetterPolicy, stop: Event) -> None:
        self._inner = inner
        self._by_spark = by_spark
        self._policy = policy
        self._stop = stop
        #: Of each batch that is not known to be committed, the records that were found, and why.
        self._reasons: dict[int, dict[RecordPlace, str]] = {}
        #: Of each batch whose records were found by the last search, what it failed with.
        self._failed_with: dict[int, DirectKafkaError] = {}

    def check(self) -> tuple[str, ...]:
        """Look at transform and sinks; nothing is made or changed.

        Raises:
            TransformError: also when its rows depend on which records are in one batch.
            DirectKafkaError: see the inner writer's.
        """
        remarks = self._inner.check()
        self._by_spark.check_divisible()
        return remarks

    def prepare(self) -> None:
        """Make what tables are not there."""
        self._inner.prepare()

    @property
    def may_run_ahead(self) -> bool:
        """Whether a batch may be written while the one before it is committed."""
        return self._inner.may_run_ahead

    @property
    def session(self) -> SparkSession:
        """The pipeline's own."""
        return self._inner.session

    def begin(
        self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]
    ) -> BackgroundJob[WrittenBatch]:
        """Begin to write a batch in the background; if it fails there, records are looked for when its turn comes.

        Not before: a batch that is given up fails as well, because its jobs are cancelled.
        """
        written = partial(self._write_rest, name, tasks, stores=stores)
        return _SearchedWhenWaitedFor(self.session, written, partial(self.write, name, tasks, stores=stores))

    def write(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> WrittenBatch:
        """Write a batch without the records that are known to make it fail, and without those that do so now.

        Raises:
            DirectKafkaError: the batch fails, and no record alone is the reason; or too many are, or all.
        """
        while True:
            failed_with = self._failed_with.pop(name.batch_id, None)
            try:
                return self._write_rest(name, tasks, stores=stores, is_searched=failed_with is not None)
            except _EveryRecordFailsError:
                log.error(
                    "%s: batch %d: each of its records fails, so it is none of them", name.pipeline, name.batch_id
                )
                assert failed_with is not None, "else nothing was searched"
                self._reasons.pop(name.batch_id)
                raise failed_with from None
            except ISOLABLE as error:
                self._find(name, tasks, error, partial(self._written_with, name, stores=stores))
                # What was written under the old name is of no batch.
                name = replace(name, attempt=uuid.uuid4().hex)

    def write_again(
        self, places: Collection[str], name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]
    ) -> WrittenBatch:
        """Write a batch for stores that lack it, without the records that the others went without, and no others.

        Raises:
            DirectKafkaError: the batch fails.
        """
        known = self._reasons.setdefault(name.batch_id, {})
        for record_place in map(RecordPlace.parse, places):
            known.setdefault(record_place, _OF_ANOTHER_TRY)
        return self._write_rest(name, tasks, stores=stores)

    def find_refused(
        self,
        name: BatchAttempt,
        tasks: Sequence[RangeTask],
        error: RowRejectedError,
        *,
        stores: Collection[str],
        rehearse: Callable[[WrittenBatch], None],
    ) -> None:
        """Find the records whose rows the stores refuse; the next try of the batch goes without them.

        Args:
            name: a try of the batch.
            tasks: its ranges.
            error: what its commit failed with.
            stores: identities of all stores.
            rehearse: commits a part of the batch, and takes it back.

        Raises:
            DirectKafkaError: ``error``, where no record alone is the reason, or too many are.
        """

        def try_commit(part: Sequence[RangeTask]) -> DirectKafkaError | None:
            attempt = replace(name, attempt=uuid.uuid4().hex)
            try:
                with self._inner.write(attempt, part, stores=stores) as written:
                    rehearse(written)
            except ISOLABLE as failure:
                return failure
            except (NotImplementedError, TransactionTooSlowError) as failure:
                log.error("%s: what is refused cannot be looked for: %s", name.pipeline, failure)
                raise error from failure
            return None

        self._find(name, tasks, error, try_commit)

    def _written_with(
        self, name: BatchAttempt, part: Sequence[RangeTask], *, stores: Collection[str]
    ) -> DirectKafkaError | None:
        attempt = replace(name, attempt=uuid.uuid4().hex)
        try:
            with self._inner.write(attempt, part, stores=stores):
                return None
        except ISOLABLE as failure:
            return failure

    def _find(
        self, name: BatchAttempt, tasks: Sequence[RangeTask], error: DirectKafkaError, fails_with: FailureOf
    ) -> None:
        """Add the records that are the reason of a failure to those that are known; or raise it."""
        # Of two batches that are under way, one is committed before the next but one begins.
        self._reasons = {number: reasons for number, reasons in self._reasons.items() if number >= name.batch_id - 1}
        known = self._reasons.setdefault(name.batch_id, {})
        rest = without(tasks, known)
        log.warning("%s: batch %d failed, and the records that are the reason are looked for: %s",
                    name.pipeline, name.batch_id, reason_of(error))  # fmt: skip

        def tried(part: Sequence[RangeTask]) -> DirectKafkaError | None:
            if self._stop.is_set():
                raise StopAsked(reason_of(error))
            failure = fails_with(part)
            fault_point("isolation.part_tried")
            return failure

        try:
            left = self._policy.max_per_batch - len(within(tasks, known))
            failures = failing_records(rest, error, tried, max_count=left)
        except TooManyError:
            log.error("%s: batch %d: more than %d records (max_per_batch) make it fail; none is set apart",
                      name.pipeline, name.batch_id, self._policy.max_per_batch)  # fmt: skip
            raise error from None
        if not failures:
            log.error("%s: batch %d: no record makes it fail alone", name.pipeline, name.batch_id)
            raise error
        for record_place, failure in failures.items():
            known[record_place] = reason_of(failure)
            log.warning(
                "%s: batch %d goes without %s: %s", name.pipeline, name.batch_id, record_place, known[record_place]
            )
        self._failed_with[name.batch_id] = error

    def _write_rest(
        self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str], is_searched: bool = False
    ) -> WrittenBatch:
        """Write a batch without the records that are known, and their dead letters.

        Raises:
            _EveryRecordFailsError: the batch was searched, and nothing else is in it; offsets may have no records.
        """
        known = self._reasons.get(name.batch_id, {})
        reasons = {record_place: known[record_place] for record_place in within(tasks, known)}
        written = self._inner.write(name, without(tasks, reasons), stores=stores)
        if not reasons:
            return written
        with ExitStack() as given_up:
            # Rows may lie in an open transaction.
            given_up.enter_context(written)
            if is_searched and len(reasons) > 1 and not any(count.record_count for count in written.read.values()):
                raise _EveryRecordFailsError
            if self._policy.sink.store.identity in stores:
                written = self._with_dead_letters(written, tasks, reasons)
            given_up.pop_all()
        return replace(written, set_apart=tuple(map(str, reasons)))

    def _with_dead_letters(
        self, written: WrittenBatch, tasks: Sequence[RangeTask], reasons: Mapping[RecordPlace, str]
    ) -> WrittenBatch:
        sink = self._policy.sink
        dead_letters = DeadLettersOfBatch.of(self._by_spark.source_schema, sink)
        report, read = write_dead_letters(self._by_spark.dead_letter_writer, dead_letters, written.name, tasks, reasons)
        fault_point("isolation.letters_written")
        reports = []
        for target, there in written.reports:
            with_dead_letters = (*there, report) if target is sink else there
            if target is sink and target.needs_second_phase(with_dead_letters):
                # They would have to be written by a second job, which is over.
                raise RowRejectedError(
                    store=sink.store.identity,
                    sink=sink.name,
                    detail=f"the dead letters of a batch, {len(reasons)} of them of records that were set apart, are "
                    "too many bytes for one try: make smaller batches (maxOffsetsPerTrigger), or let the sink hold "
                    "more (inline_bytes_max)",
                )
            reports.append((target, with_dead_letters))
        return replace(written, reports=tuple(reports), read=_added(written.read, read))


class _SearchedWhenWaitedFor(BackgroundJob[WrittenBatch]):
    """A batch that is written in the background, and in the foreground if that fails for a record's sake.

    Args:
        session: whose job it is.
        job: writes it, and looks for nothing.
        in_foreground: writes it, and looks for records.
    """

    def __init__(
        self, session: SparkSession, job: Callable[[], WrittenBatch], in_foreground: Callable[[], WrittenBatch]
    ) -> None:
        super().__init__(session, job)
        self._in_foreground = in_foreground

    def result(self, limit_s: float | None = None) -> WrittenBatch:
        """Wait for the batch, or write it.

        Raises:
            TimeoutError: it is not over after so many seconds.
            DirectKafkaError: see :meth:`IsolatingWriter.write`.
        """
        try:
            return super().result(limit_s)
        except ISOLABLE:
            return self._in_foreground()


def isolating(
    policy: DeadLetterPolicy | None, *, is_structured: bool, stop: Event
) -> Callable[[RangesWriter, BatchWriter], IsolatingWriter] | None:
    """What puts an isolating writer around another one; None where the policy does not ask for it.

    Args:
        policy: of the pipeline's dead letters, if it has any.
        is_structured: whether Spark plans its batches.
        stop: ends a search.

    Raises:
        OptionError: it asks for it, and Spark plans the batches.
    """
    if policy is None or not policy.isolates:
        return None
    if is_structured:
        reason = 'batches of engine = "structured" are planned by Spark, which cannot take records out of them'
        raise OptionError(option=ON_ERROR_NAME, reason=f"{reason}: use the direct engine, or on_error = 'fail'")
    return partial(IsolatingWriter, policy=policy, stop=stop)


def _added(read: Mapping[str, ReadCount], more: Sequence[tuple[str, ReadCount]]) -> dict[str, ReadCount]:
    counts = {topic: ReadCount(count.record_count, count.byte_count) for topic, count in read.items()}
    for topic, count in more:
        counts.setdefault(topic, ReadCount()).add(count)
    return counts


def write_again(
    writer: RangesWriter, ahead: LedgerEntry, name: BatchAttempt, tasks: Sequence[RangeTask], stores: Collection[str]
) -> WrittenBatch:
    """Write a batch for the stores that lack it, without what the others have gone without.

    Args:
        writer: the batch's.
        ahead: its entry in the stores that have it.
        name: this try of it.
        tasks: its ranges.
        stores: identities of those that lack it.

    Raises:
        OptionError: the others have gone without some records, and this writer cannot.
    """
    places = records_set_apart(ahead)
    if isinstance(writer, IsolatingWriter):
        return writer.write_again(places, name, tasks, stores=stores)
    if places:
        reason = (
            f"batch {ahead.batch_id} was committed to another store without {len(places)} records that made it fail "
            f"({', '.join(places[:3])}), and must go without them here: run with on_error = 'isolate' until it has"
        )
        raise OptionError(option=ON_ERROR_NAME, where="the dead letters", reason=reason)
    return writer.write(name, tasks, stores=stores)
