from __future__ import annotations

import pyarrow as pa
import pytest

from directkafka.sinks.files.log_state import TableState
from directkafka.sinks.files.schema import Format, grown_columns, plain_schema, storage_problems

TABLE = TableState(format="parquet", schema=pa.schema([("id", pa.int64()), ("Name", pa.string())]))


def problems(schema: pa.Schema, policy: str = "fail", format: Format = "parquet") -> list[str]:
    return grown_columns(schema, TABLE, format=format, policy=policy)[1]  # type: ignore[arg-type]


def test_the_first_dataframe_makes_the_table() -> None:
    strict = pa.schema([pa.field("s", pa.struct([pa.field("a", pa.int8(), nullable=False)]), nullable=False)])
    grown, schema_problems = grown_columns(strict, None, format="parquet", policy="fail")
    assert schema_problems == []
    assert grown.schema == pa.schema([("s", pa.struct([("a", pa.int8())]))])


def test_columns_may_be_missing_and_stand_in_any_order() -> None:
    assert problems(pa.schema([("Name", pa.string())])) == []
    assert problems(pa.schema([("Name", pa.string()), ("id", pa.int64())])) == []


def test_all_that_does_not_fit_is_told_at_once() -> None:
    schema_problems = problems(pa.schema([("id", pa.string()), ("name", pa.string()), ("more", pa.int8())]))
    assert [text.partition(":")[0] for text in schema_problems] == [
        "column 'id' of type string does not go into int64 unchanged",
        "the table has no column 'name' of type string (it has 'Name'",
        "the table has no column 'more' of type int8",
    ]


def test_columns_are_added_at_the_end_and_no_type_is_changed() -> None:
    grown, schema_problems = grown_columns(
        pa.schema([("more", pa.int8()), ("id", pa.int64())]), TABLE, format="parquet", policy="add-columns"
    )
    assert (grown.schema.names, schema_problems) == (["id", "Name", "more"], [])
    assert len(problems(pa.schema([("id", pa.int32()), ("more", pa.int8())]), "add-columns")) == 1


def test_a_column_that_differs_in_case_alone_is_not_added() -> None:
    assert problems(pa.schema([("NAME", pa.string())]), "add-columns") == [
        "columns 'Name' and 'NAME' have one name, as Spark reads it"
    ]


def test_a_table_keeps_its_format() -> None:
    assert problems(TABLE.schema, format="json") == ["its files are parquet, not json"]


@pytest.mark.parametrize(
    ("schema", "format", "words"),
    [
        (pa.schema([("a", pa.null())]), "parquet", "does not go into parquet files"),
        (pa.schema([("a", pa.duration("us"))]), "parquet", "does not go into parquet files"),
        (pa.schema([("a", pa.list_(pa.struct([("x", pa.null())])))]), "parquet", "does not go into parquet files"),
        (pa.schema([("a", pa.binary())]), "json", "base64"),
        (pa.schema([("a", pa.int64())]), "text", "one column of strings, not [a int64]"),
        (pa.schema([("a", pa.string()), ("b", pa.string())]), "text", "one column of strings"),
        (pa.schema([("a", pa.string()), ("A", pa.string())]), "parquet", "have one name"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(schema: pa.Schema, format: Format, words: str) -> None:
    (problem,) = storage_problems(schema, format)
    assert words in problem


def test_a_schema_of_everything_passes() -> None:
    schema = pa.schema(
        [
            ("a", pa.map_(pa.string(), pa.list_(pa.decimal128(38, 18)))),
            ("b", pa.timestamp("us", "UTC")),
            ("c", pa.struct([("d", pa.date32()), ("e", pa.binary())])),
        ]
    )
    assert storage_problems(schema, "parquet") == []
    assert plain_schema(schema) == schema
