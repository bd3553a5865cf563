"""Spark's executors, and an RDD whose tasks prefer some of them: what PySpark has no call for, asked of the JVM.

A stream asks for both each batch, and each question to the JVM takes a fraction of a millisecond. So there are few,
however many executors and partitions there are.

Sources: ``SparkContext.makeRDD`` with preferences; ``AppStatusStore``, which the executors' page shows.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext
from pyspark.serializers import UTF8Deserializer

from directkafka.planning.placement import Executor

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

__all__ = ["executors", "placed_rdd"]

_DRIVER = "driver"

#: Hosts by executor. An executor stays where it is, and its identifier is not given to another one.
_HOSTS: WeakKeyDictionary[SparkContext, dict[str, str]] = WeakKeyDictionary()


def executors(sc: SparkContext) -> list[Executor]:
    """The executors that are there now; none in ``local`` mode."""
    scala = sc._jsc.sc()
    if scala.isLocal():
        return []
    before = _HOSTS.get(sc, {})
    identifiers = [one for one in scala.getExecutorIds().mkString(",").split(",") if one not in ("", _DRIVER)]
    hosts = {one: before.get(one) or _host(scala, one) for one in identifiers}
    _HOSTS[sc] = {one: host for one, host in hosts.items() if host is not None}
    return sorted(Executor(host, one) for one, host in _HOSTS[sc].items())


def _host(scala: Any, identifier: str) -> str | None:
    # Not of the block manager's master, as Spark's own stream does: its classes name some that no jar of Spark has, and
    # py4j looks at all of a class's methods.
    try:
        address = str(scala.statusStore().executorSummary(identifier).hostPort())
    except Py4JJavaError:
        return None  # It has registered this moment, and the status does not know it yet.
    return address.rpartition(":")[0]


class _Unpickled(UTF8Deserializer):
    """Reads values that the JVM holds as text."""

    def load_stream(self, stream: BinaryIO) -> Iterator[Any]:
        """The values."""
        return (pickle.loads(b64decode(one)) for one in super().load_stream(stream))  # type: ignore[no-untyped-call]


def placed_rdd(sc: SparkContext, values: Sequence[Any], locations: Sequence[str] = ()) -> RDD[Any]:
    """An RDD with one value in each partition.

    Args:
        sc: where it lives.
        values: partition ``i`` holds ``values[i]``.
        locations: where the task of each partition prefers to run, as Spark writes it; empty for anywhere.
    """
    if not (values and locations):
        return sc.parallelize(values, len(values)) if values else sc.emptyRDD()
    jvm: Any = sc._jvm
    pickled = [b64encode(pickle.dumps(one, pickle.HIGHEST_PROTOCOL)).decode() for one in values]
    # Scala's Seq[(String, Seq[String])].
    placed = _lines(jvm, pickled).zip(_lines(jvm, locations).grouped(1))
    tag = jvm.scala.reflect.ClassTag.AnyRef()
    return RDD(sc._jsc.sc().makeRDD(placed, tag).toJavaRDD(), sc, _Unpickled())  # type: ignore[no-untyped-call]


def _lines(jvm: Any, texts: Sequence[str]) -> JavaObject:
    """Scala's Seq[String] of texts that are not empty and have no line breaks; py4j itself makes a call for each."""
    lines = jvm.java.util.regex.Pattern.compile("\n").splitAsStream("\n".join(texts))
    return jvm.PythonUtils.toSeq(lines.collect(jvm.java.util.stream.Collectors.toList()))
