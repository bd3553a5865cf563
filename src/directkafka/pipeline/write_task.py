"""What travels to the executors beside the reading: a sink's writer, and the accumulator of proofs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from directkafka.error_notes import with_note
from directkafka.errors import DirectKafkaError
from directkafka.stores.base import TaskWriter

__all__ = ["ProofUnion", "WriteTask"]

_Proofs = dict[tuple[str, str], int]


class WriteTask:
    """A function for ``mapInArrow``: one task's rows become one row, its pickled report.

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
        yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})


class ProofUnion(AccumulatorParam):  # type: ignore[type-arg]  # its type variable cannot name a dict's
    """Dicts that grow by union: adding the same proof twice changes nothing."""

    def zero(self, value: Mapping[tuple[str, str], int]) -> _Proofs:
        """No proof."""
        return {}

    def addInPlace(self, value1: _Proofs, value2: _Proofs) -> _Proofs:  # noqa: N802 - Spark's name
        """Both."""
        value1.update(value2)
        return value1
