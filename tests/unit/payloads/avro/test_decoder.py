"""Records are read as fastavro reads them, whatever their schema; and what cannot be read is told."""

from __future__ import annotations

import copy
import json
import random
import struct
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.avro_records import Changes, Json, Schemas, mutated, plain, read, same, written
from tests.guarded_texts import GuardedTexts

from directkafka.options.schemas.avro import parse_schema
from directkafka.payloads.avro.decoder import AvroDecoder
from directkafka.payloads.avro.defaults import encode_long


def decoder(reader: Json, writer: Json | None = None) -> AvroDecoder:
    return AvroDecoder(parse_schema(json.dumps(reader)), None if writer is None else parse_schema(json.dumps(writer)))


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(fields)],
    }


def column(texts: list[bytes | None]) -> pa.Array:
    return pa.array(texts, pa.binary())


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_records_of_any_schema_are_what_another_implementation_reads(seed: int) -> None:
    for schema_seed in range(seed, seed + 20):
        schemas = Schemas(schema_seed)
        schema = schemas.record()
        records = written(schema, [schemas.value(schema) for _ in range(20)])
        avro_decoder = decoder(schema)
        array = avro_decoder.decode(column([*records, None]))
        array.validate(full=True)
        assert not avro_decoder.problems
        rows = array.to_pylist()
        assert rows.pop() is None
        for row, text in zip(rows, records, strict=True):
            assert same(row, read(text, schema, schema)[0]), (schema_seed, text)


@pytest.mark.parametrize("seed", range(1000, 1200, 20))
def test_a_schema_that_has_changed_is_resolved_as_another_implementation_does(seed: int) -> None:
    for schema_seed in range(seed, seed + 20):
        schemas = Schemas(schema_seed)
        writer = schemas.record()
        reader = Changes(schema_seed).of(copy.deepcopy(writer))
        records = written(writer, [schemas.value(writer) for _ in range(5)])
        avro_decoder = decoder(reader, writer)
        array = avro_decoder.decode(column([*records]))
        array.validate(full=True)
        assert not avro_decoder.problems
        for row, text in zip(array.to_pylist(), records, strict=True):
            assert same(row, read(text, writer, reader)[0]), (schema_seed, writer, reader)


def enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
RENAMED_POINT = {**POINT, "name": "Place", "aliases": ["Point"]}
KINDS = enum("Kind", "A", "B")
SORTS = enum("Sort", "B", "A", aliases=["Kind"])
FIXED = {"type": "fixed", "name": "Hash", "size": 4}
DIGEST = {**FIXED, "name": "Digest", "aliases": ["Hash"]}


@pytest.mark.parametrize(
    ("writer", "reader", "values"),
    [
        (["null", "int"], "int", [("int", 7)]),
        (["null", "int"], "double", [("int", 7)]),
        ("int", ["null", "int", "string"], [7]),
        (["int", "string"], ["string", "int"], [("int", 7), ("string", "a")]),
        (["int", "string"], ["null", "string", "boolean", "int"], [("int", 7), ("string", "a")]),
        (["null", "int", "string"], ["int", "null", "string"], [None, ("int", 7), ("string", "a")]),
        (["int", "string"], ["long", "string"], [("int", 7), ("string", "a")]),
        (["int", "long"], "long", [("int", 7), ("long", 1 << 40)]),
        (["int", "float"], "double", [("int", 7), ("float", 1.5)]),
        ("bytes", "string", [b"text", "\u00e4".encode()]),
        ("string", "bytes", ["text", "\u00e4"]),
        (["null", "bytes"], ["null", "string"], [None, ("bytes", b"text")]),
        (POINT, RENAMED_POINT, [{"x": 7}]),
        (["null", POINT], ["null", RENAMED_POINT], [None, ("Point", {"x": 7})]),
        (KINDS, SORTS, ["A", "B"]),
        (["null", KINDS], ["null", SORTS], [None, ("Kind", "B")]),
        (FIXED, DIGEST, [b"abcd"]),
        ({"type": "array", "items": ["null", "int"]}, {"type": "array", "items": "long"}, [[("int", 7), ("int", 8)]]),
        ({"type": "map", "values": "bytes"}, {"type": "map", "values": "string"}, [{"a": b"b"}]),
    ],
)
def test_unions_names_and_texts_resolve_as_in_another_implementation(writer: Json, reader: Json, values: Any) -> None:
    had, wanted = record(writer), record(reader)
    records = written(had, [{"f0": value} for value in values])
    avro_decoder = decoder(wanted, had)
    array = avro_decoder.decode(column([*records]))
    assert not avro_decoder.problems
    for row, text in zip(array.to_pylist(), records, strict=True):
        assert same(row, read(text, had, wanted)[0])


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        (POINT, {"x": 3}, {"x": 3}),
        (KINDS, "B", "B"),
        ("bytes", "\u00ff", b"\xff"),
        (FIXED, "\u00ffabc", b"\xffabc"),
        ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001", Decimal("0.01")),
        (["int", "string"], 5, {"member0": 5, "member1": None}),
    ],
    ids=["record", "enum", "bytes", "fixed", "date", "decimal", "union"],
)
def test_a_default_may_be_of_any_type(kind: Json, default: Json, value: Any) -> None:
    writer = record("int")
    reader = copy.deepcopy(writer)
    reader["fields"].append({"name": "added", "type": kind, "default": default})
    avro_decoder = decoder(reader, writer)
    array = avro_decoder.decode(column([*written(writer, [{"f0": 1}, {"f0": 2}])]))
    assert not avro_decoder.problems
    assert [row["added"] for row in array.to_pylist()] == [value, value]


