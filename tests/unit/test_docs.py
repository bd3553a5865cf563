"""The documents against the code: generated pages, the crash table, names, links, examples."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tools.reference.pages import pages
from tools.reference.public_names import signature_of

import directkafka
from directkafka.errors import DirectKafkaError
from directkafka.fault_points import FAULT_POINTS, STREAM_FAULT_POINTS
from directkafka.kafka.consumer import range_reader
from directkafka.kafka.records import decoder
from directkafka.options.client import DECOMPRESSED_BYTES_MAX
from directkafka.pipeline.application import spark_application
from directkafka.pipeline.execution import session
from directkafka.pipeline.file import load
from directkafka.sinks.postgres import copy_encoder
from directkafka.spark import settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").glob("*.md")]
DESIGN = (DOCS / "DESIGN.md").read_text()
CRASH_PAGE = (DOCS / "crash-points.md").read_text()
COLUMNS_MAX = 120
#: Reference pages that are compared with the code by tests of their own.
WRITTEN_BY_HAND = {"reference/spark-parity.md", "reference/spark-settings.md"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def each_page(function: object) -> object:
    return pytest.mark.parametrize("page", PAGES, ids=name_of)(function)


def fences(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    return DESIGN.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(table: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


MADE = pages()


#: Made by `make docs` for whoever wants to read it, and not kept.
NOT_IN_GIT = "reference/api.md"


@pytest.mark.parametrize("name", [name for name in MADE if name != NOT_IN_GIT])
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text() == MADE[name], "run `make docs`"


WORD = re.compile(r"[A-Za-z]{4,}")


@pytest.mark.parametrize("name", [name for name in MADE if name.startswith("reference/")])
def test_each_word_of_a_generated_page_is_one_of_the_code_s(name: str) -> None:
    """A replacement in the middle of a word makes one that nobody wrote."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tools" / "reference").glob("*.py")]
    written = {word.lower() for file in files for word in WORD.findall(file.read_text())}
    assert {word for word in WORD.findall(MADE[name]) if word.lower() not in written} == set()


def test_the_page_of_the_pipeline_file_has_the_words_of_toml_and_none_of_python_s_types() -> None:
    kinds = re.findall(
        r"^- `[^`]+` \((.*?)(?:, (?:required|optional|default .*?))\)", MADE["reference/pipeline-file.md"], re.M
    )
    assert len(kinds) > 40
    words = {word for kind in kinds for word in re.sub(r'"[^"]*"', "", kind).split()}
    assert words <= {"text", "or", "table", "list", "of", "texts", "whole", "number", "true", "false"}


def test_the_reference_has_no_page_that_nothing_makes() -> None:
    there = {str(path.relative_to(DOCS)) for path in (DOCS / "reference").iterdir()}
    made = {name for name in MADE if name.startswith("reference/")}
    assert there - WRITTEN_BY_HAND - {NOT_IN_GIT} == made - {NOT_IN_GIT}


def test_the_page_of_the_command_line_has_every_command() -> None:
    commands = re.findall(r"^## `directkafka (\w+)`", MADE["reference/cli.md"], re.MULTILINE)
    assert {"run", "check", "verify", "replay", "adopt", "restart", "demo"} <= set(commands)


def test_every_public_name_is_documented() -> None:
    api = MADE["reference/api.md"]
    assert [name for name in directkafka.__all__ if f"`dk.{name}`" not in api] == []


def test_a_signature_has_python_s_own_marks() -> None:
    def with_all_marks(a: int, /, b: int, *, c: int = 1, **others: int) -> None: ...
    def with_star(*numbers: int, c: str = "x") -> None: ...

    marks = "(a: int, /, b: int, *, c: int = 1, **others: int) -> None"
    assert signature_of("with_all_marks", with_all_marks) == f"```python\nwith_all_marks{marks}\n```"
    assert signature_of("with_star", with_star) == '```python\nwith_star(*numbers: int, c: str = "x") -> None\n```'


def test_what_the_page_of_public_names_says_to_see_is_on_it() -> None:
    """A docstring may send a reader to a module; the page has none."""
    api = MADE["reference/api.md"]
    headings = {heading.rpartition(".")[2] for heading in re.findall(r"^#+ `([\w.]+)(?:\(\))?`", api, re.MULTILINE)}
    seen = re.findall(r"\b[Ss]ee\s+`([\w.]+)`", api)
    assert seen
    assert [name for name in seen if name not in headings] == []


def test_what_a_page_imports_is_on_the_page_of_public_names() -> None:
    """Or on that of errors. So is what a sentence names together with its module."""
    known = MADE["reference/api.md"] + MADE["reference/errors.md"]
    named: set[tuple[str, str]] = set()
    for page in (path for path in PAGES if path.parent == ROOT or path.parent.name in {"guide", "examples"}):
        text = page.read_text()
        for block in fences(text, "python"):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "directkafka":
                    named |= {(str(node.module), alias.name) for alias in node.names}
        places = re.findall(r"`(directkafka(?:\.[a-z_]+)+)\.(\w+)(?:\(\))?`", prose(text))
        named |= {(module, name) for module, name in places if module_has(module, name)}
    assert ("directkafka.testing.java", "use_java") in named
    lost = [(module, name) for module, name in named if not re.search(rf"^#+ `([\w.]+\.)?{name}`", known, re.MULTILINE)]
    assert lost == []


