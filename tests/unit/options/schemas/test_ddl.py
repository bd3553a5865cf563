"""Schemas in Spark's DDL; tests/real/payloads compares them with what Spark's own parser makes of them."""

from __future__ import annotations

import pytest

from directkafka.options.schemas.ddl import DEPTH_MAX, parse_ddl


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("id BIGINT", "struct<id:bigint>"),
        ("id: long, b Byte, s SHORT, r real", "struct<id:bigint,b:tinyint,s:smallint,r:float>"),
        ("a decimal, b DEC(5), c numeric(38, 37)", "struct<a:decimal(10,0),b:decimal(5,0),c:decimal(38,37)>"),
        ("legs ARRAY<STRUCT<carrier: STRING, `a b` INT>>", "struct<legs:array<struct<carrier:string,a b:int>>>"),
        ("m MAP<STRING, ARRAY<MAP<STRING, DOUBLE>>>", "struct<m:map<string,array<map<string,double>>>>"),
        ("STRUCT<a: INT, b: STRUCT<c: DATE>>", "struct<a:int,b:struct<c:date>>"),
        ("`struct` struct<>, 9lives INT", "struct<struct:struct<>,9lives:int>"),
        ("a INT NOT NULL COMMENT 'x, y''', b TIMESTAMP_LTZ", None),
        ('a INT NOT NULL COMMENT "it\'s", -- the rest\n b TIMESTAMP_LTZ', "struct<a:int,b:timestamp>"),
        ("`zürich` STRING, `with ``quotes``` STRING", "struct<zürich:string,with `quotes`:string>"),
    ],
)
def test_fields_are_read_as_spark_reads_them(text: str, simple: str | None) -> None:
    if simple is None:
        with pytest.raises(ValueError, match="is expected"):
            parse_ddl(text)
        return
    assert parse_ddl(text).simple_string() == simple


def test_a_type_that_is_written_with_quotes_is_read_again_whatever_its_names() -> None:
    field_type = parse_ddl("`a ``b``, c` STRUCT<`:`: INT, `struct<x>`: ARRAY<DECIMAL(7,2)>>")
    assert parse_ddl(field_type.simple_string(quoted=True)) == field_type


@pytest.mark.parametrize(
    ("text", "error_message"),
    [
        ("", "has the end where a field's name is expected"),
        ("a", "has the end where a type is expected"),
        ("a INT b", "has 'b' where a comma or the end is expected"),
        ("a INT,", "has the end where a field's name is expected"),
        ("a ARRAY<INT", "has the end where '>' is expected"),
        ("a ARRAY", "has the end where '<' is expected"),
        ("a INT NOT", "has the end where NULL is expected"),
        ("a INT COMMENT x", "has 'x' where a comment in quotes is expected"),
        ("a INTERVAL DAY", "has the type 'INTERVAL'; known here: ARRAY, BIGINT, "),
        ("a VARIANT", "has the type 'VARIANT'"),
        ("a MAP<INT, STRING>", "has a map with keys of type INT"),
        ("a DECIMAL(39, 2)", "at most 38 digits"),
        ("a DECIMAL(3, 4)", "at most 38 digits"),
        ("a DECIMAL(x)", "has 'x\\)' where a number is expected"),
        ("a INT, a STRING", "declares 'a' twice"),
        ("s STRUCT<a: INT, a: INT>", "declares 'a' twice"),
        ("STRUCT<>", "declares no field"),
        ("zürich STRING", "has 'ürich STRING' where a type is expected|has 'zürich STRING'|has 'ü"),
        ("a INT; b INT", "has '; b INT' where a name, a type or one of"),
        ("a " + "ARRAY<" * DEPTH_MAX + "INT" + ">" * DEPTH_MAX, f"more than {DEPTH_MAX} types in one another"),
    ],
)
def test_what_declares_no_fields_is_told_with_its_place(text: str, error_message: str) -> None:
    with pytest.raises(ValueError, match=error_message):
        parse_ddl(text)
