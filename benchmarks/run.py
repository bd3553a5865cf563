"""`make bench`: this library beside Spark's JVM connector and others, in one run, on one Spark version.

Each measure warms all sides, runs them alternately several times, and prints medians, their ratio, and what is
required of it. The exit code says whether all of it holds. Results go to stdout as a table, to benchmarks/results/ as
JSON, and, for runs of the sizes that the pages tell of, into docs/performance.md and README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from figures import Figure, console, save, show
from pages import write_pages
from session import Sessions

from directkafka.testing import EmbeddedPostgres, KafkaBroker
from directkafka.testing.java import use_java
from directkafka.testing.jvm_connector import jvm_connector_jars, spark_avro_jars

GROUPS = (
    "process",
    "cold",
    "starts",
    "memory",
    "codecs",
    "sizes",
    "plain",
    "headers",
    "columns",
    "transactions",
    "streams",
    "partitions",
    "lengths",
    "rdds",
    "dstreams",
    "driver",
    "writes",
    "postgres",
    "appends",
    "upserts",
    "kafka",
    "json",
    "payloads",
    "copy",
    "peers",
    "files",
    "operate",
)


def main() -> int:
    """Run what is asked for; 1 when a figure misses its bound."""
    arguments = _arguments()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark's Python workers import what the tasks of some sides run, and the package from where this process has it.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    # Some measures take their records from the tests.
    sys.path.append(str(Path(__file__).parents[1]))
    use_java()
    with ExitStack() as running:
        console.print("fetching the JVM connector, starting a broker")
        jars = [*jvm_connector_jars(console.print), *spark_avro_jars(console.print)]
        # A benchmark's servers are tuned like servers, not for a quick start.
        options = ("-XX:TieredStopAtLevel=4", "-Xmx2g")
        config = {"log.retention.ms": "-1", "transaction.state.log.num.partitions": "8"}
        broker = running.enter_context(KafkaBroker(jvm_options=options, config=config))
        figures_by_group = {}
        for group, measure in _measures(arguments, running, jars, broker.bootstrap_servers).items():
            if group in arguments.only:
                console.rule(group)
                figures_by_group[group] = measure()
    figures = [figure for of_group in figures_by_group.values() for figure in of_group]
    show(figures)
    save(figures)
    if not arguments.keep_pages:
        write_pages(figures_by_group)
    return 0 if all(figure.is_met for figure in figures) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--records", type=int, default=6_000_000, help="small records of a topic (default: %(default)s)"
    )
    parser.add_argument("--longest", type=int, default=50_000_000, help="of the longest range (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows into Postgres (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs of each side (default: %(default)s)")
    parser.add_argument("--keep-pages", action="store_true", help="leave docs/performance.md and README.md as they are")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help="groups of measures")
    arguments = parser.parse_args()
    sizes = ("records", "longest", "rows", "repeat")
    # The pages tell of the sizes that are the default.
    arguments.keep_pages |= any(getattr(arguments, size) != parser.get_default(size) for size in sizes)
    return arguments


def _measures(
    arguments: argparse.Namespace, running: ExitStack, jars: list[Path], servers: str
) -> dict[str, Callable[[], list[Figure]]]:
    """The groups in the order in which they run.

    First what must not have a Spark beside it, then what must not come behind groups that leave memory allocated.
    """
    sessions = Sessions(jars, running.enter_context(tempfile.TemporaryDirectory(prefix="directkafka-bench-")))
    running.callback(sessions.stop)
    spark = sessions.advised
    databases: list[EmbeddedPostgres] = []

    def database() -> str:
        if not databases:
            settings = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_wal_size": "4GB"}
            databases.append(running.enter_context(EmbeddedPostgres(settings=settings)))
        return databases[0].dsn

    import growth
    import one_process
    import reads
    import starts
    import streams
    import writes

    records, repeat = arguments.records, arguments.repeat
    counted = {"records": records, "repeat": repeat}
    rows = {"rows": arguments.rows, "repeat": repeat}
    return {
        "process": partial(one_process.one_process, servers, **counted),
        "cold": partial(streams.cold_start, servers, jars, repeat=repeat),
        "starts": partial(starts.starts, servers, repeat=repeat),
        "memory": lambda: list(import_module("memory").memory(spark(), servers, database(), **rows)),
        "codecs": lambda: reads.codecs(spark(), servers, **counted),
        "sizes": lambda: reads.sizes(spark(), servers, **counted),
        "plain": lambda: reads.plain(sessions.plain(), servers, **counted),
        "headers": lambda: reads.headers(spark(), servers, **counted),
        "columns": lambda: reads.columns(spark(), servers, **counted),
        "transactions": lambda: reads.transactions(spark(), servers, **counted),
        "streams": lambda: streams.micro_batches(spark(), servers, repeat=repeat),
        "partitions": lambda: growth.partitions(spark(), servers, **counted),
        "lengths": lambda: growth.lengths(spark(), servers, longest=arguments.longest, repeat=repeat),
        "rdds": lambda: import_module("direct").rdds(spark(), servers, **counted),
        "dstreams": lambda: import_module("direct").dstreams(spark(), servers),
        "driver": lambda: import_module("direct").driver_work(spark(), repeat=repeat),
        "writes": lambda: writes.writes(spark(), servers, **counted),
        **_sinks(spark, database, servers, rows),
        "operate": lambda: import_module("operate").operate(spark(), servers, repeat=repeat),
    }


def _sinks(
    spark: Callable[[], Any], database: Callable[[], str], servers: str, rows: Mapping[str, int]
) -> dict[str, Callable[[], list[Figure]]]:
    """What is measured of the sinks; their modules import pyspark."""

    def group(module: str, name: str, *, with_database: bool) -> list[Figure]:
        session = spark()
        measure = getattr(import_module(module), name)
        return list(measure(session, servers, *([database()] if with_database else []), **rows))

    return {
        "postgres": partial(group, "to_postgres", "kafka_to_postgres", with_database=True),
        "appends": partial(group, "tables", "appends", with_database=True),
        "upserts": partial(group, "tables", "upserts", with_database=True),
        "kafka": partial(group, "to_kafka", "kafka_to_kafka", with_database=False),
        "json": partial(group, "json_rows", "json_rows", with_database=True),
        "payloads": partial(group, "payload_rows", "payloads", with_database=False),
        "copy": partial(group, "copy_share", "copy_share", with_database=True),
        "peers": partial(group, "peers", "peers", with_database=True),
        "files": partial(group, "to_files", "kafka_to_files", with_database=False),
    }


if __name__ == "__main__":
    sys.exit(main())
