"""``DataFrame.mapInArrow`` for an installation without pandas: the one place that gives Spark an Arrow function.

PySpark 4.2 and 4.3 make every such function with ``pandas_udf``, which asks for pandas 2.2 or newer before it looks at
what kind of function it gets. Functions over Arrow batches never see a pandas object, neither here nor in Spark's
workers. So the function is made with the class that ``pandas_udf`` uses in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

__all__ = ["BatchFunction", "map_in_arrow"]

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
    of_columns = UserDefinedFunction(function, returnType=schema, evalType=kind)
    column: Any = of_columns(*(frame[f"`{name.replace('`', '``')}`"] for name in frame.columns))
    inner: Any = frame
    return DataFrame(inner._jdf.mapInArrow(column._jc, barrier, None), frame.sparkSession)
