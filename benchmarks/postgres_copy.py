"""Arrow to Postgres: rows a second of the encoder alone, of encoder and COPY, and of psycopg's write_row.

Run ``python benchmarks/postgres_copy.py [DSN]``; without a DSN an embedded server is started, with fsync. Every run
has a fresh table, and its rows are counted afterwards. Median and range of the runs are told, and the client's own
CPU time: with a core for each side the server is what limits the wall clock, so a cheaper client shows there
first. The rows are one batch of 10,000 again and again, in the processor's cache: the encoder's best case.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from directkafka.sinks.postgres.copy_encoder import RowEncoder
from directkafka.sinks.postgres.copy_format import Wire, WireColumn, copy_chunks
from directkafka.testing import EmbeddedPostgres

ROWS = 1_000_000
BATCH_ROWS = 10_000
REPEATS = 5


@dataclass(frozen=True)
class Case:
    name: str
    definitions: str
    columns: tuple[WireColumn, ...]
    batch: pa.RecordBatch


def cases() -> Iterator[Case]:
    random = np.random.default_rng(1)
    ids = pa.array(random.integers(0, 2**40, BATCH_ROWS))
    delays = pa.array(random.integers(-60, 600, BATCH_ROWS).astype(np.int32))
    carriers = pa.array(np.array(["AA", "UA", "DL", "EV"])[random.integers(0, 4, BATCH_ROWS)])
    yield Case(
        name="3 columns: bigint, integer, text",
        definitions="id bigint, delay integer, carrier text",
        columns=_columns(id=Wire.INT8, delay=Wire.INT4, carrier=Wire.TEXT),
        batch=pa.record_batch({"id": ids, "delay": delays, "carrier": carriers}),
    )
    moments = pa.array(random.integers(0, 2**50, BATCH_ROWS)).cast(pa.timestamp("us", "UTC"))
    fares = pa.array(random.integers(0, 10**9, BATCH_ROWS)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 4))
    yield Case(
        name="6 columns: and timestamptz, numeric, boolean",
        definitions="id bigint, delay integer, carrier text, at timestamptz, fare numeric, late boolean",
        columns=_columns(
            id=Wire.INT8,
            delay=Wire.INT4,
            carrier=Wire.TEXT,
            at=Wire.TIMESTAMP,
            fare=Wire.NUMERIC,
            late=Wire.BOOL,
        ),
        batch=pa.record_batch(
            {
                "id": ids,
                "delay": delays,
                "carrier": carriers,
                "at": moments,
                "fare": fares,
                "late": pa.array(random.integers(0, 2, BATCH_ROWS).astype(bool)),
            }
        ),
    )


def _columns(**wires: Wire) -> tuple[WireColumn, ...]:
    return tuple(WireColumn(name=name, wire=wire) for name, wire in wires.items())


def report(name: str, run: Callable[[], None], before: Callable[[], None], after: Callable[[], None]) -> None:
    """Run it some times; print M rows a second and the client's CPU seconds per million rows."""
    rates, cpu = [], []
    for _ in range(REPEATS):
        before()
        start, start_cpu = time.perf_counter(), time.process_time()
        run()
        cpu.append((time.process_time() - start_cpu) * 1e6 / ROWS)
        rates.append(ROWS / (time.perf_counter() - start) / 1e6)
        after()
    print(
        f"  {name:18} median {median(rates):6.2f} (from {min(rates):.2f} to {max(rates):.2f}) M rows/s, "
        f"client {median(cpu):.3f} CPU s per M rows"
    )


def measure(case: Case, connection: psycopg.Connection, kind: str) -> None:
    encoder = RowEncoder(columns=case.columns, store="benchmark", sink="flights")
    batches = [case.batch] * (ROWS // BATCH_ROWS)
    statement = sql.SQL("COPY flights FROM STDIN (FORMAT binary)").format()
    rows = list(zip(*(column.to_pylist() for column in case.batch.columns), strict=True))
    types = [column.split()[1] for column in case.definitions.split(", ")]

    def encode() -> None:
        deque((chunk for batch in batches for chunk in encoder.chunks(batch)), maxlen=0)

    def copy() -> None:
        with connection.cursor() as cursor:
            chunks = (chunk for batch in batches for chunk in encoder.chunks(batch))
            copy_chunks(cursor, statement, chunks)

    def write_row() -> None:
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(types)
            for _ in batches:
                for row in rows:
                    copy.write_row(row)

    def fresh() -> None:
        connection.execute("DROP TABLE IF EXISTS flights")
        connection.execute(f"CREATE {kind} TABLE flights ({case.definitions})")
        connection.execute("CHECKPOINT")

    def all_there() -> None:
        count_row = connection.execute("SELECT count(*) FROM flights").fetchone()
        assert count_row == (ROWS,), count_row

    def nothing() -> None:
        """The encoder alone writes to no table."""

    print(f"{case.name}  ({kind or 'ordinary'} table, {ROWS:,} rows, {REPEATS} runs)")
    report("encode alone", encode, nothing, nothing)
    report("encode and COPY", copy, fresh, all_there)
    report("psycopg write_row", write_row, fresh, all_there)


@contextmanager
def server(dsn: str | None) -> Iterator[str]:
    if dsn:
        yield dsn
        return
    with EmbeddedPostgres(settings={"fsync": "on"}) as postgres:
        yield postgres.dsn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn", nargs="?")
    parser.add_argument("--logged", action="store_true", help="an ordinary table, with the server's log")
    options = parser.parse_args()
    with server(options.dsn) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        for case in cases():
            measure(case, connection, "" if options.logged else "UNLOGGED")


if __name__ == "__main__":
    main()
