"""The writer of one output into one sink: by tasks, or by the driver where all rows come to it anyway.

Tasks are Python processes: a row goes from the JVM to one of them, and what a task holds goes back through the JVM to
the driver. While batches are small, all rows come that way, and Spark can bring them to the driver itself, in a third
less time. What a batch will give is not known before it is computed, so it is taken from the last one: if all of its
rows came to the driver, those of a batch with up to :data:`GROWTH` times as many records are expected to as well. The
driver then does what a task does, with the same writer.

Sequences of events that the rule must stand: a batch of few records is followed by one of many: it goes by tasks. A
transform gives one row a record, and then, at once, thousands: Spark refuses to bring more than
``spark.driver.maxResultSize`` to the driver, before it does, and the batch is computed again by tasks; so is one that
is more than the sink may hold. Where Spark is told to bring any size, none is brought. A batch that failed on this way
is tried again by tasks.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from directkafka.errors import SchemaMismatchError, TransformError
from directkafka.pipeline.execution.executor_errors import too_much_for_driver
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.write_task import PART, WriteTask, reports_of
from directkafka.sinks.api import BatchAttempt, Sink, TaskReport, TaskWriter
from directkafka.sinks.databases import is_json, json_problems, with_json
from directkafka.spark.dataframe import map_in_arrow

#: Spark would leave null fields out, and cut timestamps off at milliseconds.
_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]xxx",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """A frame's columns as its rows come to Python."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


def wanted_schema(sink: Sink, frame: DataFrame) -> pa.Schema:
    """The columns that the sink is to be given, with a mark on those that are JSON texts.

    Raises:
        SchemaMismatchError: a column to be JSON has a map whose keys have no form as texts.
    """
    schema = arrow_schema(frame)
    names = sink.json_columns(schema)
    if problems := json_problems(schema, names):
        raise SchemaMismatchError(store=sink.store.identity, sink=sink.name, detail="; ".join(problems))
    return with_json(schema, names)


def with_json_texts(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The frame with JSON in the place of the columns that :func:`wanted_schema` has marked."""
    names = [field.name for field in schema if is_json(field)]
    return frame.withColumns({name: f.to_json(f.col(f"`{name.replace('`', '``')}`"), _OPTIONS) for name in names})


#: How many times as many records as the last batch a batch may have, and still be expected to be small.
GROWTH: Final = 2

#: The most that Spark brings to the driver, 0 being no limit.
_RESULT_SIZE: Final = "spark.driver.maxResultSize"


class OutputWriter:
    """Writes one of the transform's outputs into one sink.

    Args:
        session: the pipeline's own.
        binding: which output goes where.
        schema: the columns that the sink was prepared for.
    """

    def __init__(self, session: SparkSession, route: Route, schema: pa.Schema) -> None:
        self.route = route
        self.schema = schema
        self._session = session
        #: Up to so many records, the rows of the next batch are expected to fit the driver.
        self._expected_max = 0

    @property
    def sink(self) -> Sink:
        """Where the rows go."""
        return self.route.sink

    def write(
        self, output: DataFrame, name: BatchAttempt, *, range_count: int, record_count: int
    ) -> tuple[TaskReport, ...]:
        """Compute the output, and write its rows where nobody sees them, or hold them.

        Args:
            output: the batch's rows.
            name: the try of the batch.
            range_count: how many ranges of Kafka's partitions are read.
            record_count: how many records these have at most; 0: not known.

        Raises:
            TransformError: the output has other columns than when the pipeline started.
            Exception: what Spark makes of a failed task.
        """
        output = with_json_texts(output, self.schema)
        self._check_columns(arrow_schema(output))
        reports = self._by_driver(output, name) if 0 < record_count <= self._expected_max else None
        if reports is None:
            reports = self._by_tasks(output, name, range_count)
        self._expected_max = GROWTH * record_count if self._bytes_max and _all_held(reports) else 0
        return reports

    @cached_property
    def _bytes_max(self) -> int:
        """How much the driver may hold of a batch: what the sink says, and nothing where Spark would bring any size.

        Spark's settings are copied to be asked, one call into the JVM for each: once is enough.
        """
        is_bounded = self._session.sparkContext.getConf().get(_RESULT_SIZE, "1g") != "0"
        return self.sink.capabilities.inline_bytes_max if is_bounded else 0

    def _by_driver(self, output: DataFrame, name: BatchAttempt) -> tuple[TaskReport, ...] | None:
        """As if there were one task, and it were the driver; None when the rows are too many for it."""
        self._expected_max = 0
        try:
            rows = output.toArrow()
        except Exception as error:
            if too_much_for_driver(error):
                return None
            raise
        if rows.nbytes > self._bytes_max:
            return None
        return (self._writer(name, task_count=1)(iter(rows.to_batches())),)

    def _by_tasks(self, output: DataFrame, name: BatchAttempt, range_count: int) -> tuple[TaskReport, ...]:
        writers_max = self.sink.capabilities.writers_max
        if writers_max is not None and self._session.sparkContext.defaultParallelism > writers_max:
            # Where rows are kept, each of the fewer tasks is given those that lie near to it, in any order.
            output = output.withColumn(PART, f.spark_partition_id()).coalesce(writers_max)
        # At most so many tasks write, unless the transform asks Spark for more by itself.
        task_count = max(range_count, int(self._session.conf.get("spark.sql.shuffle.partitions") or 1))
        task = WriteTask(self._writer(name, task_count=task_count))
        # Reports may carry rows: as Arrow they come to the driver in half the time that Row objects take.
        return reports_of(map_in_arrow(output, task, "report binary").toArrow())

    def _writer(self, name: BatchAttempt, *, task_count: int) -> TaskWriter:
        return self.sink.task_writer(name, self.schema, task_count=task_count)

    def _check_columns(self, found: pa.Schema) -> None:
        if _columns(found) != _columns(self.schema):
            raise TransformError(
                source=f"output {self.route.output!r}",
                cause=f"it gives other columns than when the pipeline started: [{_named(found)}], not "
                f"[{_named(self.schema)}]; the columns must not depend on a batch's records",
            )


def _all_held(reports: tuple[TaskReport, ...]) -> bool:
    """Whether there were rows, and each of them came to the driver: none was staged or folded into another one."""
    rows = sum(report.rows for report in reports)
    inline = sum(batch.num_rows for report in reports for batch in report.inline)
    return bool(0 < rows == inline)


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
