"""Frames that are computed once, however often they are used and whatever is lost meanwhile.

Spark's ``persist`` promises less: it keeps blocks, and computes again what was lost. Sequence of events: a transform
takes a random number; its good rows are written from the blocks; an executor dies, and blocks with it; its rejected
rows are read, and Spark makes the missing blocks anew, with other numbers. Some records are then in both places, and
others in neither. The same happens when somebody calls ``spark.catalog.clearCache()``.

A frame is therefore cut off from what it was made of (``localCheckpoint``), in a job of its own, before anything else
reads it: until that job is over nobody has seen its rows, and afterwards a lost block is a failed job. The batch is
then redone as a whole, under another attempt.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame

__all__ = ["Keeper"]

_LEVEL: Final = StorageLevel.MEMORY_AND_DISK_DESER


class Keeper:
    """Keeps frames until a batch is written.

    Args:
        until: what is to be freed is freed when it is closed.
    """

    def __init__(self, until: ExitStack) -> None:
        self._until = until
        self._kept: list[DataFrame] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        """The frame's rows, computed now, and never again.

        Raises:
            Exception: what Spark makes of a failed task.
        """
        kept = frame.localCheckpoint(eager=True, storageLevel=_LEVEL)
        self._kept.append(kept)
        self._until.callback(_free, kept)
        return kept

    def spare(self, frame: DataFrame) -> DataFrame:
        """A frame that gives the same rows whenever it is computed, kept to spare the work."""
        frame.persist(_LEVEL)
        self._until.callback(_unpersist, frame)
        return frame

    def holds(self, frame: DataFrame) -> bool:
        """Whether this very frame is one that is kept."""
        return any(frame is one for one in self._kept)


def _free(kept: DataFrame) -> None:
    """Free the blocks now, and not when the JVM collects its garbage; ``unpersist`` of such a frame does nothing."""
    with suppress(Py4JError):  # a Spark that is gone has none, and must not hide why it is
        kept._jdf.queryExecution().analyzed().rdd().unpersist(False)


def _unpersist(frame: DataFrame) -> None:
    with suppress(Py4JError):
        frame.unpersist()
