"""Rows of ten columns into Postgres: appended, upserted, and beside what Postgres alone takes.

Our side is a pipeline, exactly once: it reads a topic, and commits rows and offsets in one transaction a batch. The
other sides write the same rows, at least once. What is timed of a pipeline is the whole run, its start and its ledger
included; tables are made before and counted after.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
from figures import Figure, Run, alternately, console, ratio
from publish import publish, publish_values
from ten_columns import NAMES, TenColumns, jdbc_address, rows_of, upsert_sql

from directkafka import Pipeline, PostgresSink

__all__ = ["appends", "upserts"]

BATCH: Final = 500_000
_PARTITIONS: Final = 2
_JDBC_BATCH_SIZES: Final = (1_000, 10_000, 50_000)
_EXECUTED_AT_ONCE: Final = 10_000
_ID_OF_RECORD: Final = f"offset * {_PARTITIONS} + partition"

_runs = itertools.count()


def appends(spark: Any, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """Append, with rows that Spark makes itself, and with rows from a topic."""
    _publish_ranges(servers, "append-ranges", rows)
    console.print(f"publishing {rows:,} records")
    publish(servers, "appends", rows, codec="lz4", partitions=_PARTITIONS)
    table = TenColumns(dsn, rows=rows)
    around: dict[str, Any] = {"before": table.make, "after": table.check}
    spark.range(0, rows, 1, _PARTITIONS).createOrReplaceTempView("ids")
    made = spark.sql(rows_of("id", "ids"))
    size = _best_jdbc_batch_size(made, table, dsn)
    alone = _postgres_alone(made, table, dsn)

    ours = partial(_pipeline, servers, "append-ranges", _of_range(), PostgresSink(dsn, table.name), batch=_PARTITIONS)
    seconds = alternately({"ours": ours, "JDBC": partial(_jdbc, made, dsn, size), **alone}, repeat, **around)
    best = min(alone, key=lambda name: statistics.median(seconds[name]))
    figures = [
        ratio(
            f"append, rows made by Spark, beside JDBC, batchsize {size:,}",
            seconds,
            over="JDBC",
            required=2.5,
            records=rows,
        ),
        ratio(
            f"append, share of what Postgres alone takes ({best})",
            seconds,
            over=best,
            required=60,
            records=rows,
            unit="%",
        ),
    ]
    read = spark.read.format("directkafka").option("kafka.bootstrap.servers", servers).option("subscribe", "appends")
    read.load().createOrReplaceTempView("records")
    theirs = partial(_jdbc, spark.sql(rows_of(_ID_OF_RECORD, "records")), dsn, size)
    ours = partial(
        _pipeline, servers, "appends", rows_of(_ID_OF_RECORD, "source"), PostgresSink(dsn, table.name), batch=BATCH
    )
    seconds = alternately({"ours": ours, "JDBC": theirs}, repeat, **around)
    name = "append, rows from Kafka, both by our source, beside JDBC"
    return [*figures, ratio(name, seconds, over="JDBC", required=2.5, records=rows)]


def upserts(spark: Any, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """Upsert of rows of which half are there, beside psycopg's ``executemany`` in ``foreachPartition``."""
    _publish_ranges(servers, "upsert-ranges", rows)
    table = TenColumns(dsn, rows=rows, keys=True)
    spark.range(0, rows, 1, _PARTITIONS).createOrReplaceTempView("ids")
    made = spark.sql(rows_of("id", "ids"))
    sides: dict[str, Run] = {
        "ours": partial(
            _pipeline,
            servers,
            "upsert-ranges",
            _of_range(),
            PostgresSink(dsn, table.name, "upsert", ["id"]),
            batch=_PARTITIONS,
        ),
        "executemany": lambda: made.foreachPartition(partial(_execute_many, dsn)),
    }
    seconds = alternately(sides, repeat, before=table.make, after=table.check)
    return [ratio("upsert, half of the rows are there", seconds, over="executemany", required=2.0, records=rows)]


def _publish_ranges(servers: str, topic: str, rows: int) -> None:
    """Records that stand for ranges of rows, which Spark makes: a batch has one of each partition, and so two tasks."""
    console.print(f"{rows:,} rows in batches of {BATCH:,}")
    assert rows % BATCH == 0, f"--rows must be a multiple of {BATCH:,}"
    publish_values(servers, topic, [b"a part of a batch"] * (rows // BATCH * _PARTITIONS), partitions=_PARTITIONS)


def _of_range() -> str:
    part = BATCH // _PARTITIONS
    first = f"(offset * {_PARTITIONS} + partition) * {part}"
    return rows_of(f"explode(sequence({first}, {first} + {part - 1}))", "source")


def _pipeline(servers: str, topic: str, query: str, sink: PostgresSink, *, batch: int) -> None:
    Pipeline(
        f"bench-{next(_runs)}",
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(batch),
        },
        transform=query,
        sinks=sink,
        trigger="available-now",
        report=lambda report: None,
    ).run()


def _jdbc(frame: Any, dsn: str, size: int) -> None:
    url, user, password = jdbc_address(dsn)
    properties = {"user": user, "password": password, "driver": "org.postgresql.Driver", "batchsize": str(size)}
    frame.write.jdbc(url, TenColumns.name, mode="append", properties=properties)


def _best_jdbc_batch_size(frame: Any, table: TenColumns, dsn: str) -> int:
    sides = {str(size): partial(_jdbc, frame, dsn, size) for size in _JDBC_BATCH_SIZES}
    seconds = alternately(sides, 1, before=table.make, after=table.check)
    for size, (taken,) in seconds.items():
        console.print(f"JDBC with batchsize {size}: {taken:.2f} s")
    return int(min(seconds, key=lambda size: seconds[size]))


def _postgres_alone(frame: Any, table: TenColumns, dsn: str) -> dict[str, Callable[[], None]]:
    """COPY of the same rows from files that the server itself has written and reads, in both formats."""
    table.make("file")
    _jdbc(frame, dsn, _JDBC_BATCH_SIZES[1])
    sides: dict[str, Callable[[], None]] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        ((folder,),) = connection.execute("SHOW data_directory").fetchall()
        for form in ("binary", "text"):
            file = Path(folder) / f"rows.{form}"
            connection.execute(f"COPY {table.name} TO '{file}' (FORMAT {form})")
            sides[f"COPY {form}"] = partial(_copy_file, dsn, file, form)
    return sides


def _copy_file(dsn: str, file: Path, form: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"COPY {TenColumns.name} FROM '{file}' (FORMAT {form})")


def _execute_many(dsn: str, rows: Iterable[tuple[object, ...]]) -> None:
    """What a task runs: one transaction, in pipeline mode, as psycopg's ``executemany`` does by itself."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        coming = iter(rows)
        while chunk := list(itertools.islice(coming, _EXECUTED_AT_ONCE)):
            cursor.executemany(upsert_sql(NAMES), chunk)
