"""What stands in front of records, and in their headers, names their schemas."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pyarrow as pa

from directkafka.payloads.registry.frames import FIRST_GUID, NO_SCHEMA, read_frames, read_headers
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
    frames = read_frames(texts, nulls)
    assert frames.schemas.tolist() == [1, NO_SCHEMA, 0x7FFFFFFF, 258]
    assert (frames.starts - texts.ends[:-1]).tolist() == [5, 0, 5, 5]
    assert frames.problems == {}


def test_records_without_one_are_told() -> None:
    texts, nulls = column([b"", b"\0\0\0\1", b"{...}", framed(1)])
    frames = read_frames(texts, nulls)
    assert frames.schemas.tolist() == [NO_SCHEMA, NO_SCHEMA, NO_SCHEMA, 1]
    assert frames.problems == {
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
            [(NAME, b"\1" + bytes(15))],
            [(NAME, framed(1, b"")), (NAME, None)],
            None,
        ],
        HEADERS,
    )
    frames = read_headers(texts, nulls, headers, NAME)
    assert frames.schemas.tolist() == [7, 2, 8, NO_SCHEMA, NO_SCHEMA, NO_SCHEMA, 9]
    assert (frames.starts - texts.ends[:-1]).tolist() == [0, 5, 0, 0, 0, 0, 5]
    assert frames.problems == {
        4: f"the header {NAME} names no schema",
        5: f"the header {NAME} names no schema",
    }


FIRST, SECOND = UUID(int=1), UUID("89791762-2336-4186-9674-299b90a802e2")


def named(guid: UUID, message: bytes = b"") -> bytes:
    return b"\1" + guid.bytes + message


def test_a_header_may_have_a_guid_in_place_of_a_number() -> None:
    texts, nulls = column([b"a", framed(3), b"b", b"c", None, b"d"])
    values = [named(SECOND), None, named(FIRST), named(SECOND), named(FIRST), named(FIRST) + b"x"]
    headers = pa.array([None if value is None else [(NAME, value)] for value in values], HEADERS)
    frames = read_headers(texts, nulls, headers, NAME)
    names = [number if number >= NO_SCHEMA else frames.guids[FIRST_GUID - number] for number in frames.schemas.tolist()]
    assert names == [SECOND, 3, FIRST, SECOND, NO_SCHEMA, NO_SCHEMA]
    assert (frames.starts - texts.ends[:-1]).tolist() == [0, 5, 0, 0, 0, 0]
    assert frames.problems == {5: f"the header {NAME} names no schema"}


def test_a_message_may_be_named_behind_a_guid() -> None:
    texts, nulls = column([b"a", b"b", b"c"])
    values = [named(FIRST, b"\4\2\4"), named(FIRST, b"\0"), named(FIRST)]
    headers = pa.array([[(NAME, value)] for value in values], HEADERS)
    frames = read_headers(texts, nulls, headers, NAME, names_messages=True)
    assert frames.guids == [FIRST]
    assert [frames.paths[path_index] for path_index in frames.messages.tolist()[:2]] == [(1, 2), (0,)]
    assert frames.problems == {2: f"the header {NAME} names no schema"}


def test_a_guid_stands_only_in_a_header() -> None:
    texts, nulls = column([named(FIRST) + b"x"])
    frames = read_frames(texts, nulls)
    assert frames.schemas.tolist() == [NO_SCHEMA]
    assert frames.problems == {0: "it begins with the byte 0x01, not with 0x00 and a schema's number"}
