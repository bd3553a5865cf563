"""The committed files of a directory: a list that does not change any more, a dataset, a DataFrame."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from directkafka.errors import SchemaMismatchError
from directkafka.sinks.files.store import FilesStore

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

#: The table that lies in the directory itself.
ROOT: Final = "."

#: What Spark would take for a part of a pattern in a path.
_PATTERN_CHARACTER: Final = re.compile(r"[\\*?\[\]{}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFiles:
    """What is committed in a table of files, as of one slot of its directory's log. It does not change any more.

    Attributes:
        format: ``parquet``, ``json`` or ``text``.
        schema: the table's columns; a file may lack those that were added after it.
        paths: the files, in the order in which they were committed.
        rows: how many they have, as the log says.
    """

    format: str
    schema: pa.Schema
    paths: tuple[Path, ...]
    rows: int

    def dataset(self) -> ds.Dataset:
        """The rows as an Arrow dataset.

        Raises:
            ValueError: the files are text, which Arrow has no dataset for.
        """
        if self.format == "text":
            raise ValueError("Arrow has no dataset for lines of text: read the paths")
        # Not above: it imports pandas, for which a driver that only writes has no use.
        import pyarrow.dataset as ds

        return ds.dataset([str(path) for path in self.paths], schema=self.schema, format=self.format)


def committed_files(path: str | os.PathLike[str], table: str | None = None) -> CommittedFiles:
    """List what is committed in a :class:`FilesSink`'s directory; needs no Spark.

    Args:
        path: the directory.
        table: the sub-folder; None: the directory itself.

    Raises:
        OptionError: the path is a URL.
        SchemaMismatchError: no such table was ever made there, or the log's format is newer than this program.
        StoreAccessError, StoreUnavailableError: the directory cannot be read.
    """
    return committed_in(FilesStore(path), table or ROOT)


def committed_in(store: FilesStore, table: str) -> CommittedFiles:
    """The same for a store that is open."""
    columns, files = store.files(table)
    if columns is None:
        raise SchemaMismatchError(store=store.label, sink=table, detail="there is no such table in the directory's log")
    return CommittedFiles(
        format=columns.format,
        schema=columns.schema,
        paths=tuple(store.folder / table / file.name for file in files),
        rows=sum(file.rows for file in files),
    )


def read_parquet(spark: SparkSession, path: str | os.PathLike[str], table: str | None = None) -> DataFrame:
    """The committed rows of a :class:`~directkafka.sinks.files.sink.FilesSink`'s directory, whatever its format.

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

    files = committed_files(path, table)
    schema = from_arrow_schema(files.schema)
    if not files.paths:
        return spark.createDataFrame([], schema)
    # Without the scheme, a cluster's default file system would be asked.
    paths = ["file:" + _PATTERN_CHARACTER.sub(r"\\\g<0>", str(path)) for path in files.paths]
    return spark.read.schema(schema).format(files.format).load(paths)