def test_bytes_that_are_no_text_are_told_where_a_text_is_wanted() -> None:
    writer = record("bytes")
    avro_decoder = decoder(record("string"), writer)
    array = avro_decoder.decode(column([*written(writer, [{"f0": b"\xff"}, {"f0": b"a"}])]))
    assert array.to_pylist() == [{"f0": None}, {"f0": "a"}]
    assert avro_decoder.problems == {0: "f0: the text is no UTF-8"}


def test_local_times_of_both_units_and_of_nanoseconds() -> None:
    kinds = [{"type": "long", "logicalType": f"local-timestamp-{unit}"} for unit in ("millis", "micros", "nanos")]
    schema = record(*kinds)
    moment = datetime(2024, 5, 6, 7, 8, 9, 123_000)
    since = int((moment - datetime(1970, 1, 1)).total_seconds() * 1000)
    longs = record("long", "long", "long")
    values = {"f0": since, "f1": since * 1000, "f2": since * 1_000_000}
    array = decoder(schema).decode(column([*written(longs, [values])]))
    assert array.to_pylist() == [{"f0": moment, "f1": moment, "f2": moment}]


@pytest.mark.parametrize("seed", range(2000, 2100, 20))
def test_bytes_that_are_no_record_are_rows_or_told_and_nothing_is_read_beyond_them(seed: int) -> None:
    rows_read = 0
    for schema_seed in range(seed, seed + 20):
        schemas, rng = Schemas(schema_seed), random.Random(schema_seed)
        schema = schemas.record()
        records = [mutated(rng, text) for text in written(schema, [schemas.value(schema) for _ in range(20)])]
        with GuardedTexts(records, b"") as texts:
            decoder(schema).decode(texts).validate(full=True)
            avro_decoder = decoder(plain(schema))
            rows = avro_decoder.decode(texts).to_pylist()
        for number, (row, text) in enumerate(zip(rows, records, strict=True)):
            if number in avro_decoder.problems:
                assert all(value is None for value in row.values())
                continue
            value, length = read(text, plain(schema), plain(schema))
            assert (length, same(row, value)) == (len(text), True), (schema_seed, text)
            rows_read += 1
    assert rows_read > 40


def test_a_record_that_cannot_be_read_leaves_the_rows_around_it_as_they_are() -> None:
    """What it had written to a list's rows is written over by the next one's, also where it wrote nulls."""
    schema = record({"type": "array", "items": record(["null", "string"], {"type": "array", "items": "int"}, name="S")})
    good = written(
        schema, [{"f0": [{"f0": "a", "f1": [1]}, {"f0": "b", "f1": [2, 3]}]}, {"f0": [{"f0": None, "f1": []}]}]
    )
    nulls = encode_long(3) + b"\0\0" * 3
    avro_decoder = decoder(schema)
    rows = avro_decoder.decode(column([good[0], nulls + b"\x02\x80", good[0], good[1], nulls, good[0]])).to_pylist()
    assert rows == [
        read(good[0], schema, schema)[0],
        {"f0": None},
        *[read(text, schema, schema)[0] for text in (good[0], good[1])],
        {"f0": None},
        rows[0],
    ]
    assert avro_decoder.problems == {
        1: "f0[].f0: the record ends in the middle of it",
        4: "f0: the record ends in the middle of it",
    }


