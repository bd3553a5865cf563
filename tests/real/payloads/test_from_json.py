"""JSON as Spark's from_json reads it: the same documents through both, field by field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tests.json_documents import EVERY_TYPE, comparable, documents, suite

from directkafka.options.schemas.ddl import parse_ddl
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.json.decoder import JsonDecoder

pytestmark = pytest.mark.real

#: Of which Java before 19 has more digits than needed (JDK-4511638).
JAVA_DOUBLE = re.compile(r"-?\d\.\d+E-?\d+")


def by_spark(spark: SparkSession, texts: list[bytes], folder: Path) -> pa.Array:
    path = str(folder / "texts.parquet")
    pq.write_table(pa.table({"number": range(len(texts)), "value": pa.array(texts, pa.binary())}), path)
    read = f.from_json(f.col("value").cast("string"), EVERY_TYPE).alias("read")
    table = spark.read.parquet(path).select("number", read).orderBy("number").toArrow()
    return table.column("read").combine_chunks()


def check(spark: SparkSession, texts: list[bytes], folder: Path) -> None:
    decoder = JsonDecoder(arrow_type(parse_ddl(EVERY_TYPE)), str(spark.conf.get("spark.sql.session.timeZone")))
    ours = comparable(decoder.decode(pa.array(texts, pa.binary())))
    theirs = comparable(by_spark(spark, texts, folder))
    differing = [
        (text, mine, other)
        for text, mine, other in zip(texts, ours, theirs, strict=True)
        if mine != other and with_short_numbers(mine) != with_short_numbers(other)
    ]
    assert differing == []


def with_short_numbers(value: Any) -> Any:
    match value:
        case str():
            return JAVA_DOUBLE.sub(lambda match: repr(float(match[0])), value)
        case dict():
            return {name: with_short_numbers(item) for name, item in value.items()}
        case list():
            return [with_short_numbers(item) for item in value]
    return value


def test_each_file_of_the_suite_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, [text for _, text in suite()], tmp_path)


@pytest.mark.parametrize(
    ("count", "odd"),
    [
        (1_500, 0.5),
        pytest.param(40_000, 0.5, marks=pytest.mark.slow),
        pytest.param(40_000, 0.1, marks=pytest.mark.slow),
        pytest.param(20_000, 0.0, marks=pytest.mark.slow),
    ],
)
def test_documents_are_read_as_spark_reads_them(count: int, odd: float, spark: SparkSession, tmp_path: Path) -> None:
    check(spark, list(documents(count, seed=count, odd=odd)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["America/New_York", "+05:30"])
def test_times_without_a_zone_are_of_the_session_s(zone: str, spark: SparkSession, tmp_path: Path) -> None:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        check(spark, list(documents(5_000, seed=9, odd=0.3)), tmp_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    "text",
    [
        EVERY_TYPE,
        "a INT NOT NULL COMMENT 'x, y', b: DEC(5), `c ``d` NUMERIC(38,37), e REAL, f LONG, g BYTE, h SHORT, i INTEGER",
        "STRUCT<a: MAP<STRING, ARRAY<STRUCT<b: TIMESTAMP_LTZ>>>>",
        "struct struct<>, 9lives INT, `zürich` STRING, array array<map<string, date>>",
    ],
)
def test_a_schema_is_what_spark_makes_of_its_text(text: str, spark: SparkSession) -> None:
    theirs = StructType.fromDDL(text)
    if text.startswith("STRUCT"):
        assert isinstance(theirs, StructType)
    ours = parse_ddl(text)
    assert ours.simple_string() == theirs.simpleString()
    # PySpark's own names and types for Arrow; whether a field may be null is the declaration's, not the payload's.
    wanted = pa.struct(list(to_arrow_schema(theirs, timezone="UTC")))
    assert without_nullability(arrow_type(ours)) == without_nullability(wanted)


def without_nullability(kind: pa.DataType) -> str:
    return re.sub(r" not null", "", str(kind))
