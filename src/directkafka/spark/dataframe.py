"""DataFrames of given offset ranges, and ``DataFrame.mapInArrow`` without pandas.

PySpark 4.2 and 4.3 wrap the function of ``mapInArrow`` with ``pandas_udf``, which requires pandas 2.2 or newer before
it looks at what kind of function it gets. Functions over Arrow batches never see a pandas object, neither here nor in
Spark's workers. So this module makes the function with the class that ``pandas_udf`` itself uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange
from directkafka.options.payloads import Payloads
from directkafka.options.read_policy import HEADERS, RECORD_COLUMNS
from directkafka.planning.starts import checked_ranges
from directkafka.spark.large_functions import carried, lasting_functions
from directkafka.spark.read_task import Proof, ReadRanges
from directkafka.spark.schema import record_schema
from directkafka.spark.source_cluster import tasks_of_ranges

#: What is run in each task: from the task's Arrow batches to others.
BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(
    frame: DataFrame, function: BatchFunction, schema: StructType | str, *, barrier: bool = False
) -> DataFrame:
    """Run a function on each partition's Arrow batches. Nothing is computed yet.

    Args:
        frame: a DataFrame of a session in this process, not of Spark Connect.
        function: what each task runs; it is pickled.
        schema: the columns that it gives.
        barrier: whether all tasks run at once, in a barrier stage.
    """
    # The constant's type differs between PySpark's versions; its value is an int in all.
    kind: Any = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    function = carried(function, frame.sparkSession.sparkContext)
    of_columns = UserDefinedFunction(function, returnType=schema, evalType=kind)
    column: Any = of_columns(*(frame[f"`{name.replace('`', '``')}`"] for name in frame.columns))
    inner: Any = frame
    return DataFrame(inner._jdf.mapInArrow(column._jc, barrier, None), frame.sparkSession)


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """A frame's columns as its rows come to Python."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def spark_schema(columns: pa.Schema) -> StructType:
    """Columns of Arrow as Spark has them."""
    return from_arrow_schema(columns)


def records_frame(
    session: SparkSession,
    tasks: Sequence[RangeTask],
    columns: Sequence[str],
    *,
    payloads: Payloads = (),
    attempt: str = "",
    proof: Proof | None = None,
    partition_count: int | None = None,
) -> DataFrame:
    """The records of the ranges in their order. Nothing is read yet.

    Args:
        session: where the DataFrame lives.
        tasks: the ranges.
        columns, payloads: names of the columns, and what values and keys are; the same as the tasks'.
        attempt, proof: see :class:`~directkafka.spark.read_task.ReadRanges`.
        partition_count: of the DataFrame; without it, partition ``i`` is ``tasks[i]``.
    """
    numbers = session.range(0, len(tasks), 1, max(1, partition_count or len(tasks)))
    return map_in_arrow(numbers, ReadRanges(tuple(tasks), attempt, proof), record_schema(columns, payloads))


@lasting_functions()
def create_dataframe(
    spark: SparkSession,
    kafka_params: Mapping[str, object],
    offset_ranges: Sequence[OffsetRange],
    *,
    include_headers: bool = False,
) -> DataFrame:
    """Exactly these ranges as a DataFrame: every action on it reads the same records.

    Before an action no record is read; the cluster is asked only for leaders and for the bounds of the logs.

    Args:
        spark: the session of the DataFrame.
        kafka_params: Kafka's dotted client names, as for a consumer.
        offset_ranges: what to read; partition ``i`` of the DataFrame is ``offset_ranges[i]``. See
            :meth:`directkafka.Cluster.offset_ranges`.
        include_headers: whether there is a column ``headers``.

    Returns:
        Spark's seven columns of a Kafka record, and ``headers`` when they are asked for.

    Raises:
        OptionError: ranges that overlap, or a client setting that is wrong.
        DataLossError: a range that is not, or not as a whole, in its log; names it with the log's own bounds.
        TopicNotFoundError: a topic that is not there.
    """
    ranges = checked_ranges(offset_ranges, option="offset_ranges")
    columns = (*RECORD_COLUMNS, *([HEADERS] if include_headers else []))
    tasks, _ = tasks_of_ranges(kafka_params, ranges, columns=columns)
    return records_frame(spark, tasks, columns)
