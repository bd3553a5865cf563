"""Which of a DataFrame's types go into which columns of SQLite and DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pytest

from directkafka.errors import RowRejectedError
from directkafka.sinks.columns import Column
from directkafka.sinks.embedded.duckdb import DuckDBDialect
from directkafka.sinks.embedded.sqlite import SQLiteDialect
from directkafka.sinks.embedded.table_schema import Dialect, FileTable, table_problems
from directkafka.sinks.write_modes import WriteMode

SQLITE, DUCKDB = SQLiteDialect(), DuckDBDialect()


def column(type_sql: str, name: str = "c") -> Column:
    return Column(name=name, type_sql=type_sql)


@pytest.mark.parametrize(
    ("kind", "fits", "fits_not"),
    [
        (pa.int64(), ["INTEGER", "BIGINT", "NUMERIC", "BOOLEAN", "ANY", ""], ["REAL", "TEXT", "BLOB"]),
        (pa.int32(), ["INT", "REAL", "double precision"], ["VARCHAR(9)"]),
        (pa.bool_(), ["INTEGER", "BOOLEAN"], ["TEXT"]),
        (pa.float64(), ["REAL", "FLOAT", "NUMERIC", ""], ["INTEGER", "FLOATING POINT", "TEXT"]),
        (pa.string(), ["TEXT", "varchar(3)", "CLOB", "ANY"], ["INTEGER", "STRING", "BLOB", "JSON"]),
        (pa.string_view(), ["TEXT"], ["REAL"]),
        (pa.dictionary(pa.int32(), pa.string()), ["TEXT"], ["REAL"]),
        (pa.binary(), ["BLOB", "ANY", ""], ["TEXT", "INTEGER"]),
        (pa.date32(), ["TEXT", "DATE"], ["INTEGER", "REAL", "BLOB"]),
        (pa.timestamp("us"), ["TEXT", "TIMESTAMP", "DATETIME"], ["INTEGER"]),
        (pa.decimal128(38, 9), ["TEXT", "ANY"], ["NUMERIC", "DECIMAL(38,9)", "REAL", "INTEGER"]),
        (pa.decimal128(15, 2), ["TEXT", "DECIMAL(15,2)"], ["REAL"]),
        (pa.list_(pa.int64()), [], ["TEXT", "ANY", ""]),
    ],
    ids=str,
)
def test_sqlite_columns_take_what_they_do_not_change(kind: pa.DataType, fits: list[str], fits_not: list[str]) -> None:
    assert {name: SQLITE.takes(kind, column(name)) for name in fits + fits_not} == (
        dict.fromkeys(fits, True) | dict.fromkeys(fits_not, False)
    )


@pytest.mark.parametrize(
    ("kind", "fits", "fits_not"),
    [
        (
            pa.int8(),
            ["TINYINT", "SMALLINT", "BIGINT", "HUGEINT", "FLOAT", "DECIMAL(3,0)"],
            ["UTINYINT", "DECIMAL(3,1)"],
        ),
        (pa.int64(), ["BIGINT", "HUGEINT", "DECIMAL(19,0)"], ["INTEGER", "DOUBLE", "DECIMAL(18,0)", "VARCHAR"]),
        (pa.int32(), ["INTEGER", "BIGINT", "DOUBLE"], ["FLOAT", "SMALLINT", "UBIGINT"]),
        (pa.uint32(), ["UINTEGER", "UBIGINT", "BIGINT"], ["INTEGER"]),
        (pa.uint64(), ["UBIGINT", "HUGEINT"], ["BIGINT"]),
        (pa.float32(), ["FLOAT", "DOUBLE"], ["INTEGER", "DECIMAL(18,3)"]),
        (pa.float64(), ["DOUBLE"], ["FLOAT"]),
        (pa.decimal128(10, 2), ["DECIMAL(10,2)", "DECIMAL(12,4)", "DECIMAL(38,2)"], ["DECIMAL(10,3)", "DECIMAL(9,2)"]),
        (pa.string(), ["VARCHAR", "JSON", "UUID", "ENUM('a', 'b')"], ["BLOB", "DATE"]),
        (pa.binary(), ["BLOB"], ["VARCHAR"]),
        (pa.timestamp("us"), ["TIMESTAMP"], ["TIMESTAMP WITH TIME ZONE", "DATE"]),
        (pa.timestamp("us", "UTC"), ["TIMESTAMP WITH TIME ZONE"], ["TIMESTAMP"]),
        (pa.list_(pa.int64()), ["BIGINT[]"], ["INTEGER[]", "VARCHAR"]),
        (pa.struct({"a": pa.int32()}), ["STRUCT(a INTEGER)"], ["STRUCT(b INTEGER)"]),
    ],
    ids=str,
)
def test_duckdb_columns_take_their_own_type_and_narrower_ones(
    kind: pa.DataType, fits: list[str], fits_not: list[str]
) -> None:
    assert {name: DUCKDB.takes(kind, column(name)) for name in fits + fits_not} == (
        dict.fromkeys(fits, True) | dict.fromkeys(fits_not, False)
    )


@pytest.mark.parametrize(
    ("dialect", "kind", "expected"),
    [
        (SQLITE, pa.int8(), "INTEGER"),
        (SQLITE, pa.float32(), "REAL"),
        (SQLITE, pa.decimal128(5, 2), None),
        (SQLITE, pa.string(), None),
        (DUCKDB, pa.int8(), "BIGINT"),
        (DUCKDB, pa.uint8(), "BIGINT"),
        (DUCKDB, pa.float32(), "DOUBLE"),
        (DUCKDB, pa.decimal128(5, 2), "DECIMAL(38,2)"),
    ],
    ids=lambda value: type(value).__name__ if value in (SQLITE, DUCKDB) else str(value),
)
def test_a_sum_gets_room_to_grow(dialect: Dialect, kind: pa.DataType, expected: str | None) -> None:
    assert dialect.creation_type(kind, is_sum=True) == expected


@pytest.mark.parametrize("dialect", [SQLITE, DUCKDB], ids=["sqlite", "duckdb"])
def test_names_of_columns_ignore_case_as_in_the_database(dialect: Dialect) -> None:
    table = FileTable(columns=(column("INTEGER", "Id"),), unique=(frozenset({"ID"}),))
    mode = WriteMode(name="upsert", key=("iD",))
    assert table_problems(pa.schema({"iD": pa.int32()}), mode, table, dialect, name="flights") == []


def test_a_text_cannot_be_added_to() -> None:
    table = FileTable(columns=(column("TEXT", "n"),))
    for dialect in (SQLITE, DUCKDB):
        mode = WriteMode(name="upsert", add=("n",))
        problems = table_problems(pa.schema({"n": pa.string()}), mode, table, dialect, name="flights")
        assert "column 'n' of type TEXT is to be added to, and is no number" in problems


def test_what_sqlite_has_no_class_for_becomes_text_and_all_else_stays() -> None:
    schema = pa.schema({"n": pa.int64(), "day": pa.date32(), "at": pa.timestamp("ms", "UTC")})
    convert = SQLITE.converter(schema, store="here", sink="flights")
    batch = convert(pa.record_batch([pa.array([1, None]), pa.array([0, None], pa.date32()),
                                     pa.array([1500, None], pa.timestamp("ms", "UTC"))], schema=schema))  # fmt: skip
    assert batch.to_pydict() == {
        "n": [1, None], "day": ["1970-01-01", None], "at": ["1970-01-01 00:00:01.500000+00:00", None],
    }  # fmt: skip


def test_a_year_that_no_text_has_is_refused_by_column() -> None:
    schema = pa.schema({"n": pa.int64(), "at": pa.timestamp("us", "UTC")})
    convert = SQLITE.converter(schema, store="here", sink="flights")
    at = pa.array([0, 2_070_000_000_000_000_000], pa.timestamp("us", "UTC"))
    with pytest.raises(RowRejectedError, match=r"'at': .* outside the years 1 to 9999 \(row 1 "):
        convert(pa.record_batch([pa.array([1, 2]), at], schema=schema))


def test_a_nan_is_refused_by_column() -> None:
    convert = SQLITE.converter(pa.schema({"delay": pa.float32()}), store="here", sink="flights")
    with pytest.raises(RowRejectedError, match=r"'delay': NaN"):
        convert(pa.record_batch({"delay": pa.array([float("nan")], pa.float32())}))
