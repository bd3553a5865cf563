"""A pipeline from Kafka into files, as a process: ``python -m tests.chaos.file_driver KIND FOLDER TOPIC TRIGGER``.

One JSON line a batch on stdout, as ``directkafka run --format json`` prints them. Exit code 3: fenced.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import directkafka as dk
from directkafka.testing.java import use_java

FENCED = 3
QUERY = "SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source"


def numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same as :data:`QUERY`, for a native pipeline."""
    number = pc.cast(pc.cast(batch.column("value"), pa.string()), pa.int64())
    position_columns = [batch.column(name) for name in ("topic", "partition", "offset")]
    return pa.RecordBatch.from_arrays([*position_columns, number], ["topic", "partition", "offset", "number"])


def pipeline(kind: str, folder: Path, topic: str, trigger: str, **more: Any) -> dk.Pipeline:
    store, _, carrier = kind.partition("-")
    sink = dk.DeltaSink if store == "delta" else dk.ParquetSink
    return dk.Pipeline(
        "numbers",
        source={
            "kafka.bootstrap.servers": os.environ["KAFKA"],
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "100",
        },
        transform=dk.ArrowTransform(numbers) if carrier else QUERY,
        sinks=sink(folder / "rows"),
        trigger=trigger,
        **more,
    )


def main(kind: str, folder: str, topic: str, trigger: str) -> int:
    use_java()
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/local",
    }

    def report(batch: Any) -> None:
        print(json.dumps({"batch_id": batch.batch_id, "backlog": batch.backlog}), flush=True)

    try:
        pipeline(kind, Path(folder), topic, trigger, master="local[2]", spark_conf=conf, report=report).run()
    except dk.FencedError as error:
        print(error, file=sys.stderr)
        return FENCED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
