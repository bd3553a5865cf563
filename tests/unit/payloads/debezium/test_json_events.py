"""Debezium's events in JSON: the row as it became, and what happened to it."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.debezium_events import DECIMAL, MYSQL, POSTGRES, SQL_SERVER, column, event, key, schema, text, unscaled

from directkafka.options.schemas.ddl import parse_ddl
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.debezium.json_events import DebeziumJsonDecoder

PLAIN = [column("id", "int64"), column("name", "string")]
ROW = {"id": 1, "name": "pen"}
AT = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=datetime.UTC)


class Decoded:
    """What became of some events."""

    def __init__(self, ddl: str, *values: bytes | None, keys: list[bytes | None] | None = None) -> None:
        decoder = DebeziumJsonDecoder(arrow_type(parse_ddl(ddl)))
        decoder.keys = None if keys is None else pa.array(keys, pa.binary())
        rows = decoder.decode(pa.array(values, pa.binary()))
        rows.validate(full=True)
        self.rows = rows.to_pylist()
        self.problems = decoder.problems
        self.op, self.deleted, self.source_ts, self.position = (
            decoder.added[name].to_pylist() for name in ("op", "deleted", "source_ts", "position")
        )


@pytest.mark.parametrize("columns", [None, PLAIN], ids=["alone", "behind a schema"])
def test_each_change_has_its_row(columns: Any) -> None:
    newer = {"id": 1, "name": "ink"}
    changes = [
        event("c", after=ROW), event("u", ROW, newer), event("r", after=ROW), event("d", before=newer), event("t"),
    ]  # fmt: skip
    decoded = Decoded("id BIGINT, name STRING", *(text(change, columns) for change in changes))
    assert decoded.rows == [ROW, newer, ROW, newer, None]
    assert decoded.op == ["c", "u", "r", "d", "t"]
    assert decoded.deleted == [False, False, False, True, False]
    assert decoded.source_ts == [AT] * 5
    assert decoded.position == [Decimal(24_023_128)] * 5
    assert decoded.problems == {}


@pytest.mark.parametrize("columns", [None, PLAIN[:1]], ids=["alone", "behind a schema"])
def test_a_deleted_row_of_which_no_more_is_known_has_its_key(columns: Any) -> None:
    values = [text(event("d")), None, text(event("c", after=ROW)), None, None]
    keys: list[bytes | None] = [key({"id": number}, columns) for number in range(3)]
    decoded = Decoded("id BIGINT, name STRING", *values, keys=[*keys, b"no JSON", None])
    assert decoded.rows[:3] == [{"id": 0, "name": None}, {"id": 1, "name": None}, ROW]
    assert decoded.rows[3] in (None, {"id": None, "name": None})
    assert decoded.rows[4] is None
    assert decoded.op == ["d", None, "c", None, None]
    assert decoded.deleted == [True, True, False, True, True]
    assert decoded.problems == {}


def test_a_deleted_row_of_which_nothing_is_known_is_null() -> None:
    decoded = Decoded("id BIGINT", text(event("d")), None)
    assert decoded.rows == [None, None]
    assert decoded.deleted == [True, True]


def test_a_key_that_cannot_be_read_is_told_where_it_is_needed() -> None:
    keys = [b'{"id": "x"}', b'{"id": "x"}', b'{"id": "x"}']
    values = [text(event("d")), None, text(event("d", before={"id": 5}))]
    decoded = Decoded("id INT, name STRING", *values, keys=keys)
    assert list(decoded.problems) == [0]
    assert decoded.problems[0].startswith("key: id: ")
    assert decoded.deleted == [True] * 3


def test_what_was_wrong_with_a_key_is_told_once() -> None:
    number = [column("id", "bytes", name=DECIMAL, parameters={"scale": "0"})]
    decoder = DebeziumJsonDecoder(arrow_type(parse_ddl("id DECIMAL(2,0)")))
    for count, wrong in ((6, {5}), (1, set()), (2, {1})):
        values = [1_000 if index in wrong else index for index in range(count)]
        decoder.keys = pa.array([key({"id": unscaled(value)}, number) for value in values])
        decoder.decode(pa.array([text(event("d"))] * count))
        assert set(decoder.problems) == wrong


def test_columns_may_have_the_names_of_an_event() -> None:
    row = {"payload": {"id": 1}, "schema": "s", "op": "x", "before": 2}
    ddl = "payload STRUCT<id INT>, schema STRING, op STRING, before INT"
    alone = {"payload": {"id": 7}, "schema": None, "op": None, "before": None}
    decoded = Decoded(
        ddl, text(event("c", after=row)), None, None, keys=[None, key({"payload": {"id": 7}}), key({"op": "y"})]
    )
    assert decoded.rows == [row, alone, {"payload": None, "schema": None, "op": "y", "before": None}]
    typed = [column("payload", "struct", fields=[column("id", "int32")]), column("op", "string")]
    assert Decoded(ddl, None, keys=[key({"payload": {"id": 7}}, typed)]).rows == [alone]


def test_a_schema_says_what_times_and_decimals_stand_for() -> None:
    columns = [
        column("n", "bytes", name=DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "10"}),
        column("v", "struct", name="io.debezium.data.VariableScaleDecimal"),
        column("day", "int32", name="io.debezium.time.Date"),
        column("ms", "int64", name="io.debezium.time.Timestamp"),
        column("us", "int64", name="io.debezium.time.MicroTimestamp"),
        column("ns", "int64", name="io.debezium.time.NanoTimestamp"),
        column("zoned", "string", name="io.debezium.time.ZonedTimestamp"),
        column("prices", "array", items={"type": "bytes", "name": DECIMAL, "parameters": {"scale": "1"}}),
    ]
    ddl = (
        "n DECIMAL(10,2), v DOUBLE, day DATE, ms TIMESTAMP_NTZ, us TIMESTAMP_NTZ, ns TIMESTAMP_NTZ, zoned TIMESTAMP, "
        "prices ARRAY<DECIMAL(5,1)>"
    )
    row = {
        "n": unscaled(-12_345), "v": {"scale": 3, "value": unscaled(1_500)}, "day": 20_000, "ms": 1_700_000_000_123,
        "us": -1, "ns": -1, "zoned": "2023-11-14T22:13:20.123456Z", "prices": [unscaled(15), None, unscaled(-7)],
    }  # fmt: skip
    nothing = dict.fromkeys(row)
    decoded = Decoded(ddl, text(event("u", nothing, row), columns), text(event("c", after=nothing), columns))
    assert decoded.problems == {}
    assert decoded.rows[1] == nothing
    just_before = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert decoded.rows[0] == {
        "n": Decimal("-123.45"), "v": 1.5, "day": datetime.date(2024, 10, 4),
        "ms": datetime.datetime(2023, 11, 14, 22, 13, 20, 123000),
        "us": just_before, "ns": just_before, "zoned": AT,
        "prices": [Decimal("1.5"), None, Decimal("-0.7")],
    }  # fmt: skip


def test_without_a_schema_a_column_is_what_its_json_says() -> None:
    row = {"n": "123.45", "day": "2024-10-04", "at": "2023-11-14T22:13:20.123456Z"}
    decoded = Decoded("n DECIMAL(10,2), day DATE, at TIMESTAMP", text(event("c", after=row)))
    assert decoded.rows == [{"n": Decimal("123.45"), "day": datetime.date(2024, 10, 4), "at": AT}]


LOCAL = datetime.datetime(2019, 7, 9, 2, 28, 57, 500000)


@pytest.mark.parametrize("has_schema", [False, True], ids=["alone", "behind a schema"])
def test_texts_of_times_are_read_with_the_letter_that_isostring_puts_behind_them(has_schema: bool) -> None:
    """``time.precision.mode=isostring`` (Debezium's IsoDate, IsoTimestamp) puts a Z behind what has no zone."""
    columns = [
        column("day", "string", name="io.debezium.time.IsoDate"),
        column("made", "string", name="io.debezium.time.IsoTimestamp"),
        column("at", "string", name="io.debezium.time.ZonedTimestamp"),
        column("days", "array", items={"type": "string", "name": "io.debezium.time.IsoDate"}),
    ]
    rows = [
        {"day": "2017-09-15Z", "made": "2019-07-09T02:28:57.5Z", "at": "2023-11-14T23:13:20.123456+01:00",
         "days": ["1969-12-31Z"]},
        {"day": "2017-09-15", "made": "2019-07-09 02:28:57.500", "at": "2023-11-14T22:13:20.123456Z", "days": None},
        {"day": "2017-02-30Z", "made": "2019-07-09T25:00:00Z", "at": "2023-11-14T22:13:20.123456999Z", "days": []},
    ]  # fmt: skip
    ddl = "day DATE, made TIMESTAMP_NTZ, at TIMESTAMP, days ARRAY<DATE>"
    decoded = Decoded(ddl, *(text(event("c", after=row), columns if has_schema else None) for row in rows))
    day = datetime.date(2017, 9, 15)
    assert decoded.rows == [
        {"day": day, "made": LOCAL, "at": AT, "days": [datetime.date(1969, 12, 31)]},
        {"day": day, "made": LOCAL, "at": AT, "days": None},
        {"day": None, "made": None, "at": AT, "days": []},
    ]
    assert list(decoded.problems) == [2]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY<TIMESTAMP>"])
def test_a_number_is_no_time_unless_a_schema_says_what_it_counts(kind: str) -> None:
    value: Any = 1_700_000_000_000
    row = {"s": [value] if kind.startswith("ARRAY") else value}
    alone = Decoded(f"s {kind}", text(event("c", after=row)))
    assert list(alone.problems) == [0]
    assert alone.problems[0].startswith("after.s: a value that does not fit")
    item = {"type": "int64", "name": "io.debezium.time.MicroTime"}
    typed = column("s", "array", items=item) if kind.startswith("ARRAY") else column("s", **item)
    behind = Decoded(f"s {kind}", text(event("c", after=row), [typed]))
    assert behind.problems[0].startswith("schema: s")
    assert "is written as io.debezium.time.MicroTime, which is no" in behind.problems[0]


def test_a_number_of_a_time_that_is_too_large_is_told() -> None:
    columns = [column("s", "int64", name="io.debezium.time.Timestamp")]
    source = {"ts_ms": 9_223_372_036_825_200_000, "lsn": 1}
    decoded = Decoded("s TIMESTAMP_NTZ", text(event("c", None, {"s": 9_223_372_036_825_200_000}, source), columns))
    assert decoded.problems == {0: "after.s: a value that does not fit timestamp[us]"}
    assert decoded.source_ts == [None]


def test_a_decimal_is_its_number_in_a_string_too() -> None:
    columns = [
        column("n", "bytes", name=DECIMAL, parameters={"scale": "2"}),
        column("v", "struct", name="io.debezium.data.VariableScaleDecimal"),
    ]
    row = {"n": unscaled(-150), "v": {"scale": 5, "value": unscaled(314_159)}}
    assert Decoded("n STRING, v STRING", text(event("c", None, row), columns)).rows == [{"n": "-1.50", "v": "3.14159"}]


def test_a_decimal_that_does_not_fit_is_told() -> None:
    columns = [
        column("id", "int64"),
        column("n", "bytes", name=DECIMAL, parameters={"scale": "0"}),
        column("l", "array", items={"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}),
    ]
    rows = [
        {"id": 1, "n": unscaled(999), "l": [unscaled(9)]}, {"id": 2, "n": unscaled(1_000), "l": None},
        {"id": 3, "n": None, "l": [unscaled(1), unscaled(10)]}, {"id": 4, "n": unscaled(10**80), "l": []},
    ]  # fmt: skip
    decoded = Decoded(
        "id INT, n DECIMAL(3), l ARRAY<DECIMAL(1)>", *(text(event("c", None, row), columns) for row in rows)
    )
    assert decoded.problems == {
        1: "after.n: a value that does not fit decimal128(3, 0)",
        2: "after.l: a value that does not fit list<element: decimal128(1, 0)>",
        3: "after.n: a value that does not fit decimal128(3, 0)",
    }
    # The other fields stay, as with from_json.
    assert [row["id"] for row in decoded.rows] == [1, 2, 3, 4]
    assert [row["n"] for row in decoded.rows] == [Decimal(999), None, None, None]


def test_a_batch_may_have_many_schemas_and_none() -> None:
    scales = [column("id", "int64"), column("n", "bytes", name=DECIMAL, parameters={"scale": "1"})]
    units = [column("id", "int64"), column("n", "string")]
    decoded = Decoded(
        "id BIGINT, n DECIMAL(5,2)",
        text(event("c", after={"id": 1, "n": unscaled(15)}), scales),
        text(event("c", after={"id": 2, "n": "2.5"}), units),
        text(event("c", after={"id": 3, "n": 3.5})),
        text({"payload": event("c", after={"id": 4, "n": 4})}),
        text(event("c", after={"id": 5, "n": unscaled(55)}), scales),
    )
    assert decoded.problems == {}
    assert decoded.rows == [
        {"id": 1, "n": Decimal("1.5")}, {"id": 2, "n": Decimal("2.5")}, {"id": 3, "n": Decimal("3.5")},
        {"id": 4, "n": Decimal(4)}, {"id": 5, "n": Decimal("5.5")},
    ]  # fmt: skip


def test_what_looks_like_the_end_of_a_schema_may_stand_in_it() -> None:
    default = {"a": 1, "payload": 2}
    columns = [column("id", "int64", default=default), column("n", "string")]
    value = {"schema": schema(columns), "payload": event("c", after={"id": 1, "n": "a"})}
    texts = [
        json.dumps(value, separators=separators).encode() for separators in ((",", ":"), (", ", ": "), (" , ", " : "))
    ]
    assert b',"payload":2' in texts[0]
    turned = json.dumps(dict(reversed(value.items()))).encode()
    decoded = Decoded(
        "id BIGINT, n STRING", *texts, texts[0] + b" ", turned, text(event("c", after={"id": 2, "n": "b"}))
    )
    assert decoded.problems == {}
    assert decoded.rows == [*[{"id": 1, "n": "a"}] * 5, {"id": 2, "n": "b"}]


def test_more_schemas_than_are_looked_for_at_once_are_read() -> None:
    values = []
    for number in range(150):
        columns = [column("n", "bytes", name=DECIMAL, parameters={"scale": str(number % 30), "number": str(number)})]
        values.append(text(event("c", after={"n": unscaled(number)}), columns))
    decoded = Decoded("n DECIMAL(38, 30)", *values)
    assert decoded.problems == {}
    assert [row["n"] for row in decoded.rows] == [Decimal(number).scaleb(-(number % 30)) for number in range(150)]


@pytest.mark.parametrize(
    ("source", "position"),
    [(MYSQL, 3_000_000_000_484), (SQL_SERVER, 772474593184047428393007841277), ({"scn": "1"}, None)],
    ids=["mysql", "sqlserver", "oracle"],
)
def test_each_database_says_where_a_change_stands(source: Any, position: int | None) -> None:
    decoded = Decoded("id INT", text(event("c", after={"id": 1}, source=source)))
    assert decoded.position == [None if position is None else Decimal(position)]


HINT = "it is no change event of Debezium (one that its ExtractNewRecordState has flattened is read with the format"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b'{"id": 1, "name": "flat"}', f"it has no op: {HINT}"),
        (b"", f"it has no op: {HINT}"),
        (b'{"schema": {"type": "string"}, "payload": "x"}', "schema: no schema of a change event"),
        (b'{"schema": 5, "payload": {}}', "schema: no schema of a change event"),
        (b'{"schema": 5, "payload": null}', ""),
        (text({"op": "m"}), f"op is 'm': {HINT}"),
        (text({"op": "c" * 50}), f"op is '{'c' * 20}': {HINT}"),
        (text({"op": "u", "after": None}), "op is 'u', and there is no row in after"),
        (text(event("c", after=ROW))[:-40], ""),
        (b"\xff\xfe", ""),
        (b"[]", ""),
    ],
)
def test_what_is_no_event_is_told(value: bytes, problem: str) -> None:
    decoded = Decoded("id BIGINT, name STRING", text(event("c", after=ROW)), value)
    assert list(decoded.problems) == [1]
    assert decoded.problems[1].startswith(problem)
    assert decoded.rows[0] == ROW
    assert decoded.deleted == [False, False]


