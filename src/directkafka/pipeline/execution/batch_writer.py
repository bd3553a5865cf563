"""Step 3 of a batch: from ranges through the transform to rows that are written and not yet visible.

The source is read once: with several outputs it is persisted, and every task of it proves that it read its range to the
end, through an accumulator that is filed by attempt, so that a task that ran twice counts once. An output that is used
twice is computed once, whatever is lost meanwhile (:mod:`directkafka.pipeline.execution.kept`): all its sinks get the
same rows.

A sink with a second phase gets the output twice: once to see how much it is, and, if it is much, once more to write it
inside the store's transaction. The output must be the same both times, so it is kept. Small batches need no second
look, and to keep them would cost more than they do: so an output is kept from the first job on only if its last batch
was large, and one that turns out to be large is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from directkafka.errors import RangeNotReadError, TransformError
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount, read_by_topic
from directkafka.offsets import OffsetRange, total_count
from directkafka.options.payloads import Payloads
from directkafka.pipeline.execution.background_job import BackgroundJob
from directkafka.pipeline.execution.dead_letters import AtWork, Work
from directkafka.pipeline.execution.executor_errors import job_errors
from directkafka.pipeline.execution.kept import Keeper
from directkafka.pipeline.execution.output_writer import OutputWriter, schema_for
from directkafka.pipeline.execution.outputs import outputs_of
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.second_phases import Part, finish_parts
from directkafka.pipeline.execution.transform import SqlTransform, Transform, batch_wide_part, reads_alone, remarks
from directkafka.pipeline.execution.two_phase import check_speculation
from directkafka.pipeline.execution.write_task import ProofUnion
from directkafka.planning.placement import task_count
from directkafka.sinks.api import BatchAttempt, Sink, Store, TaskReport, TransactionalStore
from directkafka.spark.dataframe import arrow_schema, records_frame
from directkafka.spark.large_functions import batch_broadcasts


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """What the tasks of one batch wrote; as a context manager, it leaves no transaction open.

    Attributes:
        name: the try of the batch.
        reports: per route, the reports of its tasks.
        read: how much was read from Kafka, by topic; empty where Spark reads.
        early: stores in whose open transactions rows lie; with the transaction, these rows go.
        set_apart: the records that it goes without, see :func:`directkafka.sinks.ledger.records_set_apart`.
    """

    name: BatchAttempt
    reports: tuple[tuple[Sink, tuple[TaskReport, ...]], ...]
    read: Mapping[str, ReadCount]
    early: tuple[TransactionalStore, ...] = ()
    set_apart: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Abort what is open still; after a commit nothing is."""
        for store in self.early:
            store.abort(self.name)

    def for_store(self, store: Store) -> list[tuple[Sink, BatchAttempt, Sequence[TaskReport]]]:
        """The part that goes into one store's transaction."""
        return [(sink, self.name, reports) for sink, reports in self.reports if sink.store.identity == store.identity]

    def is_kept_for(self, stores: Collection[str]) -> bool:
        """Whether the rows for all stores of these identities outlast a failed commit."""
        written = {sink.store.identity for sink, _ in self.reports}
        return written.issuperset(stores) and not any(store.identity in stores for store in self.early)


