"""The writer of one output into one sink: by tasks, or by the driver when all rows come to the driver anyway.

Tasks are Python processes: rows go from the JVM to a task, and the rows that a task holds go back through the JVM to
the driver. While batches are small, all rows go this way, and Spark can bring them to the driver directly, in a third
less time. How many rows a batch will give is not known before it is computed, so the last batch decides: if all of its
rows came to the driver, a batch with up to :data:`GROWTH` times as many records goes to the driver directly. There the
same writer runs as in a task.

Sequences of events that this must handle: A batch of few records is followed by one of many: tasks write that one. A
transform gives one row per record, and then suddenly thousands: Spark refuses to bring more than
``spark.driver.maxResultSize`` to the driver, and tasks compute the batch again; also if it is more than the sink lets
the driver hold. If that setting is 0 (no limit), only tasks write. If the driver fails to write a batch, tasks write at
the next try.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from directkafka.errors import SchemaMismatchError, TransformError
from directkafka.pipeline.execution.dead_letters import is_surely_empty
from directkafka.pipeline.execution.executor_errors import too_much_for_driver
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.session import application_setting, row_folder
from directkafka.pipeline.execution.write_task import PART, WriteTask, reports_of
from directkafka.sinks.api import BatchAttempt, Sink, TaskReport, TaskWriter
from directkafka.sinks.databases import is_json, json_problems, with_json
from directkafka.spark.dataframe import arrow_schema, map_in_arrow

#: Options of ``to_json``: by default, Spark leaves null fields out, cuts timestamps to milliseconds, and writes them in
#: the session's time zone.
_OPTIONS = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]xxx",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}


def schema_for(sink: Sink, schema: pa.Schema) -> pa.Schema:
    """The columns that a sink is given, where an output has those of ``schema``; what comes as JSON is marked.

    Raises:
        SchemaMismatchError: a column that is to become JSON has a map whose keys cannot be written as text.
    """
    names = sink.json_columns(schema)
    if problems := json_problems(schema, names):
        raise SchemaMismatchError(store=sink.store.identity, sink=sink.name, detail="; ".join(problems))
    return with_json(schema, names)


def with_json_texts(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The frame with JSON in the place of the columns that are marked so."""
    names = [field.name for field in schema if is_json(field)]
    return frame.withColumns({name: f.to_json(f.col(f"`{name.replace('`', '``')}`"), _OPTIONS) for name in names})


#: A batch may have up to this many times as many records as the last one, and still be expected to be small.
GROWTH: Final = 2

#: The most that Spark brings to the driver.
_RESULT_SIZE: Final = "spark.driver.maxResultSize"


def bounds_results(size: str | None) -> bool:
    """Whether ``spark.driver.maxResultSize`` of this value is a limit: Spark takes "0g" as it takes "0", for none.

    Args:
        size: None where the application was told nothing; Spark's default is a limit.
    """
    return size is None or re.fullmatch(r"-.*|0+[a-z]*", size.strip().lower()) is None


class OutputWriter:
    """Writes one of the transform's outputs into one sink.

    Args:
        session: the pipeline's own session.
        route: the output and its sink.
        schema: the columns that the sink was prepared for.
    """

    def __init__(self, session: SparkSession, route: Route, schema: pa.Schema) -> None:
        self.route = route
        self.schema = schema
        self._session = session
        #: If the next batch has at most this many records, its rows are expected to fit the driver.
        self._expected_max = 0

    @property
    def sink(self) -> Sink:
        """Where the rows go."""
        return self.route.sink

    def write(
        self, output: DataFrame, name: BatchAttempt, *, range_count: int, record_count: int
    ) -> tuple[TaskReport, ...]:
        """Compute the output, and write its rows where no reader sees them, or hold them in the reports.

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
        # Of most batches; for other outputs the look at the plan would cost more than it saves.
        if self.route.output == DEAD_LETTERS and is_surely_empty(output):
            return (self._writer(name, task_count=1)(iter(())),)
        reports = self._by_driver(output, name) if 0 < record_count <= self._expected_max else None
        if reports is None:
            reports = self._by_tasks(output, name, range_count)
        self._expected_max = GROWTH * record_count if record_count and self._bytes_max and _all_held(reports) else 0
        return reports

    @cached_property
    def _bytes_max(self) -> int:
        """Most bytes of a batch that the driver may hold: the sink's limit, or 0 where Spark itself has no limit."""
        is_bounded = bounds_results(application_setting(self._session, _RESULT_SIZE))
        return self.sink.capabilities.inline_bytes_max if is_bounded else 0

    def _by_driver(self, output: DataFrame, name: BatchAttempt) -> tuple[TaskReport, ...] | None:
        """Write on the driver, as if it were the only task; None when the rows are too many for the driver."""
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
            # Of rows that are kept, coalesce() gives a task the partitions near to it, in any order: PART names them.
            output = output.withColumn(PART, f.spark_partition_id()).coalesce(writers_max)
        # No more tasks than this write, unless the transform itself repartitions into more.
        task_count = max(range_count, int(self._session.conf.get("spark.sql.shuffle.partitions") or 1))
        with row_folder(self._session) as folder:
            task = WriteTask(self._writer(name, task_count=task_count), folder.path if folder else None)
            # Reports may carry rows: as Arrow they come to the driver in half the time that Row objects take.
            return reports_of(map_in_arrow(output, task, "report binary").toArrow(), folder)

    def _writer(self, name: BatchAttempt, *, task_count: int) -> TaskWriter:
        return self.sink.task_writer(name, self.schema, task_count=task_count)

    def _check_columns(self, schema: pa.Schema) -> None:
        if _columns(schema) != _columns(self.schema):
            raise TransformError(
                source=f"output {self.route.output!r}",
                cause=f"it gives other columns than when the pipeline started: [{_named(schema)}], not "
                f"[{_named(self.schema)}]; the columns must not depend on a batch's records",
            )


def _all_held(reports: tuple[TaskReport, ...]) -> bool:
    """Whether there were rows, and each of them came to the driver: none was staged or folded into another one."""
    rows = sum(report.rows for report in reports)
    return 0 < rows == sum(report.held_count for report in reports)


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