WRONG = {
    "the record ends in the middle of it": ("int", b"\x80"),
    "the number is too large": ("int", encode_long(1 << 31)),
    "neither 0 nor 1": ("boolean", b"\2"),
    "a length is negative": ("bytes", b"\1"),
    "the text is no UTF-8": ("string", b"\4\xc3("),
    "the union has no alternative of this number": (["null", "int"], b"\4"),
    "the enum has no symbol of this number that the reader knows": (
        {"type": "enum", "name": "E", "symbols": ["A"]},
        b"\2",
    ),
    "the decimal has more digits than its type": (
        {"type": "bytes", "logicalType": "decimal", "precision": 2},
        b"\2\x64",
    ),
}


@pytest.mark.parametrize("problem", WRONG)
def test_what_is_wrong_with_a_record_is_told_with_the_field(problem: str) -> None:
    kind, text = WRONG[problem]
    avro_decoder = decoder(record("int", kind))
    assert avro_decoder.decode(column([b"\2" + text])).to_pylist() == [{"f0": None, "f1": None}]
    assert avro_decoder.problems == {0: f"f1: {problem}"}


def test_a_record_that_goes_on_behind_its_end_is_told() -> None:
    avro_decoder = decoder(record("int"))
    avro_decoder.decode(column([b"\2\2\2"]))
    assert avro_decoder.problems == {0: "bytes are left from byte 1 on: the record was written with another schema"}


@pytest.mark.parametrize("skipped", [False, True])
def test_lists_that_claim_more_elements_than_there_are_bytes_cost_nothing(skipped: bool) -> None:
    empty = {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}
    writer = record(empty, "int")
    reader = {**writer, "fields": writer["fields"][1:]} if skipped else writer
    avro_decoder = decoder(reader, writer)
    avro_decoder.decode(
        column([encode_long(1 << 40) + b"\0\0", encode_long(1_000) + b"\0\4", encode_long(-(1 << 63)) + b"\0\0"])
    )
    assert sorted(avro_decoder.problems) == [0, 2]
    assert "more elements than the record has bytes" in avro_decoder.problems[0]
    avro_decoder = decoder(record({"type": "array", "items": "int"}))
    avro_decoder.decode(column([encode_long(10) + b"\2\2\0"]))
    assert "more elements than the record has bytes" in avro_decoder.problems[0]


