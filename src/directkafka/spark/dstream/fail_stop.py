"""DStreams whose outputs stand still behind a batch that failed.

Spark goes on: when an output of batch n fails, batch n+1 may be queued already, and runs. Whoever stores offsets with
his results would then store n+1 over n. So the outputs of a direct stream, and of all that is made of it (``map``,
``transform``, ``reduceByKey``, windows, state, joins with other streams), ask before they run.

A function that raises while Spark makes a batch's jobs drops the whole batch, all outputs of it, and Spark plans the
next one. It counts as a failure of the batch, or its records would be lost.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.streaming.dstream import DStream, TransformedDStream

from directkafka.spark.dstream.batch_tracker import batch_ms
from directkafka.spark.dstream.planner import DirectPlanner, PlannerHandle

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

Planners = tuple[DirectPlanner, ...]


class _Guarded(DStream[Any]):
    """What a stream that is made of direct streams does otherwise than a DStream: all that makes one, and outputs."""

    _planners: Planners

    def foreachRDD(self, func: Callable[..., None]) -> None:  # noqa: N802 - Spark's name
        """Apply a function to each RDD, for its effects. It is not called for batches after one that has failed."""
        handles, made = _handles(self._planners), _failing(self._planners, _with_time(func, rdds=1))

        def guarded(when: datetime, rdd: RDD[Any]) -> None:
            for planner in handles:
                planner().batches.begin(batch_ms(when))
            made(when, rdd)

        super().foreachRDD(guarded)

    def transform(self, func: Callable[..., RDD[Any]]) -> FailStopDStream:
        """Apply a function of an RDD, or of a time and an RDD, to each batch."""
        made = _failing(self._planners, _with_time(func, rdds=1))

        # Spark counts the arguments of the function's code.
        def guarded(when: datetime, rdd: RDD[Any]) -> Any:
            return made(when, rdd)

        return FailStopDStream(TransformedDStream(self._folded(), guarded), self._planners)

    def transformWith(  # noqa: N802 - Spark's name
        self,
        func: Callable[..., RDD[Any]],
        other: DStream[Any],
        keepSerializer: bool = False,  # noqa: N803 - Spark's name
    ) -> DStream[Any]:
        """Apply a function of two RDDs, or of a time and two RDDs, to each batch of two streams."""
        planners = self._planners + (other._planners if isinstance(other, _Guarded) else ())
        made = _failing(planners, _with_time(func, rdds=2))

        def guarded(when: datetime, mine: RDD[Any], others: RDD[Any]) -> Any:
            return made(when, mine, others)

        return _GuardedDStream(super().transformWith(guarded, other, keepSerializer), planners)

    def window(self, *arguments: Any, **named: Any) -> DStream[Any]:
        """The items of a sliding window of batches; see ``DStream.window``."""
        return _GuardedDStream(super().window(*arguments, **named), self._planners)

    def reduceByKeyAndWindow(self, *arguments: Any, **named: Any) -> DStream[Any]:  # noqa: N802 - Spark's name
        """Sums by key over a sliding window of batches; see ``DStream.reduceByKeyAndWindow``."""
        return _GuardedDStream(super().reduceByKeyAndWindow(*arguments, **named), self._planners)

    def updateStateByKey(self, *arguments: Any, **named: Any) -> DStream[Any]:  # noqa: N802 - Spark's name
        """A state by key that each batch changes; see ``DStream.updateStateByKey``."""
        return _GuardedDStream(super().updateStateByKey(*arguments, **named), self._planners)

    def _folded(self) -> DStream[Any]:
        """The stream that Spark may fold into what is made of this one."""
        return self


class FailStopDStream(_Guarded, TransformedDStream[Any]):
    """A stream that is made of a direct stream RDD by RDD.

    Args:
        plain: the same without guards. Spark folds one of its own into what is made of it, and no subclass.
        planners: those of the direct streams.
    """

    def __init__(self, plain: TransformedDStream[Any], planners: Planners) -> None:
        super().__init__(plain.prev, plain.func)
        self._plain, self._planners = plain, planners

    @property
    def _jdstream(self) -> JavaObject:
        return self._plain._jdstream

    def _folded(self) -> DStream[Any]:
        return self if self.is_cached or self.is_checkpointed else self._plain


class _GuardedDStream(_Guarded):
    """A stream that the JVM makes of direct streams: windows, state, two streams in one.

    Args:
        plain: the same without guards.
        planners: those of the direct streams.
    """

    def __init__(self, plain: DStream[Any], planners: Planners) -> None:
        super().__init__(plain._jdstream, plain._ssc, plain._jrdd_deserializer)
        self._planners = planners


def _failing(planners: Planners, func: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of a time and RDDs; what it raises fails the batch before the next one can begin.

    (Spark's event says it too, and later.)
    """
    handles = _handles(planners)

    def guarded(when: datetime, *rdds: RDD[Any]) -> Any:
        try:
            return func(when, *rdds)
        except BaseException as error:
            for planner in handles:
                planner().fail(batch_ms(when), f"{type(error).__name__}: {error}")
            raise

    return guarded


def _handles(planners: Planners) -> tuple[PlannerHandle, ...]:
    return tuple(planner.handle for planner in planners)


def _with_time(func: Callable[..., Any], *, rdds: int) -> Callable[..., Any]:
    """The function with a time before its RDDs, if it has none."""
    parameters = inspect.signature(func).parameters.values()
    required = sum(
        parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        for parameter in parameters
    )
    if required > rdds:
        return func

    return lambda _, *given: func(*given)