def test_times_in_structs_are_what_their_schema_says_and_numbers_alone_are_none() -> None:
    ddl = "s STRUCT<at: TIMESTAMP_NTZ, n: DECIMAL(5,1), t: STRING>"
    inner = [
        column("at", "int64", name="io.debezium.time.Timestamp"),
        column("n", "bytes", name=DECIMAL, parameters={"scale": "1"}),
        column("t", "string"),
    ]
    row = {"s": {"at": 1_500, "n": unscaled(15), "t": "x"}}
    told = Decoded(ddl, text(event("c", None, row), [column("s", "struct", fields=inner)]), text(event("c", None, row)))
    at = datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000)
    assert told.rows[0] == {"s": {"at": at, "n": Decimal("1.5"), "t": "x"}}
    assert list(told.problems) == [1]
    assert told.problems[1].startswith("after: s: n: ")
    alone = Decoded("s STRUCT<at: TIMESTAMP>", text(event("c", None, {"s": {"at": 1_500}})))
    assert alone.problems[0].startswith("after.s: a value that does not fit")
    large = {"s": {"at": None, "n": unscaled(10**9), "t": "x"}}
    misfit = Decoded(ddl, text(event("c", None, large), [column("s", "struct", fields=inner)]))
    assert misfit.problems[0].startswith("after.s: a value that does not fit struct<")


