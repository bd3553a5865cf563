"""Every word that SQL knows, as the name of a column and of a table, in every mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.real.sinks.batches import problems_of, run, run_all
from tests.real.sinks.test_file_sinks import File

from directkafka.errors import OptionError
from directkafka.testing.store_driver import Job

#: https://www.sqlite.org/lang_keywords.html, and names that SQLite knows beside them.
_SQLITE_TEXT = """
abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade case
cast check collate column commit conflict constraint create cross current current_date current_time current_timestamp
database default deferrable deferred delete desc detach distinct do drop each else end escape except exclude exclusive
exists explain fail filter first following for foreign from full generated glob group groups having if ignore immediate
in index indexed initially inner insert instead intersect into is isnull join key last left like limit match
materialized natural no not nothing notnull null nulls of offset on or order others outer over partition plan pragma
preceding primary query raise range recursive references regexp reindex release rename replace restrict returning right
rollback row rows savepoint select set table temp temporary then ties to transaction trigger unbounded union unique
update using vacuum values view virtual when where window with without
true false strict rowid oid _rowid_ main excluded stored any blob integer
"""
SQLITE = _SQLITE_TEXT.split()

#: What statements of ours call tables and columns.
OURS = ["held", "coming", "ranked", "place", "c0", "c1", "batch", "records", "directkafka_rank", 'k"{0}%s', "Zürich"]

MODES = ("append", "ignore", "upsert", "merge", "replace")


def words(kind: str, *, every: bool = True) -> list[str]:
    """DuckDB knows many words more than SQL reserves; ``every`` is for all of them."""
    if kind == "sqlite":
        return SQLITE + OURS
    with duckdb.connect(":memory:") as connection:
        known = connection.execute("SELECT keyword_name, keyword_category FROM duckdb_keywords()").fetchall()
    reserved = {word for word, category in known if every or category == "reserved"}
    return sorted({*reserved, *OURS, *(SQLITE if every else ("true", "false", "rowid", "excluded"))})


EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])


@pytest.fixture(params=["sqlite", "duckdb"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> File:
    return File(request.param, tmp_path / f"flights.{request.param}")


def job_of(file: File) -> Job:
    return Job(file.sink("some").store).start()


def batch(first: int, names: list[str], *, base: int) -> pa.Table:
    """Two rows, with the ids ``first`` and ``first + 1``; each column has a number of its own."""
    columns = {name: [base + 1000 * number, base + 1000 * number] for number, name in enumerate(names)}
    return pa.table({"id": [first, first + 1]} | columns)


def row(first: int, names: list[str], base: int) -> tuple[int, ...]:
    return (first, *(base + 1000 * number for number in range(len(names))))


def expected(mode: str, names: list[str]) -> list[tuple[int, ...]]:
    """Of two batches, with the ids 1 and 2, and 2 and 3."""
    older, newer = row(2, names, 100), row(2, names, 200)
    first, last = row(1, names, 100), row(3, names, 200)
    both = (2, *(a + b for a, b in zip(older[1:], newer[1:], strict=True)))
    return {
        "append": [first, older, newer, last],
        "ignore": [first, older, last],
        "upsert": [first, newer, last],
        "merge": [first, both, last],
        "replace": [newer, last],
    }[mode]


#: DuckDB takes several times as long as SQLite for each statement: of it the quick run has the modes with a key.
IN_MODES = pytest.mark.parametrize(
    ("file", "mode"),
    [
        pytest.param(kind, mode, marks=() if kind == "sqlite" or mode in ("upsert", "merge") else pytest.mark.slow)
        for kind in ("sqlite", "duckdb")
        for mode in MODES
    ],
    indirect=["file"],
)


@EVERY
@IN_MODES
def test_columns_have_any_name(file: File, mode: str, every: bool) -> None:
    names = words(file.kind, every=every)
    key = ["id"] if mode in ("ignore", "upsert", "merge") else None
    sink = file.sink("flights", mode, key, names if mode == "merge" else None, names if mode == "upsert" else None)
    job = job_of(file)
    run(job, sink, batch(1, names, base=100))
    run(job, sink, batch(2, names, base=200))
    assert file.execute("SELECT * FROM flights ORDER BY 1, 2") == expected(mode, names)
    assert sink.recount().sums == (
        {
            name: sum(expected_row[1 + number] for expected_row in expected(mode, names))
            for number, name in enumerate(names)
        }
        if mode == "merge"
        else {}
    )


@EVERY
@pytest.mark.parametrize("mode", ["ignore", "upsert", "merge"])
def test_keys_have_any_name(file: File, mode: str, every: bool) -> None:
    """All but one column are the key: a word that is taken for something else makes two keys one, or one two."""
    names, job = words(file.kind, every=every), job_of(file)
    sink = file.sink("flights", mode, names, ["n"] if mode == "merge" else None)

    def rows(*bases: int, n: int) -> pa.Table:
        keys = {name: [base + 1000 * number for base in bases] for number, name in enumerate(names)}
        return pa.table({**keys, "n": [n] * len(bases)})

    run(job, sink, rows(1, 2, n=10))
    run(job, sink, rows(2, 3, n=20))
    stored_rows = [(stored_row[0], stored_row[-1]) for stored_row in file.execute("SELECT * FROM flights ORDER BY 1")]
    assert stored_rows == [(1, 10), (2, {"ignore": 10, "upsert": 20, "merge": 30}[mode]), (3, 20)]


@IN_MODES
def test_tables_have_any_name(file: File, mode: str) -> None:
    """Several at a time, all in one transaction; a quarter of the words, each in one of the modes."""
    check_tables(file, mode, words(file.kind, every=False)[MODES.index(mode) :: 4 * len(MODES)])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_tables_have_any_name_in_any_mode(file: File, mode: str) -> None:
    check_tables(file, mode, words(file.kind))


def check_tables(file: File, mode: str, names: list[str]) -> None:
    key, add = (["id"] if mode in ("ignore", "upsert", "merge") else None), (["true"] if mode == "merge" else None)
    sinks: list[Any] = [file.sink('"' + name.replace('"', '""') + '"', mode, key, add) for name in names]
    job = job_of(file)
    for first, base in ((1, 100), (2, 200)):
        run_all(job, sinks, batch(first, ["true"], base=base))
    wanted = expected(mode, ["true"])
    for word in names:
        target = word.replace('"', '""')
        assert file.execute(f'SELECT * FROM "{target}" ORDER BY 1, 2') == wanted, word


@pytest.mark.parametrize("table", ["directkafka_batch", "DirectKafka_Ledger"])
def test_tables_of_our_own_are_no_targets(file: File, table: str) -> None:
    with pytest.raises(OptionError, match="is a table of directkafka's own"):
        file.sink(table)


def test_a_file_s_name_is_no_schema_of_duckdb_s(tmp_path: Path) -> None:
    """``flights.delays`` in ``flights.duckdb`` would be ``main.delays``."""
    file = File("duckdb", tmp_path / "flights.duckdb")
    assert "write schema.table" in problems_of(file.sink("flights.delays"), id=pa.int64())
    assert file.execute("SELECT * FROM duckdb_tables() WHERE table_name = 'delays'") == []