class RangesWriter(Protocol):
    """What turns planned ranges into written rows, batch after batch."""

    @property
    def session(self) -> SparkSession:
        """The pipeline's own."""

    def check(self) -> tuple[str, ...]:
        """Look at transform and sinks, making and changing nothing; remarks for the user."""

    def prepare(self) -> None:
        """Make what tables are not there."""

    @property
    def may_run_ahead(self) -> bool:
        """Whether a batch may be written while the one before it is committed."""

    def begin(
        self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]
    ) -> BackgroundJob[WrittenBatch]:
        """Write a batch in the background."""

    def write(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> WrittenBatch:
        """Write a batch for the stores of these identities."""


class BatchWriter:
    """Turns planned ranges into written rows, batch after batch.

    Args:
        sample: what every batch looks like, in the pipeline's own session; its rows are not read.
        transform: what becomes of the records.
        routes: which output goes where.
        hidden: columns that the transform is not shown, for what becomes of rejected records.
        payloads: what values and keys of the records are, whatever their tasks say.
        min_partitions: of a batch's ranges, as the user wishes.
    """

    def __init__(
        self,
        sample: DataFrame,
        transform: Transform,
        routes: Sequence[Route],
        *,
        hidden: Sequence[str] = (),
        payloads: Payloads = (),
        min_partitions: int | None = None,
    ) -> None:
        self._sample = sample
        self._session = sample.sparkSession
        self._transform = transform
        self._routes = tuple(routes)
        self._hidden = tuple(hidden)
        self._payloads = payloads
        self._min_partitions = min_partitions
        self._proofs = self._session.sparkContext.accumulator({}, ProofUnion())
        #: One for each route, once the columns are known.
        self._writers: tuple[OutputWriter, ...] = ()
        self._may_run_ahead = False
        #: Outputs whose last batch was so large that it took a second phase.
        self._large: set[str] = set()

    def check(self) -> tuple[str, ...]:
        """Compile the transform, and have every sink look at its columns; nothing is made or changed.

        Returns:
            Remarks on the plans for the user.

        Raises:
            TransformError, SchemaMismatchError: see there.
            OptionError: a sink asks for an output that the transform does not give.
            EnvironmentFaultError: Spark would run writing tasks twice at a time.
        """
        check_speculation(self._session, [route.sink for route in self._routes])
        outputs = self.plans()
        own = {name: frame for name, frame in outputs.items() if name != DEAD_LETTERS}
        notes = remarks(own, store_count=len({route.sink.store.identity for route in self._routes}))
        self._writers = tuple(
            OutputWriter(self._session, route, schema_for(route.sink, arrow_schema(outputs[route.output])))
            for route in self._routes
        )
        self._may_run_ahead = self._keeps_batches_apart(own)
        for writer in self._writers:
            writer.sink.check(writer.schema)
        return notes

    def check_divisible(self) -> None:
        """Refuse a transform whose rows depend on which records are in one batch: a half would give other rows.

        Raises:
            TransformError: it aggregates, windows, removes duplicates, or joins the batch with itself.
        """
        outputs, source = self.plans(), self._session.table("source")
        for name, frame in outputs.items():
            if name != DEAD_LETTERS and (why := batch_wide_part(frame, source)) is not None:
                raise TransformError(
                    source=f"output {name!r}",
                    cause=f"it has {why}, so a part of a batch gives other rows than the whole, and records that make "
                    "a batch fail cannot be looked for: remove on_error = 'isolate', or that",
                )

    @property
    def session(self) -> SparkSession:
        """The pipeline's own."""
        return self._session

    @property
    def source_schema(self) -> pa.Schema:
        """The columns of the source."""
        return arrow_schema(self._sample)

    @property
    def dead_letter_writer(self) -> OutputWriter:
        """The writer of dead letters, once the columns are known."""
        return next(writer for writer in self._writers if writer.route.output == DEAD_LETTERS)

    @property
    def payloads(self) -> Payloads:
        """What values and keys of the records are."""
        return self._payloads

    @batch_broadcasts()
    def plans(self) -> dict[str, DataFrame]:
        """What the transform makes of the sample, by output; nothing runs."""
        return self._transformed(self._sample)

    def prepare(self) -> None:
        """Make what tables are not there, for the columns that :meth:`check` found.

        Raises:
            SchemaMismatchError: see :meth:`~directkafka.sinks.api.Sink.prepare`.
        """
        for writer in self._writers:
            writer.sink.prepare(writer.schema)

    @property
    def may_run_ahead(self) -> bool:
        """Whether a batch may be computed and written while the one before it is committed.

        Its rows must not depend on what that commit changes: the transform is a query, and reads nothing but the
        source. And the sinks must keep two batches apart.
        """
        return self._may_run_ahead

    def _keeps_batches_apart(self, outputs: Mapping[str, DataFrame]) -> bool:
        if not isinstance(self._transform, SqlTransform):
            return False
        source = self._session.table("source")
        return all(reads_alone(frame, source) for frame in outputs.values()) and all(
            route.sink.capabilities.allows_prefetch for route in self._routes
        )

    def begin(
        self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]
    ) -> BackgroundJob[WrittenBatch]:
        """The same as :meth:`write` in the background; nothing else is written until it is over."""
        return BackgroundJob(self._session, partial(self.write, name, tasks, stores=stores))

    @batch_broadcasts()
    def write(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> WrittenBatch:
        """Read, transform and write one batch of ranges; see :meth:`write_frame`.

        Raises:
            RangeNotReadError: the transform ended a range early.
        """
        self._proofs.value = {}
        tasks = [replace(task, payloads=self._payloads) for task in tasks]
        ranges = [task.range for task in tasks]
        parallelism = self._session.sparkContext.defaultParallelism
        frame = records_frame(
            self._session,
            tasks,
            self._sample.columns,
            payloads=self._payloads,
            attempt=name.attempt,
            proof=self._proofs,
            partition_count=task_count(ranges, parallelism=parallelism, min_partitions=self._min_partitions),
        )
        check = partial(self._prove_read, name, ranges, of=self._wanted(stores))
        return self.write_frame(name, frame, stores=stores, read_check=check, ranges=ranges)

    @batch_broadcasts()
    def write_frame(
        self,
        name: BatchAttempt,
        frame: DataFrame,
        *,
        stores: Collection[str],
        read_check: Callable[[], Mapping[str, ReadCount]] = dict,
        ranges: Sequence[OffsetRange] | None = None,
    ) -> WrittenBatch:
        """Transform and write one batch.

        Args:
            name: the try of the batch.
            frame: the batch, with the sample's columns.
            stores: identities of the stores that lack the batch; for others nothing is computed or written.
            read_check: says how much was read of each topic, once the rows are written; may raise.
            ranges: what the frame reads, which has the same rows whenever it is computed. None: it is the user's plan,
                which may not give the same twice, and is kept where it is used twice.

        Raises:
            TransformError: the transform failed on an executor, or gives other columns than when it was checked.
            DirectKafkaError: what a task met, with its fields.
        """
        wanted = self._wanted(stores)
        with ExitStack() as kept:
            keeper = Keeper(kept)
            with job_errors():
                parts = self._write_all(name, frame, wanted, keeper, ranges)
                read = read_check()
            early = finish_parts(parts, name, keeper, self._routes)
        reports = tuple((part.sink, part.reports) for part in parts)
        return WrittenBatch(name=name, reports=reports, read=read, early=early)

    def run_into_nothing(self, frame: DataFrame) -> None:
        """Compute a batch for what Spark keeps of it, and drop its rows.

        A query with state could not load it for batch N+1 if N were passed over.

        Raises:
            DirectKafkaError: what a task met.
        """
        with job_errors():
            frame.write.format("noop").mode("overwrite").save()

    def _write_all(
        self,
        name: BatchAttempt,
        frame: DataFrame,
        wanted: Sequence[OutputWriter],
        keeper: Keeper,
        ranges: Sequence[OffsetRange] | None,
    ) -> list[Part]:
        keep = keeper.keep if ranges is None else keeper.spare
        outputs = self._outputs(frame, [writer.route.output for writer in wanted], keeper, keep)
        counts = {"range_count": len(ranges or ()), "record_count": total_count(ranges or ())}
        parts = []
        for writer in wanted:
            output = outputs[writer.route.output]
            part = Part(writer.sink, output, writer.write(output, name, **counts))
            if writer.sink.capabilities.has_second_phase:
                (self._large.add if part.needs_second_phase else self._large.discard)(writer.route.output)
                # Its reports may be of rows that are gone.
                if part.needs_second_phase and not keeper.holds(output):
                    part.output = keeper.keep(output)
                    part.reports = writer.write(part.output, name, **counts)
            parts.append(part)
        return parts

    def _wanted(self, stores: Collection[str]) -> list[OutputWriter]:
        return [writer for writer in self._writers if writer.sink.store.identity in stores]

    def _prove_read(
        self, name: BatchAttempt, ranges: Sequence[OffsetRange], *, of: Sequence[OutputWriter]
    ) -> dict[str, ReadCount]:
        """How much was read of each topic; every range must have been read to its end.

        Or none, where only dead letters are wanted of a transform that rejects nothing: Spark sees that none is needed.
        """
        # A copy, made in one step: a task of an earlier attempt may still report while we look.
        proofs = dict(self._proofs.value)
        proven = {offset_range: count for (attempt, offset_range), count in proofs.items() if attempt == name.attempt}
        if not proven and all(writer.route.output == DEAD_LETTERS for writer in of):
            return {}
        if unread := tuple(str(offset_range) for offset_range in ranges if offset_range not in proven):
            raise RangeNotReadError(ranges=unread)
        return read_by_topic((offset_range.topic, proven[offset_range]) for offset_range in ranges)

    def _outputs(
        self, frame: DataFrame, used: Sequence[str], keeper: Keeper, keep: Callable[[DataFrame], DataFrame]
    ) -> dict[str, DataFrame]:
        """All outputs by name; those that are computed for several wanted routes are kept."""
        # Dead letters alone take it twice as well: for the rejected rows, and for the records that they stand for.
        if len(set(used)) > 1 or DEAD_LETTERS in used:
            frame = keep(frame)
        outputs = self._transformed(frame, AtWork(keeper))
        for output in sorted(set(used)):
            if used.count(output) > 1 or output in self._large:
                outputs[output] = keeper.keep(outputs[output])
        return outputs

    def _transformed(self, frame: DataFrame, work: Work | None = None) -> dict[str, DataFrame]:
        return outputs_of(self._transform, frame, self._session, self._routes, work=work, hidden=self._hidden)
