"""Files of a checkpoint through Hadoop's file system, as Spark writes them: in every place that Spark can use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from directkafka.errors import EnvironmentFaultError
from directkafka.pipeline.structured.checkpoint import Checkpoint

T = TypeVar("T")


def checkpoint_at(session: SparkSession, location: str) -> Checkpoint:
    """A checkpoint of a query of Spark's.

    Args:
        session: whose Hadoop settings count.
        location: the folder as given to Spark, in any form that Spark takes.
    """
    return Checkpoint(HadoopFiles(session, location))


class HadoopFiles:
    """A folder; the arguments are those of :func:`checkpoint_at`."""

    def __init__(self, session: SparkSession, location: str) -> None:
        self.location = location
        jvm: Any = session._jvm
        self._jvm = jvm
        self._root: Any = self._ask(lambda: jvm.org.apache.hadoop.fs.Path(location))
        settings: Any = session._jsparkSession.sessionState().newHadoopConf()
        self._files = self._ask(lambda: self._root.getFileSystem(settings))

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder below this one, sorted."""
        path = self._jvm.org.apache.hadoop.fs.Path(self._root, folder)
        return sorted(str(status.getPath().getName()) for status in self._ask(lambda: self._listed(path)))

    def read(self, name: str) -> str | None:
        """A file's text; None where there is none."""
        path = self._jvm.org.apache.hadoop.fs.Path(self._root, name)
        return self._ask(lambda: self._text(path))

    def _listed(self, path: Any) -> list[Any]:
        return list(self._files.listStatus(path)) if self._files.exists(path) else []

    def _text(self, path: Any) -> str | None:
        if not self._files.exists(path):
            return None
        with closing(self._files.open(path)) as stream:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))

    def _ask(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Py4JJavaError as error:
            raise EnvironmentFaultError(
                what=f"the checkpoint {self.location} cannot be read: {error.java_exception.toString()}",
                remedy="Check the path, and the rights and Hadoop settings of this Spark application.",
            ) from error
