"""What the code of the package looks like: sizes, words, docstrings, exports."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from directkafka.kafka.protocol.error_codes import ErrorCode

SOURCE = Path(__file__).parents[2] / "src" / "directkafka"
FILES = sorted(SOURCE.rglob("*.py"))
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
FOLDER_FILES_MAX = 16
#: Words that a module's text does not begin with: it says first what the module is.
NO_NOUNS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Why"}
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


@cache
def texts() -> dict[str, str]:
    """Every file's text by its name. One test looks at all files: a test for each takes longer than the look."""
    return {name_of(path): path.read_text() for path in FILES}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in texts().items()}


@cache
def nodes_by_kind() -> dict[type[ast.AST], list[tuple[str, Any]]]:
    named_nodes = defaultdict(list)
    for name, tree in trees().items():
        for node in ast.walk(tree):
            named_nodes[type(node)].append((name, node))
    return named_nodes


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, Any]]:
    """Every node of these kinds, with the file that has it."""
    assert set(kinds) <= nodes_by_kind().keys(), "kinds of nodes that are there, no bases of them"
    return chain.from_iterable(nodes_by_kind()[kind] for kind in kinds)


def test_files_are_short() -> None:
    lines = {name: len(text.splitlines()) for name, text in texts().items()}
    assert {name: count for name, count in lines.items() if count > FILE_LINES_MAX} == {}


def test_folders_are_small_enough_to_be_seen_at_a_glance() -> None:
    counts = Counter(path.parent for path in FILES if path.name != "__init__.py")
    assert {
        str(folder.relative_to(SOURCE)): count for folder, count in counts.items() if count > FOLDER_FILES_MAX
    } == {}


def test_functions_are_short() -> None:
    lines = {
        f"{name}, {node.name}": node.end_lineno - node.lineno + 1
        for name, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)
    }
    assert {name: count for name, count in lines.items() if count > FUNCTION_LINES_MAX} == {}


def test_nothing_is_left_for_later() -> None:
    left_lines = [
        f"{name}:{number}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if LEFT_OVER.search(line)
    ]
    assert left_lines == []


def test_a_module_s_text_opens_with_what_the_module_is() -> None:
    opens = {name: (ast.get_docstring(tree) or "").partition(" ")[0] for name, tree in trees().items()}
    assert {name: word for name, word in opens.items() if word in NO_NOUNS} == {}


def test_a_module_and_what_is_public_in_it_have_docstrings() -> None:
    assert [name for name, tree in trees().items() if not ast.get_docstring(tree)] == []
    bare = [
        f"{name}, {node.name}"
        for name, tree in trees().items()
        for node in public_definitions(tree.body)
        if not ast.get_docstring(node)
    ]
    assert bare == []


def test_exported_names_exist_and_are_named_once() -> None:
    modules = [importlib.import_module(module_of(path)) for path in FILES]
    exported = [(module, name) for module in modules for name in getattr(module, "__all__", [])]
    assert [(module.__name__, name) for module, name in exported if not hasattr(module, name)] == []
    assert [(module.__name__, name) for (module, name), count in Counter(exported).items() if count > 1] == []


def test_spark_gets_its_arrow_functions_from_one_place_that_works_without_pandas() -> None:
    """``DataFrame.mapInArrow`` asks for pandas, which a plain installation does not have."""
    users = {name for name, node in nodes(ast.Attribute) if node.attr in PANDAS_METHODS}
    assert users == {"spark/dataframe.py"}


def test_numba_is_imported_before_its_parts() -> None:
    """Otherwise two threads that import their first kernels at once may each get half of a module."""
    imports = [(name, node.lineno, node.module or "") for name, node in nodes(ast.ImportFrom)]
    imports += [(name, node.lineno, alias.name) for name, node in nodes(ast.Import) for alias in node.names]
    modules_by_file = defaultdict(list)
    for name, _, module in sorted(imports, key=lambda imported: imported[:2]):
        if module.partition(".")[0] in ("numba", "llvmlite"):
            modules_by_file[name].append(module)
    assert len(modules_by_file) > 5
    assert {name: modules for name, modules in modules_by_file.items() if modules[0] != "numba"} == {}


#: What may say an error code or an API version as a number: the two tables.
PROTOCOL = "kafka/protocol/"
CODE_OR_VERSION = re.compile(r"(^|_)(code|codes|version|version_min|version_max)$")
#: Rooms in which a code or a version is Kafka's.
OF_KAFKA = (
    "kafka/admin/",
    "kafka/consumer/",
    "kafka/network/",
    "kafka/producer/",
    "kafka/transactions/",
    "sinks/kafka/",
)


def numbers_in(node: ast.expr) -> bool:
    """Whether it is a number, or a collection with one in it."""
    if isinstance(node, ast.UnaryOp):
        return numbers_in(node.operand)
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return any(numbers_in(element) for element in node.elts)
    return isinstance(node, ast.Constant) and type(node.value) is int


def called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def bare_numbers(tree: ast.AST) -> Iterator[int]:
    """Lines in which a code or a version is compared with a number, is given as one, or is named beside one."""
    names = {f"_{code.name}" for code in ErrorCode}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(CODE_OR_VERSION.search(called(side)) for side in sides) and any(map(numbers_in, sides)):
                yield node.lineno
        elif isinstance(node, ast.keyword):
            if node.arg and CODE_OR_VERSION.search(node.arg) and numbers_in(node.value):
                yield node.value.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and numbers_in(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(called(target) in names or CODE_OR_VERSION.search(called(target)) for target in targets):
                yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        "if error.code == 3: ...",
        "if code in (0, 55): ...",
        "call(version_min=12)",
        "_UNKNOWN_TOPIC_ID = 100",
        "code = 0",
    ],
)
def test_a_bare_number_of_kafka_s_is_found(line: str) -> None:
    assert list(bare_numbers(ast.parse(line))) == [1]


def test_kafka_s_error_codes_and_api_versions_stand_in_their_tables_alone() -> None:
    lines = [
        f"{name}:{line}" for name, tree in trees().items() if name.startswith(OF_KAFKA) for line in bare_numbers(tree)
    ]
    assert not lines, f"say it by its name in {PROTOCOL}: {', '.join(lines)}"


def asks_a_sink(node: ast.AST) -> bool:
    """Whether it is ``getattr(sink, ...)``, ``hasattr(sink, ...)`` or ``isinstance(sink, ...)``."""
    if not (isinstance(node, ast.Call) and node.args and called(node.func) in ("getattr", "hasattr", "isinstance")):
        return False
    return re.search(r"(^|_)sink$", called(node.args[0])) is not None


def test_no_sink_is_asked_what_it_can_do_but_by_its_capabilities() -> None:
    assert asks_a_sink(ast.parse("getattr(binding.sink, 'writers_max', None)").body[0].value)  # type: ignore[attr-defined]
    calls = [f"{name}:{node.lineno}" for name, node in nodes(ast.Call) if asks_a_sink(node)]
    assert not calls, f"say it in SinkCapabilities, or as a method of Sink with a default: {', '.join(calls)}"
