"""Arguments of another type than they are said to be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from directkafka.errors import OptionError
from directkafka.options.texts import check_type, list_of


@pytest.mark.parametrize(
    ("value", "expected"), [(1, int), ({}, Mapping), ("a", (int, str))]
)  # fmt: skip
def test_a_value_of_the_type_is_taken(value: object, expected: type | tuple[type, ...]) -> None:
    check_type(value, expected, option="one", wanted="something else")


def test_a_value_of_another_type_is_named_by_its_type_and_not_shown() -> None:
    with pytest.raises(OptionError, match="'one': expected settings by name, found str") as caught:
        check_type("a secret", Mapping, option="one", wanted="settings by name")
    assert "a secret" not in str(caught.value)


def test_true_is_no_number() -> None:
    with pytest.raises(OptionError, match="expected a number, found bool"):
        check_type(True, int, option="one", wanted="a number")


def test_whatever_can_be_gone_through_becomes_a_list_once() -> None:
    assert list_of(int, (number for number in (1, 2)), option="one", wanted="numbers") == [1, 2]
    assert list_of(int, [], option="one", wanted="numbers") == []


@pytest.mark.parametrize(("values", "type_name"), [("12", "str"), (b"12", "bytes"), (3, "int"), ([1, "2"], "str")])
def test_what_is_no_list_of_the_type_is_refused(values: object, type_name: str) -> None:
    with pytest.raises(OptionError, match=f"expected numbers, found {type_name}"):
        list_of(int, values, option="one", wanted="numbers")


#: As where a package is not installed, whichever module of ours asks for it first.
WITHOUT = """
import sys
sys.modules["duckdb"] = sys.modules["deltalake"] = None
import directkafka as dk
for make in (lambda: dk.DuckDBSink("f.duckdb", "t"), lambda: dk.DuckDBOffsets("f.duckdb"), lambda: dk.DeltaSink("d")):
    try:
        make()
    except dk.OptionError as error:
        print(error)
"""


def test_a_store_whose_package_is_missing_names_the_extra_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True)
    duckdb, offsets, delta = done.stdout.splitlines()
    assert duckdb == offsets
    assert "the package duckdb is not installed: run pip install '.[duckdb]'" in duckdb
    assert "the package deltalake is not installed: run pip install '.[delta]'" in delta
