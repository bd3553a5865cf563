"""The JVM's streaming scheduler: what a direct stream asks it, and the events that it sends.

PySpark offers little of it. ``StreamingContext.scheduler``, ``JobScheduler.getPendingTimes`` and
``InputInfoTracker.reportInfo`` are what Spark's own direct stream uses; in Scala they are private to Spark's packages,
but in the JVM they are public methods.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.streaming.listener import StreamingListener

from directkafka.errors import EnvironmentFaultError
from directkafka.offsets import OffsetRange, total_count
from directkafka.planning.rates import BatchTimes

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

log = logging.getLogger("directkafka.source")


class BatchObserver(Protocol):
    """An object that is told how batches end; ``ms``: a batch's time, in ms since 1970."""

    def fail(self, ms: int, cause: str) -> None:
        """An output of the batch of this time has failed."""

    def succeed(self, ms: int) -> None:
        """All outputs of the batch of this time have succeeded."""

    def observe(self, ms: int, times: BatchTimes) -> None:
        """The batch of this time is done, failed or not."""


class StreamingJVM:
    """The scheduler of one streaming context.

    Args:
        sc: the SparkContext.
        jssc: Scala's StreamingContext.
        observer: told of every batch.

    Raises:
        EnvironmentFaultError: ``PYSPARK_PIN_THREAD`` is false.
    """

    def __init__(self, sc: SparkContext, jssc: JavaObject, observer: BatchObserver) -> None:
        if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
            raise EnvironmentFaultError(
                what="PYSPARK_PIN_THREAD is false, and a batch would wait for ever for the lock under which it is made",
                remedy="Do not set it: each thread of Python has one of the JVM then, which is Spark's default.",
            )
        jvm: Any = sc._jvm
        self._jvm = jvm
        self._jssc = jssc
        self._stream_id = _new_stream_id(jssc)
        #: Whether batches run one after the other.
        self.is_serial = sc.getConf().get("spark.streaming.concurrentJobs", "1") == "1"
        self._input_info = jvm.org.apache.spark.streaming.scheduler.StreamInputInfo
        wrapped = jvm.PythonStreamingListenerWrapper(_Listener(observer))
        jssc.addStreamingListener(jvm.JavaStreamingListenerWrapper(wrapped))

    def pending(self) -> set[int]:
        """The times of batches that wait, run, or have failed, in milliseconds since 1970."""
        # One call, however many there are: "1700000000000 ms,1700000001000 ms".
        times = str(self._jssc.scheduler().getPendingTimes().mkString(","))
        return {int(line.split()[0]) for line in times.split(",") if line}

    def error(self) -> str | None:
        """The error that ``awaitTermination`` would raise: the first one of an output or of making RDDs; or None."""
        try:
            self._jssc.awaitTerminationOrTimeout(0)
        except (Py4JJavaError, CapturedException) as error:
            # PySpark makes its own of some of the JVM's exceptions.
            lines = str(getattr(error, "java_exception", error)).strip().splitlines()
            return " ... ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else "an error without words"
        return None

    @cached_property
    def remembered_ms(self) -> int:
        """For how long Spark may ask for a batch again, in milliseconds: twice what its windows need, and a minute.

        What the windows need is fixed when the context starts.
        """
        streams = self._jssc.graph().getInputStreams()
        kept = [stream.rememberDuration() for stream in streams]
        return 2 * max((time.milliseconds() for time in kept if time is not None), default=0) + 60_000

    def report(self, ms: int, ranges: Sequence[OffsetRange]) -> None:
        """Show a batch's number of offsets and its ranges on Spark's streaming page; an error is only logged."""
        described = "\n".join(
            f"{offset_range.topic_partition}: [{offset_range.from_offset}, {offset_range.until_offset})"
            for offset_range in ranges
        )
        try:
            metadata = self._jvm.PythonUtils.toScalaMap({"Description": described})
            info = self._input_info(self._stream_id, total_count(ranges), metadata)
            self._jssc.scheduler().inputInfoTracker().reportInfo(self._jvm.Time(ms), info)
        except Py4JError as error:
            log.debug("Spark's streaming page does not show this batch: %s", error)


class _Listener(StreamingListener):
    """Hears how batches end, on a thread of Spark's."""

    def __init__(self, observer: BatchObserver) -> None:
        super().__init__()
        self._observer = observer

    def onOutputOperationCompleted(self, outputOperationCompleted: Any) -> None:  # noqa: N802, N803 - Spark's names
        operation = outputOperationCompleted.outputOperationInfo()
        reason = operation.failureReason()
        if reason:
            self._observer.fail(operation.batchTime().milliseconds(), reason)

    def onBatchCompleted(self, batchCompleted: Any) -> None:  # noqa: N802, N803 - Spark's names
        info = batchCompleted.batchInfo()
        times = BatchTimes(
            ended_ms=info.processingEndTime(),
            records=0,
            processing_ms=info.processingDelay(),
            scheduling_ms=info.schedulingDelay(),
        )
        batch_ms = info.batchTime().milliseconds()
        if not _has_failed(info):
            self._observer.succeed(batch_ms)
        self._observer.observe(batch_ms, times)


def _new_stream_id(jssc: JavaObject) -> int:
    """An id that no input stream has.

    A context that was restored from a checkpoint counts from 0 again, and Spark refuses every batch in which two
    streams report under the same id.
    """
    taken = {stream.id() for stream in jssc.graph().getInputStreams()}
    while (number := jssc.getNewInputStreamId()) in taken:
        pass
    return int(number)


def _has_failed(info: Any) -> bool:
    """Whether any of a batch's outputs has failed; the scheduler counts a batch as done all the same."""
    return any(output.failureReason() for output in info.outputOperationInfos().values())
