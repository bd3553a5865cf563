"""What is committed in a directory of files, as a DataFrame."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_parquet"]


def read_parquet(spark: SparkSession, path: str | os.PathLike[str], table: str | None = None) -> DataFrame:
    """The committed rows of a :class:`~directkafka.sinks.parquet.ParquetSink`'s directory, whatever its format.

    The files are listed once, from one slot of the directory's log: every action on the DataFrame reads the same
    rows, whole batches of them, while pipelines go on writing.

    Args:
        spark: the session.
        path: the directory; executors see it under the same path.
        table: the sub-folder; None: the directory itself.

    Raises:
        OptionError: the path is a URL.
        SchemaMismatchError: no such table was ever made there, or the log's format is newer than this program.
        StoreAccessError, StoreUnavailableError: the directory cannot be read.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from directkafka.sinks.parquet import committed_files

    found = committed_files(path, table)
    schema = from_arrow_schema(found.schema)
    if not found.paths:
        return spark.createDataFrame([], schema)
    # A path is taken for a glob pattern, and this is what it is not.
    paths = [one.as_uri() for one in found.paths]
    return spark.read.schema(schema).option("__globPaths__", "false").format(found.format).load(paths)
