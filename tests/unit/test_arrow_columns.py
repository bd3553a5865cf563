"""Columns of Python values are what Arrow makes of them, and nothing of pandas is imported for them."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka import arrow_columns
from directkafka.arrow_columns import column_of


def numbers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@given(
    st.one_of(
        st.tuples(st.lists(st.text()), st.just(pa.string())),
        st.tuples(st.lists(st.binary()), st.just(pa.binary())),
        st.tuples(st.lists(numbers(32)), st.just(pa.int32())),
        st.tuples(st.lists(numbers(64)), st.just(pa.int64())),
    )
)
def test_a_column_is_what_arrow_makes_of_the_values(column_and_type: tuple[list[str], pa.DataType]) -> None:
    values, arrow_type = column_and_type
    column = column_of(values, arrow_type)
    column.validate(full=True)
    assert column.equals(pa.array(values, arrow_type))


def test_texts_that_a_column_cannot_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_columns, "_BYTES_MAX", 5)
    assert column_of(["ab", "cde"], pa.string()).to_pylist() == ["ab", "cde"]
    with pytest.raises(pa.ArrowCapacityError, match="5 bytes at most, these are 6"):
        column_of(["abc", "def"], pa.string())


@pytest.mark.parametrize(("made", "is_imported"), [("column_of(['a'], pa.string())", False), ("pa.array(['a'])", True)])
def test_pandas_is_not_imported_for_a_column(made: str, is_imported: bool) -> None:
    pytest.importorskip("pandas")
    program = f"import sys; import pyarrow as pa; from directkafka.arrow_columns import column_of; {made}"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print('pandas' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(is_imported)
