"""What travels to the executors beside the reading, and back: a sink's writer, its reports, the proofs of reading."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from directkafka.error_notes import with_note
from directkafka.errors import DirectKafkaError
from directkafka.stores.base import TaskReport, TaskWriter

__all__ = ["ProofUnion", "WriteTask", "reports_of"]

_Proofs = dict[tuple[str, str], int]

#: Rows that are held travel through two pipes and the JVM, which costs more than LZ4 does.
_HELD_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class WriteTask:
    """A function for ``mapInArrow``: one task's rows become one row, its packed report.

    Args:
        writer: the sink's.
    """

    def __init__(self, writer: TaskWriter) -> None:
        self._writer = writer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume the task's rows; errors of ours keep their fields on the way to the driver."""
        try:
            report = self._writer(batches)
        except DirectKafkaError as error:
            raise with_note(error) from error.__cause__
        yield pa.record_batch({"report": pa.array([_packed(report)], pa.binary())})


def reports_of(collected: pa.Table) -> tuple[TaskReport, ...]:
    """What the tasks of a job have reported, in the order of its partitions.

    Args:
        collected: the rows that :class:`WriteTask` gave.
    """
    return tuple(_unpacked(one) for one in collected.column("report").to_pylist())


def _packed(report: TaskReport) -> bytes:
    if not report.held:
        return pickle.dumps((report, b""))
    held = pa.BufferOutputStream()
    with pa.ipc.new_stream(held, report.held[0].schema, options=_HELD_OPTIONS) as stream:
        for batch in report.held:
            stream.write_batch(batch)
    return pickle.dumps((replace(report, held=()), held.getvalue().to_pybytes()))


def _unpacked(packed: bytes) -> TaskReport:
    report: TaskReport
    report, held = pickle.loads(packed)
    return replace(report, held=tuple(pa.ipc.open_stream(held))) if held else report


class ProofUnion(AccumulatorParam):  # type: ignore[type-arg]  # its type variable cannot name a dict's
    """Dicts that grow by union: adding the same proof twice changes nothing."""

    def zero(self, value: Mapping[tuple[str, str], int]) -> _Proofs:
        """No proof."""
        return {}

    def addInPlace(self, value1: _Proofs, value2: _Proofs) -> _Proofs:  # noqa: N802 - Spark's name
        """Both."""
        value1.update(value2)
        return value1