def test_elements_that_have_bytes_far_within_are_as_many_as_there_are_bytes() -> None:
    within: Any = "int"
    for number in range(8):
        within = {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": within}]}
    avro_decoder = decoder(record({"type": "array", "items": within}))
    (row,) = avro_decoder.decode(column([encode_long(1_500) + b"\2" * 1_500 + b"\0"])).to_pylist()
    assert not avro_decoder.problems
    assert len(next(iter(row.values()))) == 1_500


def test_a_list_s_blocks_with_their_sizes_are_read_and_skipped() -> None:
    writer = record({"type": "array", "items": "int"}, "int")
    text = encode_long(-2) + encode_long(2) + b"\2\4" + encode_long(1) + b"\6\0" + b"\x0a"
    assert decoder(writer).decode(column([text])).to_pylist() == [{"f0": [1, 2, 3], "f1": 5}]
    reader = {**writer, "fields": writer["fields"][1:]}
    assert decoder(reader, writer).decode(column([text])).to_pylist() == [{"f1": 5}]


def test_a_record_that_contains_itself_is_skipped_where_the_reader_does_not_have_it() -> None:
    tree = record("int", ["null", "R"], {"type": "map", "values": "R"})
    reader = {**tree, "fields": tree["fields"][:1]}
    value = {"f0": 1, "f1": {"f0": 2, "f1": None, "f2": {"k": {"f0": 3, "f1": None, "f2": {}}}}, "f2": {}}
    assert decoder(reader, tree).decode(column(written(tree, [value]))).to_pylist() == [{"f0": 1}]
    with pytest.raises(ValueError, match="R contains itself"):
        decoder(tree)


def test_records_in_one_another_without_an_end_are_told() -> None:
    tree = record("int", ["null", "R"])
    avro_decoder = decoder({**tree, "fields": tree["fields"][:1]}, tree)
    avro_decoder.decode(column([b"\2\2" * 5_000 + b"\2\0"]))
    assert "more than 1000 values in one another" in avro_decoder.problems[0]


def test_durations_and_uuids_of_sixteen_bytes_and_nanoseconds() -> None:
    duration = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    identity = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    key = uuid.uuid4()
    text = struct.pack("<III", 1, 2, 0xFFFFFFFF) + key.bytes + encode_long(-1)
    (row,) = decoder(record(duration, identity, nanos)).decode(column([text])).to_pylist()
    assert row["f0"] == {"months": 1, "days": 2, "milliseconds": 0xFFFFFFFF}
    assert row["f1"] == str(key)
    assert row["f2"].isoformat() == "1969-12-31T23:59:59.999999+00:00"


def test_timestamps_of_another_unit_are_the_same_times() -> None:
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    rows = decoder(record(micros), record(millis)).decode(column([encode_long(1_500)])).to_pylist()
    assert rows[0]["f0"].isoformat() == "1970-01-01T00:00:01.500000+00:00"
    rows = decoder(record(millis), record("long")).decode(column([encode_long(1_500)])).to_pylist()
    assert rows[0]["f0"].isoformat() == "1970-01-01T00:00:01.500000+00:00"
    late = decoder(record(millis))
    late.decode(column([encode_long(1 << 60)]))
    assert late.problems == {0: "f0: the number is too large"}


@pytest.mark.parametrize(
    ("writer", "reader", "problem"),
    [
        ("int", "string", "the writer's int does not resolve to the reader's string"),
        ("long", "int", "the writer's long does not resolve to the reader's int"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "the writer's bytes (decimal(4,1)) does not resolve to the reader's bytes (decimal(4,2))",
        ),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            "the writer's fixed F does not",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "G", "symbols": ["A"]},
            "the writer's enum E does not",
        ),
        (
            "int",
            ["null", "string"],
            "f0: the writer's int matches no alternative of the reader's union of null, string",
        ),
    ],
)
def test_schemas_that_do_not_resolve_are_told_for_the_records_that_show_it(
    writer: Any, reader: Any, problem: str
) -> None:
    avro_decoder = decoder(record(reader), record(writer))
    avro_decoder.decode(column([b"\0"]))
    assert problem in avro_decoder.problems[0]
    avro_decoder = decoder(
        record(
            ["null", reader]
            if isinstance(reader, str)
            else ["null", *([reader] if isinstance(reader, dict) else reader[1:])]
        ),
        record(["null", writer]),
    )
    assert avro_decoder.decode(column([b"\0"])).to_pylist() == [{"f0": None}]
    assert not avro_decoder.problems


def test_a_field_that_the_writer_does_not_have_needs_a_default() -> None:
    avro_decoder = decoder(record("int", "int"), record("int"))
    avro_decoder.decode(column([b"\2"]))
    assert avro_decoder.problems == {0: "f1: the writer has no such field, and the reader no default for it"}


def test_of_a_reader_s_union_the_type_of_the_same_full_name_is_taken() -> None:
    first_enum, two = ({"type": "enum", "name": f"{space}.K", "symbols": ["X", "Y"]} for space in ("a", "b"))
    avro_decoder = decoder(record([first_enum, two]))
    rows = avro_decoder.decode(column([b"\0\0", b"\2\2"])).to_pylist()
    assert rows == [{"f0": {"member0": "X", "member1": None}}, {"f0": {"member0": None, "member1": "Y"}}]


