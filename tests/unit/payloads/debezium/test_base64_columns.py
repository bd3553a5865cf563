"""Base64 of many texts, decoded as one by one."""

from __future__ import annotations

import base64

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from directkafka.payloads.debezium.base64_columns import decode_base64


def decoded(array: pa.Array) -> list[bytes | None]:
    decoded_texts = decode_base64(array)
    return [
        bytes(decoded_texts.data[start : start + length]) if is_valid else None
        for start, length, is_valid in zip(*decoded_texts[1:], strict=True)
    ]


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 3))
def test_bytes_come_back(values: list[bytes | None], skipped: int) -> None:
    texts = [None if value is None else base64.b64encode(value).decode() for value in values]
    array = pa.array([*["AAAA"] * skipped, *texts], pa.string()).slice(skipped)
    assert decoded(array) == values


def test_what_is_no_base64_is_none_and_leaves_the_others_alone() -> None:
    texts = ["AQ==", "A", "AB=", "A===", "=AAA", "A=AA", "AQ==AQ==", "é!??", "AA A", "AQI=", "", "AQID"]
    assert decoded(pa.array(texts)) == [b"\x01", *[None] * 8, b"\x01\x02", b"", b"\x01\x02\x03"]
