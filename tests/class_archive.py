"""Spark's classes, loaded and verified once for all JVMs of a run: Java's class data sharing (JEP 350).

A JVM that starts Spark and runs one query takes 12 s of processor time, 5 of them to load and verify classes. With an
archive of them those 5 go; to make it takes 20 s, once for each environment. A JVM whose jars are others than those of
the archive does without, and says nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

#: What every JVM of the tests that starts Spark gets: the compiler that starts quickest and the collector without
#: threads take half of the JVM's time away. Nothing here runs long enough to earn it back. An archive holds for the
#: collector that it was made with.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"

_TIMEOUT_S = 120


def archive(environment: Path = Path(sys.prefix)) -> Path:
    """Where the archive of a virtual environment lies, if it was made."""
    return environment / f"spark-{version('pyspark')}-classes.jsa"


def jvm_options() -> str:
    """``JVM_OPTIONS``, with the archive where there is one."""
    return f"{JVM_OPTIONS} -XX:SharedArchiveFile={archive()}" if archive().exists() else JVM_OPTIONS


def make_archive() -> None:
    """Make this environment's archive, unless it is there. A Java that cannot make one leaves none."""
    made = archive()
    if made.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        part = made.with_suffix(f".{os.getpid()}")
        world = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": f"{JVM_OPTIONS} -XX:-UsePerfData -Djava.io.tmpdir={folder} "
            f"-XX:ArchiveClassesAtExit={part}",
        }
        # The JVM inherits the pipe, and writes the archive when Python is gone: the pipe's end is the archive's.
        program = [sys.executable, __file__, folder]
        try:
            done = subprocess.run(
                program,
                check=False,
                env=world,
                timeout=_TIMEOUT_S,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert done.returncode == 0, done.stdout
            if part.exists():
                part.rename(made)
        finally:
            part.unlink(missing_ok=True)


def _use_what_tests_use(folder: str) -> None:
    """Run what loads most of the classes that tests need."""
    from pyspark.sql import SparkSession

    from directkafka.testing.java import use_java

    use_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.bindAddress", "spark.driver.host"):
        builder = builder.config(name, "127.0.0.1")
    spark = builder.config("spark.local.dir", folder).config("spark.sql.shuffle.partitions", "2").getOrCreate()
    rows = (
        spark.range(100)
        .selectExpr("id", "CAST(id AS STRING) AS text")
        .mapInArrow(lambda batches: batches, "id LONG, text STRING")
    )
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
        make_archive()
    else:
        _use_what_tests_use(sys.argv[1])
