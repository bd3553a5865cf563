import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from directkafka.kafka.records.arrow import constant_column, row_slices, schema

COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_schema_is_what_pyspark_makes_of_the_kafka_source_s_columns(include_headers: bool) -> None:
    spark = StructType(COLUMNS + [HEADERS] * include_headers)
    ours = schema(include_headers=include_headers)
    assert ours.equals(to_arrow_schema(spark, timezone="UTC"), check_metadata=True)


def test_a_constant_column_is_made_once() -> None:
    first = constant_column("flights", pa.string(), 1000)
    assert first.to_pylist() == ["flights"] * 1000
    assert constant_column("flights", pa.string(), 1000) is first
    assert constant_column(3, pa.int32(), 2) == pa.array([3, 3], pa.int32())


def ends(*lengths: int) -> np.ndarray:
    return np.cumsum([0, *lengths]).astype(np.int32)


@pytest.mark.parametrize(
    ("values", "rows_max", "bytes_max", "expected"),
    [
        ([5, 5, 5], 10, 100, [(0, 3)]),
        ([5, 5, 5], 3, 15, [(0, 3)]),
        ([5, 5, 5], 2, 100, [(0, 2), (2, 1)]),
        ([5, 5, 5], 3, 14, [(0, 2), (2, 1)]),
        ([50, 5, 5, 50], 3, 10, [(0, 1), (1, 2), (3, 1)]),
        ([0, 0, 0], 1, 1, [(0, 1), (1, 1), (2, 1)]),
    ],
)
def test_rows_are_cut_within_both_limits_and_a_large_one_stands_alone(
    values: list[int], rows_max: int, bytes_max: int, expected: list[tuple[int, int]]
) -> None:
    assert list(row_slices(ends(*[0] * len(values)), ends(*values), rows_max, bytes_max)) == expected


def test_keys_count_towards_the_limit_and_sums_above_two_gigabytes_do_not_wrap() -> None:
    large = ends(2**30, 2**30 - 1)
    assert list(row_slices(large, large, 10, 2**31)) == [(0, 1), (1, 1)]


def test_constant_columns_that_are_kept_are_bounded_whatever_the_names() -> None:
    longest = max(16_384 * (249 + 4), 16_384 * 4)
    assert (constant_column.cache_info().maxsize or longest) * longest < 40_000_000
