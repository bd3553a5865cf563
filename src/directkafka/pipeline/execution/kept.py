"""Frames that are computed once, however often they are used and whatever is lost meanwhile.

Spark's ``persist`` promises less: it keeps blocks, and computes again what was lost. Sequence of events: a transform
takes a random number; its good rows are written from the blocks; an executor dies, and blocks with it; its rejected
rows are read, and Spark makes the missing blocks anew, with other numbers. Some records are then in both places, and
others in neither. The same happens when somebody calls ``spark.catalog.clearCache()``.

A frame is therefore cut off from what it was made of (``localCheckpoint``), in a job of its own, before anything else
reads it: until that job is over nobody has seen its rows, and afterwards a lost block is a failed job. The batch is
then redone as a whole, under another attempt.

A block may also have two versions. Sequence of events: two attempts of one task run side by side (speculation; or a
shuffle file is lost, Spark begins the stage anew, and a task of the old stage runs on); each stores its rows on its own
executor; Spark keeps both, and each reader takes the one that is nearest. Spark 4.3 keeps one version of blocks that
are serialized, so they are. Spark 4.2 has no such guard, and 4.3 can be told to do without. So it is looked here:

1. The job is over, and none of its attempts runs any more: no further version will be made.
2. Each block is on one executor. That one version is what readers find.
3. Before the batch is committed, when all readers are done, each block is where it was. A version that Spark had lost
   sight of, and that came back meanwhile, is seen here.

Otherwise the batch is redone.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame

from directkafka.errors import WorkerLostError

#: Spark's checksums, by which it keeps one version of a block, are those of serialized blocks.
_LEVEL: Final = StorageLevel.MEMORY_AND_DISK
_SPARED_LEVEL: Final = StorageLevel.MEMORY_AND_DISK_DESER

#: A property of jobs: for which frame they run.
_PROPERTY: Final = "directkafka.keeps"

#: How long attempts that Spark has told to stop are waited for. A Python worker that does not hear it is killed after 2
#: seconds (``spark.python.task.killTimeout``).
_STOP_S: Final = 30.0
_LOOK_S: Final = 0.005

#: How Spark tells the locations of a block: ``rdd_7_0 -> List(executor_10.0.0.1_3)``.
_BLOCK: Final = re.compile(r"^(\w+) -> \w+\((.*)\)$", re.MULTILINE)
_LOCATION: Final = re.compile(r"[^\s,]+")


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Where a frame that is kept has its rows: for each block, the executors."""

    frame: DataFrame
    block_ids: Any
    executors: dict[str, frozenset[str]]


class Keeper:
    """Keeps frames until a batch is written.

    Args:
        until: what is to be freed is freed when it is closed.
    """

    def __init__(self, until: ExitStack) -> None:
        self._until = until
        self._kept: list[_Blocks] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        """The frame's rows, computed now, and never again.

        Raises:
            WorkerLostError: Spark lost some of them at once, or has two versions of some.
            Exception: what Spark makes of a failed task.
        """
        context = frame.sparkSession.sparkContext
        kept = frame.localCheckpoint(eager=False, storageLevel=_LEVEL)
        # The job may fail when it has made some of the blocks.
        self._until.callback(_free, kept)
        with _named_job(context) as name:
            kept.write.format("noop").mode("overwrite").save()
        _wait_for_attempts(context, name)
        block_ids = _block_ids(context, kept)
        executors = _executors(context, block_ids)
        _check_single(executors)
        self._kept.append(_Blocks(kept, block_ids, executors))
        return kept

    def check(self) -> None:
        """See that all who have read a kept frame so far have read the same rows.

        Raises:
            WorkerLostError: they may have read others, or some are lost.
        """
        for blocks in self._kept:
            executors = _executors(blocks.frame.sparkSession.sparkContext, blocks.block_ids)
            _check_single(executors)
            if executors != blocks.executors:
                raise WorkerLostError(cause="rows that are computed once are now on other executors")

    def spare(self, frame: DataFrame) -> DataFrame:
        """A frame that gives the same rows whenever it is computed, kept to spare the work."""
        frame.persist(_SPARED_LEVEL)
        self._until.callback(_unpersist, frame)
        return frame

    def holds(self, frame: DataFrame) -> bool:
        """Whether this very frame is one that is kept."""
        return any(frame is blocks.frame for blocks in self._kept)


