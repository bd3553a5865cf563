from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from directkafka.sinks.databases import is_json, parse_name, with_json
from directkafka.sinks.postgres.copy_format import Wire
from directkafka.sinks.postgres.table_schema import TableColumn, creation_type, json_columns, wire_column, wire_of
from directkafka.sinks.staging import fold


def column(base_type: str, typmod: int = -1) -> TableColumn:
    return TableColumn(
        name="c", type_sql=base_type, base_type=base_type, is_enum=False, typmod=typmod,
        not_null=False, has_default=False, is_generated=False,
    )  # fmt: skip


def numeric(precision: int, scale: int) -> TableColumn:
    return column("numeric", (precision << 16 | scale & 0x7FF) + 4)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("flights", ("flights",)),
        ("Public.Flights", ("public", "flights")),
        ('"Public"."Fli.ghts"', ("Public", "Fli.ghts")),
        ('"a""b"', ('a"b',)),
        ('raw."F"', ("raw", "F")),
    ],
)
def test_a_name_is_read_as_sql_reads_it(text: str, parts: tuple[str, ...]) -> None:
    assert parse_name(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", '"a', '"a"b', '""'])
def test_a_name_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"name|quote"):
        parse_name(text)


@pytest.mark.parametrize(
    ("kind", "target", "wire"),
    [
        (pa.int32(), column("int8"), Wire.INT8),
        (pa.int64(), column("int4"), None),
        (pa.uint32(), column("int4"), None),
        (pa.uint64(), column("int8"), None),
        (pa.uint64(), column("numeric"), Wire.NUMERIC),
        (pa.int32(), column("float4"), None),
        (pa.int64(), column("float8"), None),
        (pa.float64(), column("float4"), None),
        (pa.decimal128(8, 2), numeric(8, 2), Wire.NUMERIC),
        (pa.decimal128(8, 2), numeric(8, 3), None),
        (pa.decimal128(8, 2), numeric(9, 3), Wire.NUMERIC),
        (pa.decimal128(8, 3), numeric(12, 2), None),
        (pa.decimal256(40, 2), column("numeric"), None),
        (pa.int64(), numeric(18, 0), None),
        (pa.int64(), numeric(19, 0), Wire.NUMERIC),
        (pa.timestamp("ns"), column("timestamp"), None),
        (pa.timestamp("us", "UTC"), column("timestamp"), None),
        (pa.timestamp("us"), column("timestamptz"), None),
        (pa.string(), column("jsonb"), Wire.JSONB),
        (pa.binary(), column("jsonb"), None),
        (pa.time64("us"), column("time"), Wire.TIME),
        (pa.time64("us"), column("timetz"), None),
        (pa.duration("us"), column("interval"), Wire.INTERVAL),
        (pa.duration("us"), column("interval", 0x7FFF << 16 | 6), Wire.INTERVAL),
        (pa.duration("us"), column("interval", 0x7FFF << 16), None),
        (pa.timestamp("us", "UTC"), column("timestamptz", 6), Wire.TIMESTAMP),
        (pa.timestamp("us", "UTC"), column("timestamptz", 0), None),
        (pa.timestamp("us"), column("timestamp", 3), None),
        (pa.time64("us"), column("time", 0), None),
        (pa.binary(), column("uuid"), None),
        (pa.binary(16), column("uuid"), Wire.UUID),
        (pa.list_(pa.int32()), column("_int4"), None),
        (pa.null(), column("text"), None),
    ],
)
def test_only_what_keeps_every_value_goes_into_a_column(
    kind: pa.DataType, target: TableColumn, wire: Wire | None
) -> None:
    assert wire_of(kind, target) is wire


def array_of(element_type: str, oid: int, typmod: int = -1) -> TableColumn:
    return replace(column(f"_{element_type}", typmod), element_type=element_type, element_oid=oid)


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        (pa.list_(pa.int32()), array_of("int8", 20), (Wire.INT8, 20)),
        (pa.large_list(pa.string()), array_of("text", 25), (Wire.TEXT, 25)),
        (pa.list_(pa.decimal128(5, 2)), array_of("numeric", 1700, (5 << 16 | 2) + 4), (Wire.NUMERIC, 1700)),
        (pa.list_(pa.decimal128(5, 3)), array_of("numeric", 1700, (5 << 16 | 2) + 4), None),
        (pa.list_(pa.int64()), array_of("int4", 23), None),
        (pa.list_(pa.list_(pa.int32())), array_of("int4", 23), None),
        (pa.list_(pa.int32()), column("int4"), None),
        (pa.int32(), array_of("int4", 23), None),
    ],
)
def test_a_list_goes_into_an_array_whose_elements_keep_its_own(
    kind: pa.DataType, target: TableColumn, expected: tuple[Wire, int] | None
) -> None:
    encoded_column = wire_column(pa.field("c", kind), target)
    assert (encoded_column and (encoded_column.wire, encoded_column.array_of)) == expected


def test_what_is_nested_deeper_than_a_list_becomes_json() -> None:
    schema = pa.schema(
        {
            "id": pa.int64(), "tags": pa.list_(pa.string()), "legs": pa.list_(pa.struct({"to": pa.string()})),
            "grid": pa.list_(pa.list_(pa.int32())), "names": pa.map_(pa.string(), pa.string()),
            "one": pa.struct({"x": pa.int32()}),
        }
    )  # fmt: skip
    names = json_columns(schema)
    assert names == ("legs", "grid", "names", "one")
    marked = with_json(schema, names)
    assert [field.name for field in marked if is_json(field)] == list(names)
    assert {field.type for field in marked if is_json(field)} == {pa.string()}
    assert json_columns(marked) == ()


def test_a_column_that_is_added_to_gets_room_to_grow() -> None:
    kinds = [pa.int32(), pa.float32(), pa.decimal128(5, 2)]
    assert [creation_type(kind) for kind in kinds] == ["integer", "real", "numeric(5,2)"]
    grown = [creation_type(kind, is_sum=True) for kind in kinds]
    assert grown == ["bigint", "double precision", "numeric"]


def test_folding_keeps_types_and_sums() -> None:
    table = pa.table({"k": ["a", "b", "a"], "n": pa.array([1, None, 2], pa.int32())})
    folded = fold(table, ["k"], ["n"])
    assert folded.schema == table.schema
    assert sorted(folded.to_pylist(), key=str) == [{"k": "a", "n": 3}, {"k": "b", "n": None}]


@pytest.mark.parametrize("values", [[2**31 - 1, 1], [-(2**31), -1]])
def test_a_sum_that_might_not_fit_is_left_to_postgres(values: list[int]) -> None:
    table = pa.table({"k": [1, 1], "n": pa.array(values, pa.int32())})
    assert fold(table, ["k"], ["n"]) is table
