"""The same query and the same crash with directkafka: rows and ledger entry are one commit, so there is no between.

``DSN`` says which Postgres to write to; without it, rows go into the topic ``OUTPUT``. See README.md in this folder.
"""

from __future__ import annotations

import os

from setting import FOLDER, crash_if_asked, records, spark_session

import directkafka as dk
from directkafka.pipeline.progress import BatchReport


def sink() -> dk.Sink:
    """Where rows and ledger entries go together."""
    if dsn := os.environ.get("DSN"):
        return dk.PostgresSink(dsn, "output")
    return dk.KafkaSink({"bootstrap.servers": os.environ["KAFKA"]}, os.environ["OUTPUT"])


def tell(report: BatchReport) -> None:
    """Called when the store has committed and Spark has not yet noted it: the worst moment that is left."""
    crash_if_asked(report.batch_id)


if __name__ == "__main__":
    query = dk.write_stream(
        records(spark_session()),
        f"exactly-once-{os.environ['OUTPUT']}",
        sink(),
        checkpoint=str(FOLDER / "checkpoint"),
        trigger="available-now",
        report=tell,
    )
    query.awaitTermination()
