"""Arrow batches as objects."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa

from directkafka.kafka.records.arrow import schema
from directkafka.spark.rdd.consumer_record import ConsumerRecord, consumer_records

ROWS: list[dict[str, Any]] = [
    {"key": b"k", "value": b"v", "offset": 7, "timestamp": 1_500, "timestampType": 0, "headers": None},
    {"key": None, "value": None, "offset": 9, "timestamp": -1, "timestampType": 1,
     "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]},
    {"key": b"", "value": b"", "offset": 10, "timestamp": 0, "timestampType": 0,
     "headers": [{"key": "b", "value": b""}]},
]  # fmt: skip
RECORDS = [
    ConsumerRecord("flights", 3, 7, 1_500, 0, b"k", b"v", ()),
    ConsumerRecord("flights", 3, 9, -1, 1, None, None, (("a", b"1"), ("a", None))),
    ConsumerRecord("flights", 3, 10, 0, 0, b"", b"", (("b", b""),)),
]


def arrow(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    known = schema(include_headers=True)
    full = [row | {"topic": "flights", "partition": 3, "timestamp": row["timestamp"] * 1000} for row in rows]
    columns = [
        pa.array([row[field.name] for row in full], pa.int64()).view(field.type)
        if field.name == "timestamp"
        else pa.array([row[field.name] for row in full], field.type)
        for field in known
    ]
    return pa.record_batch(columns, schema=known)


def test_every_field_of_a_record_is_there() -> None:
    assert list(consumer_records(arrow(ROWS))) == RECORDS


def test_a_part_of_a_batch_has_its_own_headers() -> None:
    assert list(consumer_records(arrow(ROWS).slice(1))) == RECORDS[1:]
    assert list(consumer_records(arrow(ROWS).slice(0, 2))) == RECORDS[:2]
    assert list(consumer_records(arrow(ROWS).slice(0, 0))) == []


def test_batches_without_any_header_are_the_quick_case() -> None:
    assert [record.headers for record in consumer_records(arrow(ROWS[:1] * 3))] == [()] * 3


def test_fields_are_python_s_own_objects() -> None:
    [record] = consumer_records(arrow(ROWS[:1]))
    assert [type(field) for field in record] == [str, int, int, int, int, bytes, bytes, tuple]
    assert pickle.loads(pickle.dumps(record)) == record
