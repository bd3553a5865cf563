"""The slow, exact way; tests/real/payloads compares it with Spark's from_json on many more documents."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from directkafka.options.schemas.ddl import parse_ddl
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.json.java_texts import clean, java_double, java_text
from directkafka.payloads.json.values import JsonReader, nearest_float


def read(ddl: str, text: str | bytes) -> tuple[dict[str, Any] | None, str]:
    return JsonReader(arrow_type(parse_ddl(ddl))).read(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(
    ("ddl", "text", "row"),
    [
        ("a BIGINT, b STRING", '{"a":1,"b":"x"}', {"a": 1, "b": "x"}),
        ("a BIGINT", '{"a":1} and more', {"a": 1}),
        ("a BIGINT", '{"a":1,"a":2}', {"a": 2}),
        ("a BIGINT", '{"A":1}', {"a": None}),
        ("a DOUBLE, b DOUBLE", '{"a":-0,"b":-0.0}', {"a": 0.0, "b": -0.0}),
        ("a DOUBLE", '{"a":"-INF"}', {"a": float("-inf")}),
        ("a TINYINT", '{"a":200}', {"a": -56}),
        ("a STRING", '{"a":{"x": [1, 2.50, "é"]}}', {"a": '{"x":[1,2.5,"é"]}'}),
        ("a STRING", '{"a":1e3}', {"a": "1000.0"}),
        ("a STRING", "{'a':'it\\'s'}", {"a": "it's"}),
        ("a STRING", '{"a":"\\ud83d\\ude00\\ud83d"}', {"a": "\U0001f600?"}),
        ("a DECIMAL(5,2)", '{"a":"1,234.5"}', {"a": None}),
        ("a DECIMAL(6,2)", '{"a":"1,234.565"}', {"a": Decimal("1234.57")}),
        ("a DECIMAL(6,2)", '{"a":1e9999999999999999999}', {"a": None}),
        ("a DECIMAL(6,2)", '{"a":"0e9999999999999999999"}', {"a": None}),
        ("a DECIMAL(6,2)", '{"a":1e-9999999999999999999}', {"a": None}),
        ("a DATE", '{"a":"9999999-01-01"}', {"a": None}),
        ("a DATE", '{"a":"-5877642-01-01"}', {"a": None}),
        ("a DATE", '{"a":"5881580-07-11"}', {"a": 2**31 - 1}),
        ("a DATE", f'{{"a":"{"1" * 4_301}"}}', {"a": None}),
        ("a DATE", f'{{"a":"{"0" * 4_301}12"}}', {"a": 12}),
        ("a BINARY", '{"a":"aGk="}', {"a": b"hi"}),
        ("a BINARY", '{"a":"aG\\u006b="}', {"a": b"hi"}),
        ("a TIMESTAMP", '{"a":1709210096}', {"a": 1_709_210_096_000_000}),
        ("m MAP<STRING, INT>", '{"m":{"k":1,"k":2}}', {"m": [("k", 1), ("k", 2)]}),
    ],
)
def test_values_are_read_as_spark_reads_them(ddl: str, text: str, row: dict[str, Any]) -> None:
    actual_row, problem = read(ddl, text)
    assert repr(actual_row) == repr(row)
    assert (problem != "") is (None in row.values() and '"A"' not in text)


def test_a_blank_text_is_no_row_and_no_problem() -> None:
    assert [read("a INT", blank) for blank in ("", " \t\r\n")] == [(None, "")] * 2


@pytest.mark.parametrize("text", ["null", "[]", "1", '"x"', '[{"a":1}]', "{", '{"a":1', '{"a":1,}', '\x1e{"a":1}', "x"])
def test_what_is_no_object_is_a_row_of_nulls_and_told(text: str) -> None:
    row, problem = read("a INT, b INT", text)
    assert row == {"a": None, "b": None}
    assert problem


@pytest.mark.parametrize(
    ("text", "row", "problem"),
    [
        ('{"a":1e3,"b":2}', {"a": None, "b": 2, "c": None}, "a: a number in place of int64"),
        ('{"a":"x","b":2}', {"a": None, "b": 2, "c": None}, "a: 'x' in place of int64"),
        ('{"a":9223372036854775808,"b":2}', {"a": None, "b": 2, "c": None}, "a: .* more than 64 bits"),
        ('{"c":{"d":"x","e":1},"b":2}', {"a": None, "b": 2, "c": {"d": None, "e": 1}}, "c: d: 'x' in place of int32"),
        ('{"b":2,"c":[1]}', {"a": None, "b": 2, "c": None}, r"c: \[ in place of struct"),
        # Behind an error in a scope, its parent goes on from where the parser stands, which is still inside.
        ('{"b":2,"c":{"d":tru}}', {"a": None, "b": 2, "c": None}, "c: the word 'tru'"),
    ],
)
def test_what_can_be_read_is_read_and_the_first_problem_is_told(text: str, row: dict[str, Any], problem: str) -> None:
    import re

    actual_row, actual_problem = read("a BIGINT, b INT, c STRUCT<d: INT, e: INT>", text)
    assert actual_row == row
    assert re.match(problem, actual_problem), actual_problem


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.001, "0.001"), (0.00099, "9.9E-4"), (9999999.0, "9999999.0"),
        (1e7, "1.0E7"), (123456.75, "123456.75"), (5e-324, "4.9E-324"), (2e-3, "0.002"), (1.5e300, "1.5E300"),
        (float("nan"), '"NaN"'), (float("-inf"), '"-Infinity"'),
    ],
)  # fmt: skip
def test_numbers_become_texts_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        # Half way between two floats, a little more, and a little less, of which all are the same double.
        ("1.00000005960464477539", 1.0),
        ("1.000000059604644775390625", 1.0),
        ("1.00000005960464477539062500000000000000001", 1.0000001192092896),
        ("1.00000017881393432617187499999999999999999", 1.0000001192092896),
        ("3.4028235677973366e38", float("inf")),
        ("7.006492321624085e-46", 0.0),
        ("7.0064923216240854e-46", 1.401298464324817e-45),
    ],
)
def test_a_float_is_the_nearest_to_the_number_itself(text: str, nearest: float) -> None:
    assert nearest_float(float(text), text) == nearest


def test_bytes_that_are_no_utf_8_become_the_characters_that_java_makes_of_them() -> None:
    assert java_text(b"a\xffb\xed\xa0\x80c\xe2\x82d") == "a\ufffdb\ufffdc\ufffdd"
    assert clean("\ud83d\ude00 \ude00\ud83d x") == "\U0001f600 ?? x"
