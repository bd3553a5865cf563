"""Reasons why a text could not be read: what they have of a record is bounded, and shown as Python shows it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from directkafka.payloads.json.decoder import JsonDecoder

SCHEMA = pa.struct([("m", pa.map_(pa.string(), pa.int32()))])


@pytest.mark.parametrize(
    ("key", "shown"), [(b"a\\u0000b", r"'a\x00b'"), (b"k" * 45_000, repr("k" * 20)), (b"\\u001b[2J", r"'\x1b[2J'")]
)
def test_keys_of_a_map_are_shown_and_cut(key: bytes, shown: str) -> None:
    decoder = JsonDecoder(SCHEMA, "UTC")
    decoder.decode(pa.array([b'{"m": {"%s": "x"}}' % key], pa.binary()))
    assert decoder.problems == {0: f"m: {shown}: 'x' in place of int32"}
