"""What the delivery examples share: a context, Kafka's settings, a table, and a crash at a chosen moment.

Environment: ``KAFKA`` (brokers), ``TOPIC`` (input), ``DSN`` (Postgres), ``FOLDER`` (checkpoints and files), and
``CRASH`` (where this run is to die, if it is; with `` in a task`` behind it, where a task is to fail, and with
`` standing still``, where one is to stop for good). ``MASTER`` is Spark's, ``local[1]`` by default.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import psycopg
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

import directkafka as dk

TOPIC, DSN, FOLDER = os.environ["TOPIC"], os.environ["DSN"], Path(os.environ["FOLDER"])

# Before Spark starts: its workers inherit this, so that tasks can import this module, and end the driver.
os.environ.setdefault("DRIVER_PID", str(os.getpid()))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])

INSERT = "INSERT INTO output (partition, kafka_offset, value) VALUES (%s, %s, %s)"


def kafka_params(**settings: str) -> dict[str, str]:
    """Kafka's settings; underscores in names stand for dots."""
    return {"bootstrap.servers": os.environ["KAFKA"], **{name.replace("_", "."): v for name, v in settings.items()}}


def streaming_context(interval_s: float = 0.5, **settings: str) -> StreamingContext:
    """A context on this machine; with one task at a time a crash has one outcome."""
    conf = (
        SparkConf()
        .setMaster(os.environ.get("MASTER", "local[1]"))
        .setAppName("delivery")
        .set("spark.ui.enabled", "false")
    )
    # The first batch of a topic would be all of it.
    conf.set("spark.streaming.kafka.maxRatePerPartition", "10000")
    conf.set("spark.driver.bindAddress", "127.0.0.1").set("spark.driver.host", "127.0.0.1")
    for name, value in settings.items():
        conf.set(name.replace("_", "."), value)
    return StreamingContext(SparkContext.getOrCreate(conf), interval_s)


def checkpoint_folder() -> str:
    """For the checkpoint, which holds Kafka's settings, passwords among them."""
    folder = FOLDER / "checkpoint"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(folder)


def run(context: StreamingContext) -> None:
    """Run until somebody ends the process, or a batch fails."""
    context.start()
    print("started", flush=True)
    context.awaitTermination()


def insert(connection: psycopg.Connection, records: Iterable[dk.ConsumerRecord], statement: str = INSERT) -> int:
    """Write records in one go, and count them. (A connection for each record would cost more than the record.)"""
    rows = [
        (record.partition, record.offset, None if record.value is None else record.value.decode()) for record in records
    ]
    connection.cursor().executemany(statement, rows)
    return len(rows)


def crash_if_asked(where: str) -> None:
    """Here and now, the whole application is gone: the driver, and the process that runs this line.

    Or a task fails, or stands still, see above.
    """
    if os.environ.get("CRASH") == f"{where} in a task":
        raise RuntimeError(f"this task fails {where}")
    if os.environ.get("CRASH") == f"{where} standing still":
        try:
            # One task alone, whose process is told there.
            with (FOLDER / "standing-still").open("x") as file:
                file.write(f"{os.getpid()}\n")
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGSTOP)
    if os.environ.get("CRASH") == where:
        for process in (int(os.environ["DRIVER_PID"]), os.getpid()):
            os.kill(process, signal.SIGKILL)
