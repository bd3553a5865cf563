"""What lets the many processes of a run start quickly: made once for each virtual environment, and kept in it.

- Spark's classes, loaded and verified: Java's class data sharing (JEP 350). A JVM that starts Spark and runs one query
  takes 12 s of processor time, 5 of them for its classes. A broker's as well: 3.5 s with the formatting of its folder,
  2.2 with the archive.
- A home of Spark without Python's zip files. Python keeps no bytecode for what it imports from one: each process that
  plans a source's reads compiles PySpark anew, 0.6 s, and each task reads the lists of all of them again. Without them
  they import the packages, which are the same code.
- This library's kernels, compiled.
- In the quick run, settings of Spark for programs that have none of their own: no page, and queries of a few rows are
  interpreted.
- The bytecode of the tests, which is pytest's own: with what an assert shows.

What users have is Spark without all that: ``real/test_plain_install.py`` runs so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pyspark

from directkafka.testing.broker_jars import KAFKA_VERSION

#: What every JVM of the tests that starts Spark gets: the compiler that starts quickest and the collector without
#: threads take half of the JVM's time away. Nothing here runs long enough to earn it back. An archive holds for the
#: collector that it was made with.
_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"

#: Not in a file: a folder on the class path that is not empty makes Java leave its archive alone.
_SETTINGS = " ".join(
    f"-Dspark.{name}"
    for name in ("ui.enabled=false", "sql.codegen.factoryMode=NO_CODEGEN", "sql.codegen.wholeStage=false")
)

_ROOT = Path(__file__).parent.parent
_FOLDER = Path(sys.prefix) / "directkafka-tests"
_SPARK_HOME = _FOLDER / "spark"
_CLASSES = _FOLDER / f"spark-{version('pyspark')}.jsa"
_BROKER_CLASSES = _FOLDER / f"kafka-{KAFKA_VERSION}.jsa"
_KERNELS = (
    "directkafka.kafka.records.decoder",
    "directkafka.spark.datasource.write_task",
    "directkafka.payloads.avro.decoder",
    "directkafka.payloads.avro.encoder",
    "directkafka.payloads.json.decoder",
    "directkafka.payloads.protobuf.decoder",
    "directkafka.payloads.protobuf.encoder",
    "directkafka.sinks.postgres.copy_kernels",
)
_TIMEOUT_S = 600
#: As many as there are cores: each is one process that computes.
_AT_ONCE = 2


def use(*, is_quick_run: bool = False) -> None:
    """Let this process's children start with what was made; without it they start as they would.

    Args:
        is_quick_run: whether queries are interpreted. The whole run has Spark compile those of programs, as it does at
            users'.
    """
    options = f"{_JVM_OPTIONS} -XX:SharedArchiveFile={_CLASSES}" if _CLASSES.exists() else _JVM_OPTIONS
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"{options} {_SETTINGS if is_quick_run else ''} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip()
    )
    if _SPARK_HOME.exists():
        os.environ["SPARK_HOME"] = str(_SPARK_HOME)
    if _BROKER_CLASSES.exists():
        # Of a broker of another version, Java says that the archive is not its own, and goes on without.
        options = f"-XX:SharedArchiveFile={_BROKER_CLASSES} -Xlog:disable -Xlog:all=error:stderr"
        os.environ["KAFKA_OPTS"] = f"{options} {os.environ.get('KAFKA_OPTS', '')}".strip()


def make() -> None:
    """Make what is not there yet. A Java that cannot make an archive leaves none."""
    _FOLDER.mkdir(exist_ok=True)
    if not _SPARK_HOME.exists():
        _make_spark_home()
    missing: list[Callable[[], None]] = []
    if not _CLASSES.exists():
        missing += [_make_classes, *(partial(_run, "-c", f"import {module}") for module in _KERNELS)]
    if not _BROKER_CLASSES.exists():
        missing.append(_make_broker_classes)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for job in [pool.submit(make_it) for make_it in missing]:
            job.result()
    if missing:
        _run("-m", "pytest", "--collect-only", "-qq")


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=_ROOT, stdout=subprocess.DEVNULL, check=False)


def _make_spark_home() -> None:
    installed = Path(pyspark.__file__).parent
    part = _SPARK_HOME.with_suffix(f".{os.getpid()}")
    part.mkdir()
    for name in ("bin", "sbin", "jars"):
        (part / name).symlink_to(installed / name)
    part.rename(_SPARK_HOME)


def _make_classes() -> None:
    part = _CLASSES.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        options = f"{_JVM_OPTIONS} -XX:-UsePerfData -Djava.io.tmpdir={folder} -XX:ArchiveClassesAtExit={part}"
        world = {**os.environ, "SPARK_HOME": str(_SPARK_HOME), "SPARK_SUBMIT_OPTS": options}
        try:
            # The JVM inherits the pipe, and writes the archive when Python is gone: the pipe's end is the archive's.
            done = subprocess.run(
                [sys.executable, __file__, folder],
                env=world, timeout=_TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout
            if part.exists():
                part.rename(_CLASSES)
        finally:
            part.unlink(missing_ok=True)


def _make_broker_classes() -> None:
    """Java writes an archive when it is asked to end: not when it is killed, as a broker of a temporary folder is."""
    from directkafka.testing import KafkaBroker

    part = _BROKER_CLASSES.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            with KafkaBroker(folder=folder, jvm_options=(f"-XX:ArchiveClassesAtExit={part}",)):
                pass
            if part.exists():
                part.rename(_BROKER_CLASSES)
        finally:
            part.unlink(missing_ok=True)


def _load_classes(folder: str) -> None:
    """Run what loads most of the classes that tests need."""
    from pyspark.sql import SparkSession

    from directkafka.testing.java import use_java

    use_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.bindAddress", "spark.driver.host"):
        builder = builder.config(name, "127.0.0.1")
    spark = builder.config("spark.local.dir", folder).config("spark.sql.shuffle.partitions", "2").getOrCreate()
    rows = spark.range(100).selectExpr("id", "CAST(id AS STRING) AS text")
    rows = rows.mapInArrow(lambda batches: batches, rows.schema)
    rows.localCheckpoint().createOrReplaceTempView("rows")
    spark.sql("SELECT id % 3 AS key, count(*) FROM rows GROUP BY 1").collect()
    spark.sparkContext.parallelize(range(10)).map(str).collect()
    rows.write.parquet(f"{folder}/rows")
    stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").writeStream
    stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.foreachBatch(lambda batch, _: batch.toArrow() and None).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        make()
    else:
        _load_classes(sys.argv[1])