def test_a_key_may_have_a_column_called_schema() -> None:
    decoded = Decoded("schema STRING, id INT", text(event("d")), keys=[key({"schema": "public", "id": 2})])
    assert decoded.rows == [{"schema": "public", "id": 2}]
    assert decoded.problems == {}


def test_a_schema_that_is_no_utf8_ends_nothing() -> None:
    value = b'{"schema":{"a":"\xed\xa0\x80"},"payload":{"op":"c","after":{"id":1}}}'
    decoded = Decoded("id INT", value, text(event("c", after={"id": 2})))
    assert decoded.rows[1] == {"id": 2}
    assert list(decoded.problems) == [0]


def test_a_small_decimal_in_a_string_has_no_exponent() -> None:
    columns = [column("n", "bytes", name=DECIMAL, parameters={"scale": "8"})]
    rows = [{"n": unscaled(10)}, {"n": None}, {"n": unscaled(-125)}]
    decoded = Decoded("n STRING", *(text(event("c", None, row), columns) for row in rows))
    assert [row["n"] for row in decoded.rows] == ["0.00000010", None, "-0.00000125"]


@pytest.mark.parametrize("parameters", [{}, {"scale": "x"}, {"scale": 1e400}, {"scale": None}, 5])
def test_a_schema_with_a_decimal_of_no_scale_is_told(parameters: Any) -> None:
    columns = [column("n", "bytes", name=DECIMAL, parameters=parameters)]
    decoded = Decoded("n DECIMAL(3)", text(event("c", after={"n": unscaled(1)}), columns))
    assert decoded.problems[0].startswith("schema: ")


