"""The reader as tasks have it: it reads one range of a batch or a stream, and plans nothing.

What plans is not imported on executors: the reader that Spark sends there is made into this one when it is pickled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import RangeTask


@dataclass
class RangePartition(InputPartition):
    """One task's range, on its way to the executor."""

    task: RangeTask


@dataclass(frozen=True, slots=True)
class TaskReader:
    """Reads ranges.

    Attributes:
        notes: sign errors on their way to the driver.
    """

    notes: Notes

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range, on an executor."""
        # Processes that only plan do not pay for the kernels.
        from directkafka.spark.read_task import read_for_spark

        # A read without partitions is given one that has no range.
        if isinstance(partition, RangePartition):
            yield from read_for_spark(partition.task, self.notes)