@contextmanager
def _named_job(context: SparkContext) -> Iterator[str]:
    """The name by which jobs of this thread are found."""
    name = uuid.uuid4().hex
    context.setLocalProperty(_PROPERTY, name)
    try:
        yield name
    finally:
        # A Spark that is gone has no properties, and must not hide why it is.
        with suppress(Exception):
            context.setLocalProperty(_PROPERTY, None)  # type: ignore[arg-type]


def _wait_for_attempts(context: SparkContext, name: str) -> None:
    """Wait until no task of a job that is over runs; Spark has told those that are left to stop.

    Spark hears that an attempt has ended when its block is stored and told, so none is stored afterwards.
    """
    deadline = time.monotonic() + _STOP_S
    while _has_attempts(context, name):
        if time.monotonic() > deadline:
            raise WorkerLostError(
                cause=f"a second attempt of a task was told to stop {_STOP_S:g} s ago and runs on: it might put other "
                "rows in the place of those that were computed"
            )
        time.sleep(_LOOK_S)


def _has_attempts(context: SparkContext, name: str) -> bool:
    """Whether Spark's scheduler has a set of tasks of the named job: it forgets one when none of its tasks runs."""
    jvm_context: Any = context._jsc.sc()
    pools = [jvm_context.taskScheduler().rootPool()]
    while pools:
        for each in pools.pop().schedulableQueue().toArray():
            if each.schedulableQueue() is not None:
                pools.append(each)
                continue
            properties = each.taskSet().properties()
            if properties is not None and properties.getProperty(_PROPERTY) == name:
                return True
    return False


def _block_ids(context: SparkContext, kept: DataFrame) -> Any:
    """Spark's names of a frame's blocks, by partition."""
    rdd = _rdd(kept)
    storage = _storage(context)
    number, count = int(rdd.id()), int(rdd.getNumPartitions())
    gateway: Any = context._gateway
    block_ids = gateway.new_array(storage.BlockId, count)
    for partition in range(count):
        block_ids[partition] = storage.RDDBlockId(number, partition)
    return block_ids


def _executors(context: SparkContext, block_ids: Any) -> dict[str, frozenset[str]]:
    """For each block, the executors that have it, as Spark's master of all blocks knows them at this moment.

    A shuffle service that has a block of an executor's goes by the same name.
    """
    jvm_context: Any = context._jsc.sc()
    # One question, whose answer is one text, however many blocks there are.
    told = _storage(context).BlockManager.blockIdsToLocations(block_ids, jvm_context.env(), None).mkString("\n")
    return {name: frozenset(_LOCATION.findall(locations)) for name, locations in _BLOCK.findall(str(told))}


def _storage(context: SparkContext) -> Any:
    jvm: Any = context._jvm
    return jvm.org.apache.spark.storage


def _check_single(executors: Mapping[str, frozenset[str]]) -> None:
    if lost := sum(not locations for locations in executors.values()):
        raise WorkerLostError(cause=f"{lost} of {len(executors)} blocks of rows that are computed once are lost")
    if doubled := sum(len(locations) > 1 for locations in executors.values()):
        raise WorkerLostError(
            cause=f"{doubled} of {len(executors)} blocks of rows that are computed once were computed by two attempts, "
            "and the rows of both are kept"
        )


def _rdd(kept: DataFrame) -> Any:
    return kept._jdf.queryExecution().analyzed().rdd()


def _free(kept: DataFrame) -> None:
    """Free the blocks now, and not when the JVM collects its garbage; ``unpersist`` of such a frame does nothing."""
    with suppress(Py4JError):  # a Spark that is gone has none, and must not hide why it is
        _rdd(kept).unpersist(False)


def _unpersist(frame: DataFrame) -> None:
    with suppress(Py4JError):
        frame.unpersist()