def module_has(module: str, name: str) -> bool:
    """Whether it is a name of the module's own, and no module, logger or prefix."""
    try:
        member = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return member is not None and not isinstance(member, ModuleType)


def test_every_error_is_documented() -> None:
    errors = importlib.import_module("directkafka.errors")
    names = [
        name
        for name, member in vars(errors).items()
        if isinstance(member, type) and issubclass(member, DirectKafkaError)
    ]
    assert [name for name in names if f"## `{name}`" not in MADE["reference/errors.md"]] == []


def test_the_crash_table_has_a_row_for_each_fault_point() -> None:
    assert first_cells(section("Crash table")) == list(FAULT_POINTS)


def test_the_crash_table_names_a_test_for_each_row() -> None:
    table = section("Crash table")
    named = dict(re.findall(r"^- \*\*(\w)\*\*: `(tests/chaos/\w+\.py)`", CRASH_PAGE, re.MULTILINE))
    used = dict(re.findall(r"^\| `([\w.]+)` \|.*\| (\w) \|$", table, re.MULTILINE))
    assert set(used) == set(FAULT_POINTS)
    assert set(used.values()) == set(named)
    for point, test in used.items():
        text = (ROOT / named[test]).read_text()
        assert point in text or "for point in FAULT_POINTS" in text


def test_the_table_of_streams_has_a_row_for_each_of_their_fault_points_and_names_its_test() -> None:
    table = section("A batch of a direct stream")
    assert first_cells(table) == list(STREAM_FAULT_POINTS)
    [(file, name)] = re.findall(r"`(tests/chaos/\w+\.py)`,\s+`(\w+)`", table)
    text = (ROOT / file).read_text()
    assert f"def {name}(" in text
    assert [point for point in STREAM_FAULT_POINTS if f"{point}@" not in text] == []


CRASH_POINTS = CRASH_PAGE.partition("\n## Crash points of the exactly-once systems\n")[2]
#: What a row of that table is shown by, in words: ``K1``, ``P13``.
KEY = re.compile(r"\b[A-Z]\d+\b")


def crash_tests() -> dict[str, tuple[Path, str]]:
    """File and name of the test that each key of the table stands for."""
    tests: dict[str, tuple[Path, str]] = {}
    file = Path()
    for line in CRASH_POINTS.splitlines():
        if named := re.match(r"- `([\w/.]+)`", line):
            file = ROOT / named[1]
        elif named := re.match(r"  - \*\*(\w+)\*\* `(\w+)`$", line):
            assert named[1] not in tests, f"{named[1]} stands for two tests"
            tests[named[1]] = file, named[2]
    return tests


def crash_rows() -> list[tuple[int, str]]:
    """Number and last cell of each row."""
    return [(int(row[1]), row[2]) for row in re.finditer(r"^\| (\d+) \|.*\| ([^|]+) \|$", CRASH_POINTS, re.MULTILINE)]


def test_each_of_the_28_crash_points_has_a_row_that_names_a_test() -> None:
    tests = crash_tests()
    rows = crash_rows()
    assert [number for number, _ in rows] == list(range(1, 29))
    assert [number for number, shown in rows if not set(KEY.findall(shown)) & set(tests)] == []
    assert {key for _, shown in rows for key in KEY.findall(shown)} == set(tests)


def test_the_tests_of_the_crash_points_are_where_the_table_says() -> None:
    assert [(key, name) for key, (file, name) in crash_tests().items() if f"def {name}(" not in file.read_text()] == []


def test_a_crash_point_s_fault_points_are_met_by_the_tests_beside_them() -> None:
    """``K1 and P1 at `batch.written`; F4 at ...``: each test's file has the point among its parameters."""
    tests = crash_tests()
    for number, shown in crash_rows():
        for part in shown.split(";"):
            points, files = re.findall(r"`([a-z]+\.[a-z_]+)`", part), [tests[key][0] for key in KEY.findall(part)]
            for text in (file.read_text() for file in files):
                assert "in FAULT_POINTS" in text or [point for point in points if point not in text] == [], (
                    f"row {number}"
                )
            assert set(points) <= set(FAULT_POINTS), f"row {number}"


def test_the_design_names_every_spark_setting_that_is_set() -> None:
    named = first_cells((DOCS / "reference" / "spark-settings.md").read_text())
    source = "".join(Path(module.__file__).read_text() for module in (session, spark_application, settings))
    assert sorted(named) == sorted(set(re.findall(r'"(spark\.[\w.]+)"', source)))


