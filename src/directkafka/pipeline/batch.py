"""Step 3 of a batch: from ranges through the transform to rows that are written and not yet visible.

The source is computed once: with several sinks it is persisted, and every task of it proves that it read its
range to the end, through an accumulator that is filed by attempt, so that a task that ran twice counts once.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession

from directkafka.error_notes import from_note, with_note
from directkafka.errors import DirectKafkaError, OptionError, RangeNotReadError, TransformError, WorkerLostError
from directkafka.kafka.range_task import RangeTask
from directkafka.pipeline.transform import Transform, apply_transform, remarks
from directkafka.python_worker import freeze_imports
from directkafka.sources.frame import records_frame
from directkafka.stores.base import BatchName, Sink, Store, TaskReport, TaskWriter

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
        include_headers: whether the source has the column ``headers``.
    """

    def __init__(
        self, session: SparkSession, transform: Transform, bindings: Sequence[Binding], *, include_headers: bool
    ) -> None:
        self._session = session
        self._transform = transform
        self._bindings = tuple(bindings)
        self._include_headers = include_headers
        self._proofs = session.sparkContext.accumulator({}, _DictUnion())

    def prepare(self) -> tuple[str, ...]:
        """Before the first batch: compile the transform, check or create every sink's table.

        Returns:
            Remarks on the plans for the user.

        Raises:
            TransformError, SchemaMismatchError: see there.
            OptionError: a sink asks for an output that the transform does not give.
        """
        outputs = self._outputs(())
        for binding in self._bindings:
            binding.sink.prepare(_arrow_schema(outputs[binding.output]))
        return remarks(outputs, store_count=len({binding.sink.store.identity for binding in self._bindings}))

    def write(self, name: BatchName, tasks: Sequence[RangeTask]) -> Written:
        """Read, transform and write one batch.

        Raises:
            RangeNotReadError: the transform ended a range early.
            TransformError: the transform failed on an executor.
            DirectKafkaError: what a task met, with its fields.
        """
        self._proofs.value = {}
        with ExitStack() as persisted:
            outputs = self._outputs(tasks, name.attempt, persisted)
            reports = tuple(
                (binding.sink, self._write_one(outputs[binding.output], binding.sink, name, len(tasks)))
                for binding in self._bindings
            )
        proven = {place: count for (attempt, place), count in self._proofs.value.items() if attempt == name.attempt}
        unread = tuple(str(task.range) for task in tasks if str(task.range) not in proven)
        if unread:
            raise RangeNotReadError(ranges=unread)
        return Written(name=name, reports=reports, record_count=sum(proven.values()))

    def _outputs(
        self, tasks: Sequence[RangeTask], attempt: str = "", persisted: ExitStack | None = None
    ) -> dict[str, DataFrame]:
        source = records_frame(
            self._session, tasks, include_headers=self._include_headers, attempt=attempt, proof=self._proofs
        )
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

    def _task_count(self, range_count: int) -> int:
        """At most so many tasks write, unless the transform asks Spark for more by itself."""
        return max(range_count, int(self._session.conf.get("spark.sql.shuffle.partitions") or 1))

    def _write_one(self, output: DataFrame, sink: Sink, name: BatchName, range_count: int) -> tuple[TaskReport, ...]:
        writers_max = getattr(sink, "writers_max", None)
        if writers_max is not None and self._session.sparkContext.defaultParallelism > writers_max:
            output = output.coalesce(writers_max)
        writer = sink.task_writer(name, _arrow_schema(output), task_count=self._task_count(range_count))
        try:
            rows = output.mapInArrow(_WriteTask(writer), "report binary").collect()
        except Exception as error:
            raise _from_executor(error) from error
        return tuple(pickle.loads(row.report) for row in rows)


class _WriteTask:
    """A function for ``mapInArrow``: one task's rows become one report."""

    def __init__(self, writer: TaskWriter) -> None:
        self._writer = writer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_imports("write")
        try:
            report = self._writer(batches)
        except DirectKafkaError as error:
            raise with_note(error) from error.__cause__
        yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})


class _DictUnion(AccumulatorParam):  # type: ignore[type-arg]  # its type variable cannot name a dict's
    """Dicts that grow by union: adding the same proof twice changes nothing."""

    def zero(self, value: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        return {}

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: dict[tuple[str, str], int], value2: dict[tuple[str, str], int]
    ) -> dict[tuple[str, str], int]:
        value1.update(value2)
        return value1


def _persist(frame: DataFrame, persisted: ExitStack) -> DataFrame:
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    persisted.callback(frame.unpersist)
    return frame


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


#: What Spark says when a task did not fail but lost the process that ran it.
_LOST_SIGNS = ("Python worker exited unexpectedly", "ExecutorLostFailure", "worker was lost", "FetchFailed")


def _from_executor(error: Exception) -> DirectKafkaError:
    """What a task raised, if it was one of ours; a lost process; else the transform's failure."""
    text = str(error)
    ours = from_note(text)
    if ours is not None:
        return ours
    lines = [line.strip() for line in text.partition("\n\nJVM stacktrace")[0].splitlines() if line.strip()]
    lost = next((line for line in text.splitlines() for sign in _LOST_SIGNS if sign in line), None)
    if lost is not None:
        return WorkerLostError(cause=lost.strip())
    return TransformError(source="on an executor", cause=lines[-1] if lines else type(error).__name__)
