"""Counter-example: the same, with a store of committed transactions beside Kafka. Doubles, or loses.

``ORDER=commit-first`` commits to Kafka and then notes it in the store; ``ORDER=note-first`` the other way round.
Neither order helps: there are two commits, and a moment between them. See README.md in this folder.
"""

from __future__ import annotations

import os
import sqlite3

from pyspark.sql import Row
from setting import FOLDER, crash_if_asked, records, run, spark_session
from transaction_per_task import TransactionPerTask


class StoreOfCommits:
    """The last batch that each task has committed, in a file."""

    def __init__(self) -> None:
        self.file = sqlite3.connect(FOLDER / "commits.sqlite", isolation_level=None)
        self.file.execute("CREATE TABLE IF NOT EXISTS commits (partition PRIMARY KEY, epoch)")

    def last(self, partition_id: int) -> int:
        """-1 when there is none."""
        row = self.file.execute("SELECT epoch FROM commits WHERE partition = ?", [partition_id]).fetchone()
        return row[0] if row else -1

    def note(self, partition_id: int, epoch_id: int) -> None:
        """From now on, this task skips the batch."""
        self.file.execute("INSERT OR REPLACE INTO commits VALUES (?, ?)", [partition_id, epoch_id])


class TransactionAndStore:
    """Passes over what the store has, and tells it what is committed."""

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Whether the task has anything to do."""
        self.task = (partition_id, epoch_id)
        self.skips = epoch_id <= StoreOfCommits().last(partition_id)
        self.transaction = TransactionPerTask()
        return not self.skips and self.transaction.open(partition_id, epoch_id)

    def process(self, row: Row) -> None:
        """Write one record."""
        self.transaction.process(row)

    def close(self, error: Exception | None) -> None:
        """Two commits, in one order or the other."""
        if self.skips:
            return
        if error is not None:
            self.transaction.producer.abort_transaction()
            return
        commits = [self.transaction.producer.commit_transaction, lambda: StoreOfCommits().note(*self.task)]
        first, second = commits if os.environ["ORDER"] == "commit-first" else reversed(commits)
        first()
        crash_if_asked(self.transaction.epoch_id)
        second()


if __name__ == "__main__":
    spark = spark_session()
    spark.sparkContext.addPyFile(__file__.replace("store_of_commits", "transaction_per_task"))
    run(records(spark).writeStream.foreach(TransactionAndStore()))
