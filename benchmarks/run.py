"""`make bench`: this library beside Spark's JVM connector, in one process, on one Spark version.

Each measure runs both sides alternately, warm, several times, and prints both medians and their ratio:

- batch read of the same topic into nothing (noop) and counted, uncompressed and lz4;
- Kafka to Postgres: the direct engine, exactly once, beside `foreachBatch` with Spark's JDBC writer, fed by the
  JVM connector (at least once).

Results go to stdout as a table and to benchmarks/results/ as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from publish import RECORD_BYTES, publish
from rich.console import Console
from rich.table import Table

from directkafka.testing import EmbeddedPostgres, KafkaBroker
from directkafka.testing.java import use_java
from directkafka.testing.jvm_connector import jvm_connector_jars

console = Console(stderr=True)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One comparison; seconds are medians, spreads are (min, max) of the same runs."""

    name: str
    records: int
    ours_s: float
    theirs_s: float
    ours_spread_s: tuple[float, float]
    theirs_spread_s: tuple[float, float]
    required: float

    @property
    def ratio(self) -> float:
        return self.theirs_s / self.ours_s


def main() -> int:
    arguments = _arguments()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    use_java()
    with ExitStack() as running:
        console.print("fetching the JVM connector, starting a broker and a database")
        jars = jvm_connector_jars(console.print)
        # A benchmark's servers are tuned like servers, not for a quick start.
        options = ("-XX:TieredStopAtLevel=4", "-Xmx2g")
        broker = running.enter_context(KafkaBroker(jvm_options=options, config={"log.retention.ms": "-1"}))
        warehouse = running.enter_context(tempfile.TemporaryDirectory(prefix="directkafka-bench-"))
        spark = _spark(jars, warehouse)
        running.callback(spark.stop)
        measures = []
        if "read" in arguments.only:
            for codec in ("none", "lz4"):
                measures += _reads(spark, broker.bootstrap_servers, codec, arguments)
        if "postgres" in arguments.only:
            settings = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_wal_size": "4GB"}
            postgres = running.enter_context(EmbeddedPostgres(settings=settings))
            measures.append(_writes(spark, broker.bootstrap_servers, postgres, arguments))
    _show(measures)
    _save(measures)
    missed = [one.name for one in measures if one.ratio < one.required]
    if missed:
        console.print(f"[red]below what is required: {', '.join(missed)}")
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=6_000_000, help="records of the read measures")
    parser.add_argument("--rows", type=int, default=1_000_000, help="records of the Postgres measure")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs of each side; the median counts")
    parser.add_argument("--only", nargs="+", choices=("read", "postgres"), default=["read", "postgres"])
    return parser.parse_args()


def _spark(jars: list[Path], warehouse: str):  # noqa: ANN202 - pyspark is imported once Java is found
    from pyspark.sql import SparkSession

    import directkafka

    builder = SparkSession.builder.appName("directkafka benchmark").master("local[2]")
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "4g",
        "spark.sql.warehouse.dir": warehouse,
        "spark.python.unix.domain.socket.enabled": "true",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    directkafka.register(spark)
    return spark


def _paired(ours: Callable[[], None], theirs: Callable[[], None], repeat: int) -> tuple[list[float], list[float]]:
    """Warm both, then time them alternately, so that both see the same machine."""
    for _ in range(2):
        ours()
        theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for run, seconds in ((ours, times[0]), (theirs, times[1])):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
    return times


def _measure(name: str, records: int, times: tuple[list[float], list[float]], required: float) -> Measure:
    ours, theirs = times
    measure = Measure(
        name=name,
        records=records,
        ours_s=statistics.median(ours),
        theirs_s=statistics.median(theirs),
        ours_spread_s=(min(ours), max(ours)),
        theirs_spread_s=(min(theirs), max(theirs)),
        required=required,
    )
    console.print(f"{name}: {measure.ratio:.2f}x")
    return measure


def _reads(spark, servers: str, codec: str, arguments: argparse.Namespace) -> list[Measure]:  # noqa: ANN001
    topic = f"read-{codec}"
    console.print(f"publishing {arguments.records:,} records of {RECORD_BYTES} bytes, {codec}")
    publish(servers, topic, arguments.records, codec=codec, partitions=2)

    def frame(form: str):  # noqa: ANN202
        reader = spark.read.format(form).option("kafka.bootstrap.servers", servers)
        return reader.option("subscribe", topic).load()

    def noop(form: str) -> None:
        frame(form).write.format("noop").mode("overwrite").save()

    def count(form: str) -> None:
        found = frame(form).count()
        assert found == arguments.records, f"{form} counted {found} of {arguments.records}"

    measures = []
    for name, action in (("noop", noop), ("count", count)):
        times = _paired(lambda a=action: a("directkafka"), lambda a=action: a("kafka"), arguments.repeat)
        measures.append(_measure(f"read, {codec}, {name}", arguments.records, times, required=3.0))
    return measures


def _writes(spark, servers: str, postgres: EmbeddedPostgres, arguments: argparse.Namespace) -> Measure:  # noqa: ANN001
    from to_postgres import direct_engine, foreach_batch

    console.print(f"publishing {arguments.rows:,} records")
    publish(servers, "write", arguments.rows, codec="lz4", partitions=2)
    runs = iter(range(1_000_000))

    def ours() -> None:
        direct_engine(servers, "write", dsn=postgres.dsn, table=f"ours_{next(runs)}", rows=arguments.rows)

    def theirs() -> None:
        foreach_batch(spark, servers, "write", dsn=postgres.dsn, table=f"theirs_{next(runs)}", rows=arguments.rows)

    times = _paired(ours, theirs, arguments.repeat)
    return _measure("Kafka to Postgres, rows", arguments.rows, times, required=1.5)


def _show(measures: list[Measure]) -> None:
    table = Table(title="directkafka beside Spark's JVM connector 4.2.0", title_justify="left")
    for column in ("measure", "ours M/s", "JVM M/s", "ratio", "required", "ours s (min-max)", "JVM s (min-max)"):
        table.add_column(column, justify="left" if column == "measure" else "right")
    for one in measures:
        table.add_row(
            one.name,
            f"{one.records / one.ours_s / 1e6:.2f}",
            f"{one.records / one.theirs_s / 1e6:.2f}",
            f"{one.ratio:.2f}x",
            f"{one.required:.1f}x",
            f"{one.ours_s:.2f} ({one.ours_spread_s[0]:.2f}-{one.ours_spread_s[1]:.2f})",
            f"{one.theirs_s:.2f} ({one.theirs_spread_s[0]:.2f}-{one.theirs_spread_s[1]:.2f})",
        )
    # Wide enough for every figure, on a log file too.
    Console(width=max(console.width, 130)).print(table)


def _save(measures: list[Measure]) -> None:
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    result = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "measures": [asdict(one) | {"ratio": one.ratio} for one in measures],
    }
    (folder / "latest.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
