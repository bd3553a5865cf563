"""Step 3 of a native pipeline's batch: one job whose tasks read, decode, transform and write, without a row in the JVM.

It is the same step as :mod:`directkafka.pipeline.execution.batch_writer`'s, with the same sinks' writers, reports and
proofs: what differs is who carries the rows between reading and writing.

A large batch for Kafka takes a second phase, which deals its rows out to tasks again. It must write the very rows that
the first phase counted, so Spark keeps them, as chunks that it does not look into. Small batches need none of this, so
a sink's rows are kept only if its last batch was large. If rows that were not kept turn out to need a second phase, the
job runs again and keeps them.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypedDict

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from directkafka.arrow_columns import empty_batch
from directkafka.errors import OptionError, RangeNotReadError
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount, read_by_topic
from directkafka.options.payloads import Payloads
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.background_job import BackgroundJob
from directkafka.pipeline.execution.batch_writer import BatchWriter, RangesWriter, WrittenBatch
from directkafka.pipeline.execution.executor_errors import job_errors
from directkafka.pipeline.execution.kept import Keeper
from directkafka.pipeline.execution.native.arrow_transform import ArrowTransform, Schemas, schemas_of
from directkafka.pipeline.execution.native.dead_letters import DeadLettersOfBatch, diverted
from directkafka.pipeline.execution.native.task import (
    NATIVE_ROWS,
    OF_REPORT,
    WRITER,
    JsonTextsWriter,
    NativeTask,
    RangeReport,
    range_reports,
)
from directkafka.pipeline.execution.output_writer import schema_for
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.second_phases import Part, finish_parts
from directkafka.pipeline.execution.session import row_folder
from directkafka.pipeline.execution.transform import Transform
from directkafka.pipeline.run_writers import RunWriters
from directkafka.planning.placement import task_count
from directkafka.row_chunks import CHUNK
from directkafka.row_files import RowFolder
from directkafka.sinks.api import BatchAttempt, TaskWriter
from directkafka.sinks.databases import is_json
from directkafka.spark.dataframe import arrow_schema, map_in_arrow, records_frame
from directkafka.spark.large_functions import batch_broadcasts, carried


class NativeWriter:
    """Turns planned ranges into written rows, batch after batch; in the place of a :class:`BatchWriter`.

    Args:
        session: the pipeline's own.
        source: the columns of the source.
        transform: what becomes of the records.
        routes: which output goes where.
        by_spark: the same pipeline's writer by Spark.
        payloads: what values and keys of the records are, whatever their tasks say.
        min_partitions: of a batch's ranges, as the user wishes.
    """

    def __init__(
        self,
        session: SparkSession,
        source: pa.Schema,
        transform: ArrowTransform,
        routes: Sequence[Route],
        *,
        by_spark: BatchWriter,
        payloads: Payloads = (),
        min_partitions: int | None = None,
    ) -> None:
        self._session = session
        self._payloads = payloads
        self._min_partitions = min_partitions
        self._source = source
        self._transform = transform
        self._routes = tuple(routes)
        self._by_spark = by_spark
        #: Of the function's outputs, and of those once rejected records are set apart.
        self._schemas: Schemas = {}
        self._outputs: Schemas = {}
        self._dead_letters: DeadLettersOfBatch | None = None
        #: Sinks, by their identity in this process, whose last batch took a second phase.
        self._large: set[int] = set()

    def check(self) -> tuple[str, ...]:
        """Run the function on an empty batch, and have every sink look at its columns; nothing is made or changed.

        Raises:
            TransformError, SchemaMismatchError: see there.
            OptionError: a sink asks for an output that the transform does not give.
            EnvironmentFaultError: Spark would run writing tasks twice at a time.
        """
        empty = empty_batch(self._source)
        self._schemas = schemas_of(self._transform, DeadLettersOfBatch.shown(empty).schema)
        for route in self._routes:
            if route.output == DEAD_LETTERS:
                self._dead_letters = DeadLettersOfBatch.of(self._source, route.sink)
        self._outputs = diverted(self._schemas, self._dead_letters.schema(self._source) if self._dead_letters else None)
        for route in self._routes:
            if route.output not in self._outputs:
                known = ", ".join(sorted(self._outputs))
                raise OptionError(
                    option="sink.from", reason=f"the transform has no output {route.output!r}; it has {known}"
                )
        return self._by_spark.check()

    def prepare(self) -> None:
        """Make what tables are not there, for the columns that :meth:`check` found.

        Raises:
            SchemaMismatchError: see :meth:`~directkafka.sinks.api.Sink.prepare`.
        """
        self._by_spark.prepare()

    @property
    def session(self) -> SparkSession:
        """The pipeline's own."""
        return self._session

    @property
    def may_run_ahead(self) -> bool:
        """Whether a batch may be written while the one before it is committed: the function keeps nothing."""
        return all(route.sink.capabilities.allows_prefetch for route in self._routes)

    def begin(
        self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]
    ) -> BackgroundJob[WrittenBatch]:
        """The same as :meth:`write` in the background; nothing else is written until it is over."""
        return BackgroundJob(self._session, partial(self.write, name, tasks, stores=stores))

    @batch_broadcasts()
    def write(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> WrittenBatch:
        """Read, transform and write one batch of ranges.

        Args:
            name: the try of the batch.
            tasks: the ranges.
            stores: identities of the stores that lack the batch; for others nothing is written.

        Raises:
            TransformError: the function failed, or gives other columns than when it was checked.
            RangeNotReadError: a task has not come to the end of its range.
            DirectKafkaError: what a task met, with its fields.
        """
        wanted = [route for route in self._routes if route.sink.store.identity in stores]
        tasks = [replace(task, payloads=self._payloads) for task in tasks]
        with ExitStack() as kept:
            keeper = Keeper(kept)
            with job_errors():
                parts, read = self._write(name, tasks, wanted, keeper)
                while unkept := [part for part in parts if part.needs_second_phase and not part.is_of_chunks]:
                    # Their rows were not kept. What this try has written is never committed, and what it has kept is
                    # freed; the next one keeps more.
                    kept.close()
                    keeper = Keeper(kept)
                    name = replace(name, attempt=uuid.uuid4().hex)
                    self._large |= {id(part.sink) for part in unkept}
                    parts, read = self._write(name, tasks, wanted, keeper)
                self._large -= {id(part.sink) for part in parts}
                self._large |= {id(part.sink) for part in parts if part.needs_second_phase}
            early = finish_parts(parts, name, keeper, self._routes)
        reports = tuple((part.sink, part.reports) for part in parts)
        return WrittenBatch(name=name, reports=reports, read=read, early=early)

    def _write(
        self, name: BatchAttempt, tasks: Sequence[RangeTask], wanted: Sequence[Route], keeper: Keeper
    ) -> tuple[list[Part], dict[str, ReadCount]]:
        """Run the job; the parts of the batch, and how much was read of each topic."""
        kept = [number for number, route in enumerate(wanted) if id(route.sink) in self._large]
        with row_folder(self._session) as folder:
            task, count = self._task(name, tasks, wanted, kept, folder), self._task_count(tasks, wanted)
            frame: DataFrame | None = None
            if kept:
                numbers = self._session.range(0, len(tasks), 1, count)
                frame = keeper.keep(map_in_arrow(numbers, task, NATIVE_ROWS))
                rows = frame.where(f.col(WRITER) == OF_REPORT).toArrow()
                ranges = range_reports(map(pickle.loads, rows.column(CHUNK).to_pylist()), folder)
            else:
                # No DataFrame: it would copy reports into the JVM's rows and back to Arrow, and takes longer to plan.
                reports = carried(task.reports, self._session.sparkContext)
                ranges_alone = self._session.sparkContext.parallelize(range(len(tasks)), count)
                ranges = range_reports(ranges_alone.mapPartitions(reports).collect(), folder)
        self._prove_read(tasks, ranges)
        parts = []
        for number, route in enumerate(wanted):
            part = Part(route.sink, None, tuple(range_report.reports[number] for range_report in ranges))
            if frame is not None and number in kept:
                part.output, part.is_of_chunks = frame.where(f.col(WRITER) == number), True
            parts.append(part)
        return parts, read_by_topic(
            (tasks[range_report.number].range.topic, range_report.read) for range_report in ranges
        )

    def _task(
        self,
        name: BatchAttempt,
        tasks: Sequence[RangeTask],
        wanted: Sequence[Route],
        kept: Sequence[int],
        folder: RowFolder | None,
    ) -> NativeTask:
        """What the tasks run."""
        # The driver gets the rows that all ranges hold for all sinks at once, so they share the limit.
        sharing = len(tasks) * len(wanted)
        return NativeTask(
            tasks=tuple(tasks),
            transform=self._transform,
            schemas=self._schemas,
            writers=tuple((route.output, self._writer(route, name, task_count=sharing)) for route in wanted),
            dead_letters=self._dead_letters,
            kept=tuple(kept),
            folder=folder.path if folder else None,
        )

    def _task_count(self, tasks: Sequence[RangeTask], wanted: Sequence[Route]) -> int:
        """How many tasks there are; one that has several ranges does them one after the other."""
        limits = [route.sink.capabilities.writers_max for route in wanted]
        parallelism = self._session.sparkContext.defaultParallelism
        ranges = [range_task.range for range_task in tasks]
        count = task_count(ranges, parallelism=parallelism, min_partitions=self._min_partitions)
        return max(1, min([count, *(limit for limit in limits if limit is not None)]))

    def _writer(self, route: Route, name: BatchAttempt, *, task_count: int) -> TaskWriter:
        schema = schema_for(route.sink, self._outputs[route.output])
        writer = route.sink.task_writer(name, schema, task_count=task_count)
        return JsonTextsWriter(writer, schema) if any(map(is_json, schema)) else writer

    @staticmethod
    def _prove_read(tasks: Sequence[RangeTask], ranges: Sequence[RangeReport]) -> None:
        """Raise if a range has no report: a task reports one only when it has read it to its end."""
        done = {range_report.number for range_report in ranges}
        if unread := tuple(str(task.range) for number, task in enumerate(tasks) if number not in done):
            raise RangeNotReadError(ranges=unread)


class _Shared(TypedDict):
    payloads: Payloads
    min_partitions: int | None


#: Puts a writer around another one, which it is given together with the same pipeline's writer by Spark.
Around = Callable[[RangesWriter, BatchWriter], RangesWriter]


def make_writers(
    session: SparkSession,
    source: SourceOptions,
    transform: Transform,
    routes: Sequence[Route],
    *,
    execution: str,
    around: Around | None = None,
) -> tuple[RunWriters[RangesWriter], str]:
    """The writers of a run under the direct engine, and a remark for the user on who carries its rows.

    Args:
        session: the pipeline's own.
        source: its source's options.
        transform: what becomes of the records.
        routes: which output goes where.
        execution: ``"auto"``, or ``"spark"`` for Spark in any case.
        around: puts another writer around each; None: none does.
    """
    remark = ""
    if not isinstance(transform, ArrowTransform):
        remark = "rows pass through Spark: its transform is a query or a function over DataFrames"
    elif execution == "spark":
        remark = 'rows pass through Spark: execution = "spark" says so'

    def make(payloads: Payloads) -> RangesWriter:
        sample = records_frame(session, (), source.columns, payloads=payloads)
        shared: _Shared = {"payloads": payloads, "min_partitions": source.min_partitions}
        by_spark = BatchWriter(sample, transform, routes, **shared)
        writer: RangesWriter = by_spark
        if isinstance(transform, ArrowTransform) and not remark:
            writer = NativeWriter(session, arrow_schema(sample), transform, routes, by_spark=by_spark, **shared)
        return writer if around is None else around(writer, by_spark)

    writers = RunWriters(make(source.payloads), payloads=source.payloads, make=make)
    return writers, remark or "rows stay in the Python workers that read them"