def test_a_field_of_the_reader_s_name_takes_precedence_of_an_alias() -> None:
    writer = {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"} for name in ("old", "new")]}
    reader = {"type": "record", "name": "R", "fields": [{"name": "new", "type": "int", "aliases": ["old"]}]}
    assert decoder(reader, writer).decode(column([b"\2\4"])).to_pylist() == [{"new": 2}]


def test_types_resolve_by_what_is_below_their_logical_types() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
    assert decoder(record(decimal), record("bytes")).decode(column([b"\2\x0f"])).to_pylist() == [{"f0": Decimal("1.5")}]
    assert decoder(record("bytes"), record(decimal)).decode(column([b"\2\x0f"])).to_pylist() == [{"f0": b"\x0f"}]
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    (row,) = decoder(record(millis), record("int")).decode(column([encode_long(1_500)])).to_pylist()
    assert row["f0"].isoformat() == "1970-01-01T00:00:01.500000+00:00"
    times = ({"type": kind, "logicalType": f"time-{unit}"} for kind, unit in (("long", "micros"), ("int", "millis")))
    assert decoder(*map(record, times)).decode(column([encode_long(7)])).to_pylist() == [{"f0": 7_000}]


def test_hostile_schemas_of_writers_are_refused_in_time() -> None:
    levels: Any = {"type": "record", "name": "A0", "fields": [{"name": "a", "type": "null"}]}
    for level in range(1, 40):
        again = levels["name"]
        levels = {
            "type": "record",
            "name": f"A{level}",
            "fields": [{"name": "a", "type": levels}, {"name": "b", "type": again}],
        }
    writer = {"type": "record", "name": "R", "fields": [{"name": "f0", "type": "int"}, {"name": "s", "type": levels}]}
    with pytest.raises(ValueError, match="types that are skipped, counted in all levels"):
        decoder(record("int"), writer)
    chain: list[Any] = [{"type": "record", "name": "Z0", "fields": [{"name": "z", "type": "int"}]}]
    for number in range(1, 2_000):
        chain.append({"type": "record", "name": f"Z{number}", "fields": [{"name": "z", "type": f"Z{number - 1}"}]})
    fields = [{"name": "f0", "type": "int"}, {"name": "s", "type": chain[::-1]}]
    writer = {
        "type": "record",
        "name": "R",
        "fields": [fields[0], *({"name": f"c{n}", "type": record_type} for n, record_type in enumerate(chain))],
    }
    with pytest.raises(ValueError, match="nested too deep"):
        decoder(record("int"), writer)


def test_a_default_that_no_number_holds_is_told() -> None:
    reader = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "float", "default": 1e300}]}
    avro_decoder = decoder(reader, {"type": "record", "name": "R", "fields": []})
    avro_decoder.decode(column([b""]))
    assert "its default is too large for a number: 1e+300" in avro_decoder.problems[0]


@pytest.mark.parametrize(
    "layout", [pa.binary_view(), pa.large_binary(), pa.string(), pa.large_string(), pa.string_view()]
)
def test_records_may_come_in_any_layout(layout: pa.DataType) -> None:
    texts = pa.array([b"\2", None, b"\4"], pa.binary()).cast(layout)
    assert decoder(record("int")).decode(texts).to_pylist() == [{"f0": 1}, None, {"f0": 2}]


@pytest.mark.slow
def test_a_column_of_more_than_two_gigabytes_is_told_and_nothing_is_written_beyond_it() -> None:
    """A byte of a record becomes a symbol of 4,000: Arrow's ends cannot tell of more than 2 GiB."""
    symbol = "S" * 4_000
    schema = record({"type": "array", "items": {"type": "enum", "name": "E", "symbols": [symbol]}})
    text = encode_long(60_000) + b"\0" * 60_001
    avro_decoder = decoder(schema)
    array = avro_decoder.decode(column([text] * 10))
    assert sorted(avro_decoder.problems) == [8, 9]
    assert "f0[]: a column of one batch would have more than 2 GiB" in avro_decoder.problems[8]
    assert array.field("f0").value_lengths().to_pylist() == [60_000] * 8 + [None] * 2
    assert array.field("f0").flatten()[8 * 60_000 - 1].as_py() == symbol


def test_schemas_of_other_kinds_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="the writer's record R does not resolve to the reader's record S"):
        decoder(record("int", name="S"), record("int"))


@pytest.mark.parametrize(("kind", "value"), [("string", "text"), ("long", -7), (["null", "bytes"], b"x")])
def test_a_schema_may_be_no_record(kind: Any, value: Any) -> None:
    avro_decoder = decoder(kind)
    assert avro_decoder.decode(column([*written(kind, [value]), None, b"\x80"])).to_pylist() == [value, None, None]
    assert sorted(avro_decoder.problems) == [2]


def test_large_integers_become_the_nearest_float() -> None:
    numbers = [(1 << 24) + 1, (1 << 53) + 1, (1 << 54) + (1 << 30) + 1, -(1 << 60) - (1 << 36) - 1, (1 << 63) - 1]
    rows = decoder("float", "long").decode(column([encode_long(number) for number in numbers])).to_pylist()
    nearest = [
        min(
            (pa.scalar(float(number), pa.float32()).as_py() * (1 + k * 2.0**-23) for k in (-1, 0, 1)),
            key=lambda f, n=number: abs(int(f) - n),
        )
        for number in numbers
    ]
    assert rows == nearest
