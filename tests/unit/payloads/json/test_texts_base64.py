from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.payloads.json.texts import base64_texts


@given(
    values=st.lists(st.none() | st.binary(max_size=9), max_size=12),
    kind=st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
    skipped=st.integers(0, 3),
)
def test_columns_are_what_pythons_own_encoder_makes_of_each_value(
    values: list[bytes | None], kind: pa.DataType, skipped: int
) -> None:
    texts = base64_texts(pa.array(values, kind).slice(skipped))
    assert texts.type == pa.string()
    assert texts.to_pylist() == [None if raw is None else base64.b64encode(raw).decode() for raw in values[skipped:]]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_values_of_a_fixed_size_are_encoded_too(width: int) -> None:
    value = bytes(range(width))
    texts = base64_texts(pa.array([value, None], pa.binary(width)))
    assert texts.to_pylist() == [base64.b64encode(value).decode(), None]
