"""Spark's executors, and an RDD whose tasks prefer some of them: what PySpark has no call for, asked of the JVM.

Sources: ``SparkContext.makeRDD`` with preferences; ``AppStatusStore``, which the executors' page shows.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from directkafka.planning.placement import Executor

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

__all__ = ["executors", "placed_rdd"]

_DRIVER = "driver"


def executors(sc: SparkContext) -> list[Executor]:
    """The executors that are there now; none in ``local`` mode."""
    if sc._jsc.sc().isLocal():
        return []
    # Not of the block manager's master, as Spark's own stream does: its classes name some that no jar of Spark has, and
    # py4j looks at all of a class's methods.
    summaries = sc._jsc.sc().statusStore().executorList(True)
    found = []
    for number in range(summaries.size()):
        one = summaries.apply(number)
        if one.id() != _DRIVER:
            found.append(Executor(one.hostPort().rpartition(":")[0], one.id()))
    return sorted(found)


def placed_rdd(sc: SparkContext, values: Sequence[Any], locations: Sequence[str | None]) -> JavaObject:
    """An RDD of the JVM with one value in each partition, pickled.

    Args:
        sc: where it lives.
        values: partition ``i`` holds ``values[i]``.
        locations: where the task of each partition prefers to run, as Spark writes it; None for anywhere.
    """
    jvm: Any = sc._jvm
    if not values:
        return sc._jsc.emptyRDD()
    pickled = [pickle.dumps(value, pickle.HIGHEST_PROTOCOL) for value in values]
    if not any(locations):
        return sc._jsc.parallelize(pickled, len(pickled))
    preferences = {one: jvm.PythonUtils.toSeq([one] if one else []) for one in set(locations)}
    placed = [jvm.scala.Tuple2(one, preferences[at]) for one, at in zip(pickled, locations, strict=True)]
    tag = jvm.scala.reflect.ClassTag.AnyRef()
    return sc._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(placed), tag).toJavaRDD()
