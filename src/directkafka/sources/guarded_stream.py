"""DStreams whose outputs stand still behind a batch that failed.

Spark goes on: when an output of batch n fails, batch n+1 may be queued already, and runs. Whoever stores offsets with
his results would then store n+1 over n. So the outputs of a direct stream, and of all that is made of it partition by
partition or by a shuffle (``map``, ``transform``, ``reduceByKey``, ...), ask before they run. Windows and state are
streams of Spark's own: their outputs do not ask.

A function that raises while Spark makes a batch's jobs drops the whole batch, all outputs of it, and Spark plans the
next one. It counts as a failure of the batch, or its records would be lost.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.streaming.dstream import TransformedDStream

from directkafka.sources.direct_planner import DirectPlanner, batch_ms

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

__all__ = ["GuardedStream"]


class GuardedStream(TransformedDStream[Any]):
    """A stream that is made of a direct stream.

    Args:
        plain: the same without guards. Spark folds one of its own into what is made of it, and no subclass.
        planner: the direct stream's.
    """

    def __init__(self, plain: TransformedDStream[Any], planner: DirectPlanner) -> None:
        super().__init__(plain.prev, plain.func)
        self._plain, self._planner = plain, planner

    @property
    def _jdstream(self) -> JavaObject:
        return self._plain._jdstream

    def transform(self, func: Callable[..., RDD[Any]]) -> GuardedStream:
        """Apply a function of an RDD, or of a time and an RDD, to each batch."""
        planner, takes_time = self._planner, _required_arguments(func) > 1

        def guarded(when: datetime, rdd: RDD[Any]) -> RDD[Any]:
            try:
                return func(when, rdd) if takes_time else func(rdd)
            except BaseException as error:
                planner.fail(batch_ms(when), f"{type(error).__name__}: {error}")
                raise

        before = self if self.is_cached or self.is_checkpointed else self._plain
        return GuardedStream(TransformedDStream(before, guarded), planner)

    def foreachRDD(self, func: Callable[..., None]) -> None:  # noqa: N802 - Spark's name
        """Apply a function to each RDD, for its effects. It is not called for batches after one that has failed."""
        planner, takes_time = self._planner, _required_arguments(func) > 1

        def guarded(when: datetime, rdd: RDD[Any]) -> None:
            planner.check(batch_ms(when))
            try:
                func(when, rdd) if takes_time else func(rdd)
            except BaseException as error:
                # Told here too: the next batch may begin before Spark's event says it.
                planner.fail(batch_ms(when), f"{type(error).__name__}: {error}")
                raise

        super().foreachRDD(guarded)


def _required_arguments(func: Callable[..., Any]) -> int:
    parameters = inspect.signature(func).parameters.values()
    return sum(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters)
