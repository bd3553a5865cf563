"""What the code of the package looks like: sizes, words, docstrings, exports."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "directkafka"
FILES = sorted(SOURCE.rglob("*.py"))
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
LEFT_OVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

#: Methods of PySpark that import pandas or ask for it.
PANDAS_METHODS = {
    "mapInArrow",
    "mapInPandas",
    "toPandas",
    "pandas_udf",
    "arrow_udf",
    "applyInPandas",
    "applyInArrow",
    "pandas_api",
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def public_definitions(body: list[ast.stmt]) -> Iterator[Definition]:
    """Functions and classes without a leading underscore, and the public methods of those classes."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body)


pytestmark = pytest.mark.parametrize("path", FILES, ids=name_of)


def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX


def test_functions_are_short(path: Path) -> None:
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= FUNCTION_LINES_MAX
    }
    assert long == {}


def test_nothing_is_left_for_later(path: Path) -> None:
    lines = enumerate(path.read_text().splitlines(), start=1)
    assert [number for number, line in lines if LEFT_OVER.search(line)] == []


def test_a_module_and_what_is_public_in_it_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module has no docstring"
    bare = [node.name for node in public_definitions(tree.body) if not ast.get_docstring(node)]
    assert bare == []


def test_exported_names_exist_and_are_named_once(path: Path) -> None:
    module = importlib.import_module(module_of(path))
    exported = getattr(module, "__all__", [])
    assert [name for name in exported if not hasattr(module, name)] == []
    assert len(set(exported)) == len(exported)


def test_spark_gets_its_arrow_functions_from_one_place_that_works_without_pandas(path: Path) -> None:
    """``DataFrame.mapInArrow`` asks for pandas, which a plain installation does not have."""
    calls = {
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in PANDAS_METHODS
    }
    assert not calls or path.name == "arrow_map.py"
