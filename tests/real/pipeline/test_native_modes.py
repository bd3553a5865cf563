"""Native pipelines in every mode, into every store that has it: what the table has in the end is what the mode says."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.chaos.pipelines import PARTITIONS
from tests.contract.mysql_harness import MySQLHarness
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.test_native import native, number_of

from directkafka import ArrowTransform, DeltaSink, DuckDBSink, MySQLSink, PostgresSink, SQLiteSink
from directkafka.sinks.api import Sink

pytestmark = pytest.mark.real

#: A key has records in every batch and in every partition.
KEYS = 5
Row = tuple[int, int]


def keyed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A key, and the record's number."""
    numbers = number_of(batch)
    keys = pa.array([number % KEYS for number in numbers.to_pylist()], pa.int64())
    return pa.RecordBatch.from_arrays([keys, numbers], ["id", "number"])


@dataclass(frozen=True)
class Tables:
    """One table of each store."""

    dsn: str
    mysql: str
    folder: Path

    def sinks(self, **mode: Any) -> list[Sink]:
        return cast(
            "list[Sink]",
            [
                PostgresSink(self.dsn, "numbers", **mode),
                MySQLSink(self.mysql, "numbers", **mode),
                SQLiteSink(self.folder / "numbers.sqlite", "numbers", **mode),
                DuckDBSink(self.folder / "numbers.duckdb", "numbers", **mode),
                DeltaSink(self.folder / "delta", **mode),
            ],
        )

    def rows(self, world: World) -> dict[str, list[Row]]:
        """What each store has."""
        query = "SELECT id, number FROM numbers"
        rows: dict[str, list[Row]] = {
            "postgres": [(int(key), int(number)) for key, number in world.query(query)],
            "mysql": [(int(key), int(number)) for key, number in MySQLHarness(self.mysql).query(query)],
        }
        connects: Mapping[str, Callable[[str], Any]] = {"sqlite": sqlite3.connect, "duckdb": duckdb.connect}
        for kind, connect in connects.items():
            with closing(connect(str(self.folder / f"numbers.{kind}"))) as connection:
                rows[kind] = connection.execute(query).fetchall()
        delta = DeltaTable(self.folder / "delta").to_pyarrow_table()
        rows["delta"] = list(zip(delta["id"].to_pylist(), delta["number"].to_pylist(), strict=True))
        return {store: sorted(stored) for store, stored in rows.items()}


@pytest.fixture
def tables(world: World, mysql_database: str, tmp_path: Path) -> Tables:
    return Tables(dsn=world.dsn, mysql=mysql_database, folder=tmp_path)


def highest() -> list[Row]:
    return sorted((key, max(range(key, COUNT, KEYS))) for key in range(KEYS))


def added_up() -> list[Row]:
    return sorted((key, sum(range(key, COUNT, KEYS))) for key in range(KEYS))


@pytest.mark.parametrize("inline_bytes_max", [1 << 24, pytest.param(0, marks=pytest.mark.slow)], ids=["held", "staged"])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param({"mode": "merge", "key": ["id"], "add": ["number"]}, added_up, id="merge"),
        pytest.param(
            {"mode": "upsert", "key": ["id"], "order": ["number"]}, highest, id="upsert", marks=pytest.mark.slow
        ),
        pytest.param(
            {"mode": "append"},
            lambda: sorted((number % KEYS, number) for number in range(COUNT)),
            id="append",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_rows_are_what_the_mode_says(
    mode: dict[str, Any], expected: Callable[[], list[Row]], inline_bytes_max: int, world: World, tables: Tables
) -> None:
    sinks = tables.sinks(**mode)
    for sink in sinks[:-1]:
        sink.inline_bytes_max = inline_bytes_max  # type: ignore[attr-defined]
    native(world.pipeline(ArrowTransform(keyed), sinks=sinks)).run()
    assert tables.rows(world) == dict.fromkeys(tables.rows(world), expected())


@pytest.mark.slow
def test_ignore_leaves_one_row_of_each_key_and_it_is_of_the_first_batch(world: World, tables: Tables) -> None:
    native(world.pipeline(ArrowTransform(keyed), sinks=tables.sinks(mode="ignore", key=["id"]))).run()
    for store, rows in tables.rows(world).items():
        assert [key for key, _ in rows] == list(range(KEYS)), store
        assert all(number % KEYS == key and number < COUNT // PARTITIONS for key, number in rows), (store, rows)


@pytest.mark.slow
def test_replace_leaves_the_last_batch(world: World, tables: Tables) -> None:
    native(world.pipeline(ArrowTransform(keyed), sinks=tables.sinks(mode="replace"))).run()
    last = tables.rows(world)["postgres"]
    assert 0 < len(last) < COUNT
    assert (max(number for _, number in last), len(set(last))) == (COUNT - 1, len(last))
    assert tables.rows(world) == dict.fromkeys(tables.rows(world), last)


@pytest.mark.slow
def test_a_table_s_rows_and_what_the_pipeline_counts_agree_where_rows_were_folded(world: World, tables: Tables) -> None:
    reports: list[Any] = []
    sinks = tables.sinks(mode="merge", key=["id"], add=["number"])
    world.pipeline(ArrowTransform(keyed), sinks=sinks, report=reports.append).run()
    assert [sum(batch.rows.values()) for batch in reports] == [30 * len(sinks)] * (COUNT // 30)
