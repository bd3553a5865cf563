"""The same query and the same crash with directkafka: rows and ledger entry are one commit, so there is no between.

``DSN`` says where to write. See README.md in this folder.
"""

from __future__ import annotations

import os

from setting import FOLDER, crash_if_asked, records, spark_session

import directkafka as dk
from directkafka.pipeline.progress import BatchReport


def tell(report: BatchReport) -> None:
    """Called when the store has committed and Spark has not yet noted it: the worst moment that is left."""
    crash_if_asked(report.batch_id)


if __name__ == "__main__":
    query = dk.write_stream(
        records(spark_session()),
        "exactly-once",
        dk.PostgresSink(os.environ["DSN"], "output"),
        checkpoint=str(FOLDER / "checkpoint"),
        trigger="available-now",
        report=tell,
    )
    query.awaitTermination()
