"""Rejected records of a batch, set apart in the task that has read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.errors import TransformError
from directkafka.pipeline.execution.native.dead_letters import DeadLettersOfBatch, diverted

SOURCE = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
COLUMNS = ("topic", "partition", "offset", "key", "value", "headers")
LETTERS = DeadLettersOfBatch(columns=COLUMNS, is_record=False)
RECORDS = DeadLettersOfBatch(columns=COLUMNS, is_record=True)
HEADERS: list[Any] = [None, [], [("trace", b"1")], [("a", None), ("b", b"2")]]


def records(count: int, first: int = 100) -> pa.RecordBatch:
    rows = [
        {"key": None, "value": b"%d" % number, "topic": "air", "partition": 3, "offset": 2 * number,
         "headers": HEADERS[number % len(HEADERS)] and [dict(zip(("key", "value"), header, strict=True))
                                                        for header in HEADERS[number % len(HEADERS)]]}
        for number in range(first, first + count)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE)


def rows(source: pa.RecordBatch, reasons: Mapping[int, str], *, name: str = "dead_letter_reason") -> pa.RecordBatch:
    """Rows that name the source's records, some with a reason."""
    told = pa.array([reasons.get(row) for row in range(source.num_rows)], pa.string())
    return source.select(["topic", "partition", "offset"]).append_column(name, told)


REASONS = st.dictionaries(st.integers(0, 7), st.sampled_from(["no number", "too late", ""]))


@given(first=REASONS, second=REASONS, alone=REASONS)
def test_every_record_is_a_row_or_one_letter_with_all_its_reasons(
    first: Mapping[int, str], second: Mapping[int, str], alone: Mapping[int, str]
) -> None:
    source = records(8)
    outputs = {"a": rows(source, first), "b": rows(source, second), "dead_letters": rows(source, alone, name="reason")}
    batches = LETTERS.divert(outputs, source)
    offsets = source.column("offset").to_pylist()
    for output, reasons in (("a", first), ("b", second)):
        assert batches[output].schema.names == ["topic", "partition", "offset"]
        assert batches[output].column("offset").to_pylist() == [offsets[row] for row in range(8) if row not in reasons]
    expected = {
        row: "; ".join(sorted({reason_by_row[row] for reason_by_row in (first, second, alone) if row in reason_by_row}))
        for row in sorted({*first, *second, *alone})
    }
    letters = batches["dead_letters"]
    assert letters.schema.names == [*COLUMNS, "reason"]
    assert letters.column("reason").to_pylist() == list(expected.values())
    assert letters.select(list(COLUMNS)).to_pylist() == [
        source.select(list(COLUMNS)).slice(row, 1).to_pylist()[0] for row in expected
    ]


def test_as_a_record_a_letter_has_its_own_headers_and_then_where_it_came_from_and_why() -> None:
    source = records(4)
    letters = RECORDS.divert({"default": rows(source, {0: "a", 1: "b", 2: "c", 3: "d"})}, source)["dead_letters"]
    assert letters.schema.names == ["key", "value", "headers"]
    for row, letter in enumerate(letters.to_pylist()):
        own = source.column("headers")[row].as_py() or []
        told = {"topic": b"air", "partition": b"3", "offset": b"%d" % (200 + 2 * row), "reason": b"abcd"[row : row + 1]}
        assert letter["headers"] == [
            *own,
            *({"key": f"directkafka.{name}", "value": value} for name, value in told.items()),
        ]
        assert letter["value"] == b"%d" % (100 + row)


def test_a_letter_without_headers_gets_those_that_tell() -> None:
    source = records(2).select(["value", "topic", "partition", "offset"])
    plain = DeadLettersOfBatch(columns=("topic", "partition", "offset", "value"), is_record=True)
    letters = plain.divert({"default": rows(source, {1: "no"})}, source)["dead_letters"]
    assert letters.column("value").to_pylist() == [b"101"]
    assert [header["key"] for header in letters.column("headers")[0].as_py()] == [
        "directkafka.topic", "directkafka.partition", "directkafka.offset", "directkafka.reason",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value", "location"),
    [
        ("topic", "sea", "topic sea, partition 3, offset 200"),
        ("partition", 4, "topic air, partition 4, offset 200"),
        ("offset", 201, "topic air, partition 3, offset 201"),
        ("offset", None, "topic air, partition 3, offset null"),
    ],
)
def test_a_rejected_row_that_names_no_record_of_the_batch_is_refused(column: str, value: Any, location: str) -> None:
    source = records(2)
    wrong = rows(source, {0: "no"}).to_pylist()
    wrong[0][column] = value
    batch = pa.RecordBatch.from_pylist(wrong, schema=rows(source, {}).schema)
    batch_location = "on topic air, partition 3, offsets 200 to 202"
    with pytest.raises(TransformError, match=rf"{batch_location}: a rejected row names no record of .*: {location}"):
        LETTERS.divert({"default": batch}, source)
    with pytest.raises(TransformError, match="names no record of the batch"):
        LETTERS.divert({"default": batch}, source.slice(0, 0))


def test_a_reason_that_is_no_utf_8_is_one_afterwards() -> None:
    source = records(1)
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"no \xff"], pa.binary()).buffers())
    batch = source.select(["topic", "partition", "offset"]).append_column("dead_letter_reason", broken)
    assert LETTERS.divert({"default": batch}, source)["dead_letters"].column("reason").to_pylist() == ["no \ufffd"]


def test_a_time_that_no_calendar_has_is_null_in_a_table() -> None:
    times = pa.array([1_500_000, 2_070_000_000_000_000_000], pa.timestamp("us", "UTC"))
    source = records(2).append_column("timestamp", times)
    columns = (*COLUMNS, "timestamp")
    reasons = pa.array(["no", "no"])
    letters = DeadLettersOfBatch(columns=columns, is_record=False).of_records(source, reasons)
    assert letters.column("timestamp").to_pylist() == [times[0].as_py(), None]


def test_an_output_may_lack_in_a_batch_and_so_may_rejected_records() -> None:
    batches = LETTERS.divert({}, records(3))
    assert batches["dead_letters"].num_rows == 0
    assert batches["dead_letters"].schema == LETTERS.schema(SOURCE)


def schema(*names: str, reason: pa.DataType | None = None) -> pa.Schema:
    kinds = {"dead_letter_reason": reason or pa.string(), "reason": reason or pa.string()}
    return pa.schema([(name, kinds.get(name, pa.int64())) for name in names])


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"a": schema("offset", "dead_letter_reason")}, "without the columns topic, partition, which say"),
        ({"dead_letters": schema("topic", "partition", "offset")}, "without the columns reason, which say"),
        (
            {"a": schema("topic", "partition", "offset", "dead_letter_reason", reason=pa.int64())},
            "'dead_letter_reason' is int64: make it a string",
        ),
    ],
)
def test_what_rejects_must_say_which_record_and_why(outputs: Mapping[str, pa.Schema], message: str) -> None:
    with pytest.raises(TransformError, match=message):
        diverted(outputs, LETTERS.schema(SOURCE))


def test_rejecting_without_a_place_is_refused() -> None:
    with pytest.raises(TransformError, match=r"add the section \[dead_letters\]"):
        diverted({"a": schema("dead_letter_reason")}, None)
    assert diverted({"a": schema("offset")}, None) == {"a": schema("offset")}


def test_a_nul_in_a_reason_is_what_every_store_takes() -> None:
    source = records(1)
    batches = LETTERS.divert({"default": rows(source, {0: "a\0b"})}, source)
    assert batches["dead_letters"].column("reason").to_pylist() == ["a\ufffdb"]
