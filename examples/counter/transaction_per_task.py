"""Counter-example: Kafka transactions in a foreach writer, one for each task. Doubles.

See README.md in this folder, and do not copy it.
"""

from __future__ import annotations

import os

from pyspark.sql import Row
from setting import crash_if_asked, records, run, spark_session


class TransactionPerTask:
    """Commits what its task wrote, whatever becomes of the batch's other tasks."""

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin this task's transaction; what an earlier one of its id left open is aborted."""
        from confluent_kafka import Producer  # it runs in a worker, and cannot be pickled

        self.epoch_id = epoch_id
        self.producer = Producer(
            {
                "bootstrap.servers": os.environ["KAFKA"],
                "transactional.id": f"{os.environ['OUTPUT']}-{partition_id}",
                "transaction.timeout.ms": 10_000,
            }
        )
        self.producer.init_transactions()
        self.producer.begin_transaction()
        return True

    def process(self, row: Row) -> None:
        """Write one record."""
        self.producer.produce(os.environ["OUTPUT"], row.value)

    def close(self, error: Exception | None) -> None:
        """Commit this task's records."""
        if error is not None:
            self.producer.abort_transaction()
            return
        self.producer.commit_transaction()
        crash_if_asked(self.epoch_id)  # the next task of this batch has committed nothing


if __name__ == "__main__":
    run(records(spark_session()).writeStream.foreach(TransactionPerTask()))