def test_the_memory_bounds_are_those_of_the_code() -> None:
    bounds = section("Memory bounds")
    inline = inspect.signature(directkafka.PostgresSink).parameters["inline_bytes_max"].default
    assert bounds.count(f"{inline >> 20} MiB of Arrow") == 1
    assert f"holds at most |\n|---|---|\n| a task's fetch | {range_reader.BUFFERS} responses" in bounds
    assert f"{decoder.BATCH_ROWS_MAX:,} rows or {decoder.BATCH_BYTES_MAX >> 20} MiB" in bounds
    assert f"decompressed | {DECOMPRESSED_BYTES_MAX >> 20} MiB" in bounds
    assert f"COPY chunks of {copy_encoder.CHUNK_BYTES >> 10} KiB" in bounds


def test_the_layers_are_those_of_the_import_contract() -> None:
    tidy = section("Layers")
    for package in (path.parent.name for path in (ROOT / "src" / "directkafka").glob("*/__init__.py")):
        assert re.search(rf"\b{package}\b", tidy), package


def test_the_ten_questions_are_answered_by_at_most_two_files_each_which_have_the_answers() -> None:
    rows = re.findall(r"^\| ([^|]+\?) \| ([^|]+) \|$", section("Ways and questions"), re.MULTILINE)
    assert len(rows) == 10
    for question, answer in rows:
        places = re.findall(r"`([\w/]+\.py):(\w+)`", answer)
        assert 1 <= len(places) <= 2, question
        for file, name in places:
            text = (ROOT / "src" / "directkafka" / file).read_text()
            assert re.search(rf"^(?:def |class )?{name}\b", text, re.MULTILINE), f"{question}: {file} has no {name}"


#: How many files each way may have.
WAYS = {
    "An offset range, from plan to ledger": 9,
    "A record's bytes, from the socket to a row of Postgres": 16,
    "An option, from file to effect": 6,
    "An executor's error, to the exit code": 6,
}


def test_the_ways_are_short_and_pass_functions_that_are_there() -> None:
    ways = dict(re.findall(r"^- (\w[^:(]+?)(?: \([^)]*\))?:((?:.|\n  )+)", section("Ways and questions"), re.MULTILINE))
    assert ways.keys() == WAYS.keys()
    for way, path in ways.items():
        places = re.findall(r"`([\w/]+\.py):([\w.]+)`", path)
        assert len({file for file, _ in places}) == len(places) <= WAYS[way]
        for file, name in places:
            module = importlib.import_module("directkafka." + file.removesuffix(".py").replace("/", "."))
            assert callable(functools.reduce(getattr, name.split("."), module)), f"{way}: {file} has no {name}"


@each_page
def test_what_a_page_links_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose(page.read_text()))
    here = [link for link in links if "://" not in link]
    assert [link for link in here if not (page.parent / link).exists()] == []


@each_page
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text()
    files = re.findall(r"`(tests/[\w/]+(?:\.py)?)`", text)
    assert [name for name in files if not (ROOT / name).exists()] == []
    folders = (ROOT / "tests", ROOT / "src" / "directkafka" / "testing")
    sources = "\n".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in sources] == []


@each_page
def test_a_page_fits_a_terminal(page: Path) -> None:
    lines = enumerate(page.read_text().splitlines(), start=1)
    # A table's row cannot be folded.
    assert [number for number, line in lines if len(line) > COLUMNS_MAX and not line.startswith("|")] == []


@pytest.mark.parametrize(("page", "lines_max"), [("README.md", 100), ("docs/DESIGN.md", 450)])
def test_a_page_that_is_read_as_a_whole_is_no_longer_than_it_may_be(page: str, lines_max: int) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= lines_max


@each_page
def test_the_pipeline_files_of_a_page_are_valid(page: Path, tmp_path: Path) -> None:
    world = {"KAFKA": "localhost:9092", "DSN": "postgresql://localhost/air"}
    for text in fences(page.read_text(), "toml"):
        if "[pipeline]" in text:
            (tmp_path / "pipeline.toml").write_text(text)
            assert load(tmp_path / "pipeline.toml", world).sink


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "reference"], ids=name_of)
def test_the_python_of_a_page_compiles_and_names_what_exists(page: Path) -> None:
    for text in fences(page.read_text(), "python"):
        tree = ast.parse(text)
        assert [name for name in used_names(tree) if not hasattr(directkafka, name)] == []


def used_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "dk":
            yield node.attr


def test_decisions_are_numbered_without_a_gap_and_say_why() -> None:
    records = sorted((DOCS / "adr").glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        text = path.read_text()
        assert text.startswith(f"# {int(path.name[:4])}. "), path.name
        assert [part for part in ("Context", "Decision", "Consequences") if f"\n## {part}\n" not in text] == []
        assert f"({path.name})" in (DOCS / "adr" / "README.md").read_text()


def test_the_changelog_tells_of_this_version() -> None:
    assert f"## [{directkafka.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
