"""What of a DataFrame fits into a table, and what a staging table is made of."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from directkafka.sinks.mysql.sink import MySQLSink
from directkafka.sinks.mysql.table_schema import Table, TableColumn, takes

AT = TableColumn(name="at", type_sql="timestamp(6)", base_type="timestamp", scale=6)
TABLE = Table(schema="air", name="t", kind="BASE TABLE", engine="InnoDB", columns=(AT,))
ROWS = pa.schema([("at", pa.timestamp("us", "UTC"))])


@pytest.mark.parametrize(
    ("type_sql", "members"),
    [
        ("enum('a','b')", ("a", "b")),
        ("enum('')", ("",)),
        ("enum('','it''s',''',',''')')", ("", "it's", "',", "')")),
        (r"enum('a\\b','\n','\0')", ("a\\b", "\n", "\0")),
    ],
)
def test_an_enum_has_the_texts_that_its_type_says(type_sql: str, members: tuple[str, ...]) -> None:
    assert TableColumn(name="kind", type_sql=type_sql, base_type="enum").members == members


def test_a_column_that_is_no_enum_has_no_texts() -> None:
    assert TableColumn(name="kind", type_sql="set('a')", base_type="set").members == ()


@pytest.mark.parametrize(("type_sql", "base"), [("double(10,2)", "double"), ("float(7,0) unsigned", "float")])
def test_a_column_that_rounds_without_a_word_takes_nothing(type_sql: str, base: str) -> None:
    column = TableColumn(name="n", type_sql=type_sql, base_type=base, precision=10, scale=2)
    for kind in (pa.float64(), pa.float32(), pa.int8()):
        assert not takes(pa.field("n", kind), column)
        assert takes(pa.field("n", kind), replace(column, type_sql="double", base_type="double"))


def test_a_timestamp_that_is_not_null_takes_a_null_for_now() -> None:
    assert replace(AT, not_null=True).takes_null_for_now
    assert not AT.takes_null_for_now
    assert not replace(AT, not_null=True, base_type="datetime").takes_null_for_now


def test_a_column_of_a_staging_table_takes_nulls_whatever_the_server_makes_of_one_that_does_not_say() -> None:
    sink = MySQLSink("mysql://host/air", "t")
    assert sink._definition(ROWS.field("at"), TABLE) == '"at" timestamp(6) NULL'
    text = TableColumn(name="at", type_sql="varchar(9)", base_type="varchar", collation="utf8mb4_nopad_bin")
    assert sink._definition(ROWS.field("at"), replace(TABLE, columns=(text,))) == (
        '"at" varchar(9) COLLATE utf8mb4_nopad_bin NULL'
    )
