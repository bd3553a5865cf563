"""A native pipeline of JSON beside COPY alone: what share of the time is Postgres' own.

COPY alone is one statement in one transaction: it reads the same rows from a binary file that the server itself wrote.
The pipeline reads the records from Kafka, parses them, and commits rows and offsets of each batch in one transaction;
its start and its ledger are timed with it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import psycopg
from figures import Figure, alternately, console, ratio
from json_flights import TABLE, flights
from json_rows import native
from peers import Table
from publish import publish_values
from pyspark.sql import SparkSession

__all__ = ["copy_share"]

_TOPIC: Final = "copy-share"
_PARTITIONS: Final = 2
_TIMES_ROWS: Final = 4


def copy_share(spark: SparkSession, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """Four million rows of ten columns, unless ``rows`` says otherwise.

    Args:
        spark: running, so that pipelines find it warm.
    """
    count = _TIMES_ROWS * rows
    console.print(f"publishing {count:,} records of JSON")
    publish_values(servers, _TOPIC, flights(count), partitions=_PARTITIONS)
    table = Table(dsn, rows=count)
    table.make("file")
    native(servers, _TOPIC, dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        ((folder,),) = connection.execute("SHOW data_directory").fetchall()
        file = Path(folder) / "copy-share.binary"
        connection.execute(f"COPY {TABLE} TO '{file}' (FORMAT binary)")
    seconds = alternately(
        {"ours": partial(native, servers, _TOPIC, dsn), "COPY": partial(_copy, dsn, file)},
        repeat,
        before=table.make,
        after=table.check,
    )
    name = "JSON to ten columns of Postgres, native: share of COPY alone"
    return [ratio(name, seconds, over="COPY", required=65, records=count, unit="%")]


def _copy(dsn: str, file: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"COPY {TABLE} FROM '{file}' (FORMAT binary)")