@pytest.mark.parametrize(
    ("ddl", "wrong"),
    [
        ("s DATE", column("s", "string", name=["x"])),
        ("s ARRAY<DATE>", column("s", "array", items=5)),
        ("s ARRAY<DATE>", column("s", "array", items=None)),
        ("s DATE", {"field": "s", "type": []}),
    ],
)
def test_a_schema_with_parts_that_are_none_is_told(ddl: str, wrong: Any) -> None:
    decoded = Decoded(ddl, text(event("c", after={"s": None}), [wrong]))
    assert decoded.problems[0].startswith("schema: ")
    assert Decoded(ddl, None, keys=[key({"s": 5}, [wrong])]).problems == {}


def test_a_schema_of_null_is_none() -> None:
    value = {"schema": None, "payload": event("c", after=ROW)}
    ways = [
        json.dumps(value, separators=separators).encode() for separators in ((",", ":"), (", ", ": "), (" , ", ":"))
    ]
    decoded = Decoded("id BIGINT, name STRING", *ways)
    assert decoded.rows == [ROW] * 3
    assert decoded.problems == {}


def test_columns_without_rows_are_read() -> None:
    assert Decoded("id INT").rows == []


def test_an_event_without_before_or_source_is_read() -> None:
    decoded = Decoded("id INT", json.dumps({"op": "c", "after": {"id": 1}}).encode(), b'{"op": "d"}')
    assert decoded.rows == [{"id": 1}, None]
    assert decoded.problems == {}
    assert POSTGRES["lsn"] not in decoded.position
    assert decoded.source_ts == [None, None]
