"""Step 3 of a batch: from ranges through the transform to rows that are written and not yet visible.

The source is computed once: with several sinks it is persisted, and every task of it proves that it read its
range to the end, through an accumulator that is filed by attempt, so that a task that ran twice counts once.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from directkafka.errors import OptionError, RangeNotReadError, TransformError
from directkafka.kafka.range_task import RangeTask
from directkafka.pipeline.executor_errors import from_executor
from directkafka.pipeline.transform import Transform, apply_transform, remarks
from directkafka.pipeline.write_task import ProofUnion, WriteTask
from directkafka.sources.frame import records_frame
from directkafka.stores.base import BatchName, Sink, Store, TaskReport

__all__ = ["BatchWriter", "Binding", "Written"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One of the transform's outputs, by name, into one sink."""

    output: str
    sink: Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the tasks of one batch wrote.

    Attributes:
        name: the try of the batch.
        reports: per binding, the reports of its tasks.
        record_count: records read from Kafka.
    """

    name: BatchName
    reports: tuple[tuple[Sink, tuple[TaskReport, ...]], ...]
    record_count: int

    def for_store(self, store: Store) -> list[tuple[Sink, BatchName, Sequence[TaskReport]]]:
        """The part that goes into one store's transaction."""
        return [(sink, self.name, reports) for sink, reports in self.reports if sink.store.identity == store.identity]


class BatchWriter:
    """Turns planned ranges into written rows, batch after batch.

    Args:
        session: the pipeline's own session.
        transform: what becomes of the records.
        bindings: which output goes where.
        columns: names of the source's columns.
    """

    def __init__(
        self, session: SparkSession, transform: Transform, bindings: Sequence[Binding], *, columns: Sequence[str]
    ) -> None:
        self._session = session
        self._transform = transform
        self._bindings = tuple(bindings)
        self._columns = tuple(columns)
        self._proofs = session.sparkContext.accumulator({}, ProofUnion())
        self._schemas: tuple[pa.Schema, ...] = ()

    def check(self) -> tuple[str, ...]:
        """Compile the transform, and have every sink look at its columns; nothing is made or changed.

        Returns:
            Remarks on the plans for the user.

        Raises:
            TransformError, SchemaMismatchError: see there.
            OptionError: a sink asks for an output that the transform does not give.
        """
        outputs = self._outputs(())
        notes = remarks(outputs, store_count=len({binding.sink.store.identity for binding in self._bindings}))
        self._schemas = tuple(_arrow_schema(outputs[binding.output]) for binding in self._bindings)
        for binding, schema in zip(self._bindings, self._schemas, strict=True):
            binding.sink.check(schema)
        return notes

    def prepare(self) -> None:
        """Make what tables are not there, for the columns that :meth:`check` found.

        Raises:
            SchemaMismatchError: see :meth:`~directkafka.stores.base.Sink.prepare`.
        """
        for binding, schema in zip(self._bindings, self._schemas, strict=True):
            binding.sink.prepare(schema)

    def write(self, name: BatchName, tasks: Sequence[RangeTask]) -> Written:
        """Read, transform and write one batch.

        Raises:
            RangeNotReadError: the transform ended a range early.
            TransformError: the transform failed on an executor, or gives other columns than when it was checked.
            DirectKafkaError: what a task met, with its fields.
        """
        self._proofs.value = {}
        with ExitStack() as persisted:
            try:
                reports = self._write_all(name, tasks, persisted)
            except Exception as error:
                raise from_executor(error) from error
        # A copy, made in one step: a task of an earlier attempt may still report while we look.
        proofs = dict(self._proofs.value)
        proven = {place: count for (attempt, place), count in proofs.items() if attempt == name.attempt}
        if unread := _unread(tasks, proven):
            raise RangeNotReadError(ranges=unread)
        return Written(name=name, reports=reports, record_count=sum(proven.values()))

    def _write_all(
        self, name: BatchName, tasks: Sequence[RangeTask], persisted: ExitStack
    ) -> tuple[tuple[Sink, tuple[TaskReport, ...]], ...]:
        outputs = self._outputs(tasks, name.attempt, persisted)
        return tuple(
            (binding.sink, self._write_one(outputs[binding.output], binding, schema, name, len(tasks)))
            for binding, schema in zip(self._bindings, self._schemas, strict=True)
        )

    def _outputs(
        self, tasks: Sequence[RangeTask], attempt: str = "", persisted: ExitStack | None = None
    ) -> dict[str, DataFrame]:
        source = self.source(tasks, attempt)
        used = [binding.output for binding in self._bindings]
        if persisted is not None and len(set(used)) > 1:
            source = _persist(source, persisted)
        outputs = apply_transform(self._transform, source, self._session)
        for output in sorted(set(used)):
            if output not in outputs:
                raise OptionError(
                    option="sink.from",
                    reason=f"the transform has no output {output!r}; it has {', '.join(sorted(outputs))}",
                )
            if persisted is not None and used.count(output) > 1:
                outputs[output] = _persist(outputs[output], persisted)
        return outputs

    def source(self, tasks: Sequence[RangeTask], attempt: str) -> DataFrame:
        """What the transform is given; the structured engine has it from Spark instead."""
        return records_frame(self._session, tasks, self._columns, attempt=attempt, proof=self._proofs)

    def _task_count(self, range_count: int) -> int:
        """At most so many tasks write, unless the transform asks Spark for more by itself."""
        return max(range_count, int(self._session.conf.get("spark.sql.shuffle.partitions") or 1))

    def _write_one(
        self, output: DataFrame, binding: Binding, schema: pa.Schema, name: BatchName, range_count: int
    ) -> tuple[TaskReport, ...]:
        if _columns(found := _arrow_schema(output)) != _columns(schema):
            raise TransformError(
                source=f"output {binding.output!r}",
                cause=f"it gives other columns than when the pipeline started: [{_named(found)}], not "
                f"[{_named(schema)}]; the columns must not depend on a batch's records",
            )
        sink = binding.sink
        writers_max = getattr(sink, "writers_max", None)
        if writers_max is not None and self._session.sparkContext.defaultParallelism > writers_max:
            output = output.coalesce(writers_max)
        writer = sink.task_writer(name, schema, task_count=self._task_count(range_count))
        # Reports may carry rows: as Arrow they come to the driver in half the time that Row objects take.
        reports = output.mapInArrow(WriteTask(writer), "report binary").toArrow()
        return tuple(pickle.loads(report) for report in reports.column("report").to_pylist())


def _persist(frame: DataFrame, persisted: ExitStack) -> DataFrame:
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    persisted.callback(_unpersist, frame)
    return frame


def _unpersist(frame: DataFrame) -> None:
    """Free the blocks; a Spark that is gone has none, and must not hide why it is."""
    with suppress(Py4JError):
        frame.unpersist()


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _unread(tasks: Sequence[RangeTask], proven: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(str(task.range) for task in tasks if str(task.range) not in proven)
