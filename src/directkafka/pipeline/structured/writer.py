"""Step 3 under Structured Streaming: a micro-batch's DataFrame through a transform into rows that nobody sees yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame

from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.pipeline.execution.batch_writer import BatchWriter, Written
from directkafka.pipeline.execution.executor_errors import from_executor
from directkafka.pipeline.execution.kept import Keeper
from directkafka.pipeline.execution.routes import Binding
from directkafka.pipeline.execution.transform import PythonTransform, Transform
from directkafka.sinks.api import BatchName

__all__ = ["AS_IT_IS", "MicroBatchWriter"]


def _same(frame: DataFrame) -> DataFrame:
    return frame


#: For a query whose rows go to the sinks as they are.
AS_IT_IS = PythonTransform(_same, "as it is")


class MicroBatchWriter(BatchWriter):
    """Writes what Spark hands to ``foreachBatch``.

    Spark's plan has read the source and updated the query's state by the time its rows are computed. Every batch
    is therefore run, once where possible: with several sinks it is kept, and one that is committed already is
    run into nothing. A query with state could not load it for batch N+1 if N were passed over.

    Args:
        frame: the first micro-batch; later ones have its columns.
        transform: what becomes of each batch.
        bindings: which output goes where.
    """

    def __init__(self, frame: DataFrame, transform: Transform, bindings: Sequence[Binding]) -> None:
        super().__init__(frame.sparkSession, transform, bindings, columns=frame.columns)
        self._frame = frame

    def source(self, tasks: Sequence[RangeTask], attempt: str) -> DataFrame:
        """The batch at hand."""
        return self._frame

    def kept_source(self, source: DataFrame, keeper: Keeper) -> DataFrame:
        """Computed once: the user's plan, which may not give the same twice."""
        return keeper.keep(source)

    def write_frame(self, name: BatchName, frame: DataFrame, *, stores: Collection[str]) -> Written:
        """Transform and write one micro-batch, for the stores that lack it.

        Raises:
            TransformError: the transform failed, or gives other columns than for the first batch.
            DirectKafkaError: what a task met, with its fields.
        """
        self._frame = frame
        return self.write(name, (), stores=stores)

    def run_into_nothing(self, frame: DataFrame) -> None:
        """Compute a batch for what Spark keeps of it, and drop its rows.

        Raises:
            DirectKafkaError: what a task met.
        """
        try:
            frame.write.format("noop").mode("overwrite").save()
        except Exception as error:
            raise from_executor(error) from error
