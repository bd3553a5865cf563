"""What stands in front of records, and in their headers, names their schemas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from directkafka.payloads.registry.frames import NO_SCHEMA, read_frames, read_headers
from directkafka.payloads.texts import Texts

NAME = "__value_schema_id"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def framed(number: int, record: bytes = b"x") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + record


def column(records: list[bytes | None]) -> tuple[Texts, np.ndarray]:
    array = pa.array([b"before", *records], pa.binary())[1:]
    return Texts.of(array), array.is_null().to_numpy(zero_copy_only=False)


def test_a_number_stands_in_front() -> None:
    texts, nulls = column([framed(1), None, framed(0x7FFFFFFF, b""), framed(258)])
    found = read_frames(texts, nulls)
    assert found.schemas.tolist() == [1, NO_SCHEMA, 0x7FFFFFFF, 258]
    assert (found.starts - texts.ends[:-1]).tolist() == [5, 0, 5, 5]
    assert found.problems == {}


def test_records_without_one_are_told() -> None:
    texts, nulls = column([b"", b"\0\0\0\1", b"{...}", framed(1)])
    found = read_frames(texts, nulls)
    assert found.schemas.tolist() == [NO_SCHEMA, NO_SCHEMA, NO_SCHEMA, 1]
    assert found.problems == {
        0: "it has 0 bytes, and a schema's number in front of a record has 5",
        1: "it has 4 bytes, and a schema's number in front of a record has 5",
        2: "it begins with the byte 0x7b, not with 0x00 and a schema's number",
    }


def test_a_header_counts_before_what_stands_in_front() -> None:
    texts, nulls = column([b"bare", framed(2), framed(3), None, b"bare", b"bare", framed(9)])
    headers = pa.array(
        [
            [("other", b"x"), (NAME, framed(7, b""))],
            [],
            [(NAME, framed(1, b"")), (NAME, framed(8, b""))],
            [(NAME, framed(7, b""))],
            [(NAME, b"\1" + bytes(16))],
            [(NAME, framed(1, b"")), (NAME, None)],
            None,
        ],
        HEADERS,
    )
    found = read_headers(texts, nulls, headers, NAME)
    assert found.schemas.tolist() == [7, 2, 8, NO_SCHEMA, NO_SCHEMA, NO_SCHEMA, 9]
    assert (found.starts - texts.ends[:-1]).tolist() == [0, 5, 0, 0, 0, 0, 5]
    assert found.problems == {
        4: f"the header {NAME} names a schema's GUID, and only numbers are read",
        5: f"the header {NAME} names no schema",
    }
