"""Spark's executors, and an RDD whose tasks prefer some of them: what PySpark has no call for, asked of the JVM.

A stream asks for both each batch, and each question to the JVM takes a fraction of a millisecond. So there are few,
however many executors and partitions there are.

Sources: ``SparkContext.makeRDD`` with preferences; ``AppStatusStore``, which the executors' page shows.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext
from pyspark.serializers import UTF8Deserializer

from directkafka.planning.placement import Executor

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_DRIVER = "driver"


class _JVM:
    """What is asked of a context's JVM again and again: each name on the way to a class is a call too."""

    def __init__(self, sc: SparkContext) -> None:
        jvm: Any = sc._jvm
        #: Hosts by executor. An executor stays where it is, and its identifier is not given to another one.
        self.hosts: dict[str, str] = {}
        self.sequence: Callable[[JavaObject], JavaObject] = jvm.PythonUtils.toSeq
        self.any_class: JavaObject = jvm.scala.reflect.ClassTag.AnyRef()
        self._line_end: Any = jvm.java.util.regex.Pattern.compile("\n")
        self._to_list: JavaObject = jvm.java.util.stream.Collectors.toList()

    def lines(self, texts: Sequence[str]) -> JavaObject:
        """A list of texts that are not empty and have no line breaks; py4j itself makes a call for each."""
        return self._line_end.splitAsStream("\n".join(texts)).collect(self._to_list)


_jvms: WeakKeyDictionary[SparkContext, _JVM] = WeakKeyDictionary()


def _jvm_of(sc: SparkContext) -> _JVM:
    if sc not in _jvms:
        _jvms[sc] = _JVM(sc)
    return _jvms[sc]


def executors(sc: SparkContext) -> list[Executor]:
    """The executors that are there now; none in ``local`` mode."""
    scala = sc._jsc.sc()
    if scala.isLocal():
        return []
    jvm = _jvm_of(sc)
    identifiers = [
        executor_id
        for executor_id in scala.getExecutorIds().mkString(",").split(",")
        if executor_id not in ("", _DRIVER)
    ]
    hosts = {identifier: jvm.hosts.get(identifier) or _host(scala, identifier) for identifier in identifiers}
    jvm.hosts = {executor_id: host for executor_id, host in hosts.items() if host is not None}
    return sorted(Executor(host, executor_id) for executor_id, host in jvm.hosts.items())


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
        return (pickle.loads(b64decode(row)) for row in super().load_stream(stream))  # type: ignore[no-untyped-call]


def placed_rdd(sc: SparkContext, values: Sequence[Any], locations: Sequence[str] = ()) -> RDD[Any]:
    """An RDD with one value in each partition.

    Args:
        sc: where it lives.
        values: partition ``i`` holds ``values[i]``.
        locations: where the task of each partition prefers to run, as Spark writes it; empty for anywhere.
    """
    if not values:
        return sc.emptyRDD()
    jvm = _jvm_of(sc)
    pickled = jvm.lines([b64encode(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)).decode() for value in values])
    if not locations:
        return RDD(sc._jsc.parallelize(pickled, len(values)), sc, _Unpickled())  # type: ignore[no-untyped-call]
    # Scala's Seq[(String, Seq[String])].
    placed = jvm.sequence(pickled).zip(jvm.sequence(jvm.lines(locations)).grouped(1))
    return RDD(sc._jsc.sc().makeRDD(placed, jvm.any_class).toJavaRDD(), sc, _Unpickled())  # type: ignore[no-untyped-call]
