"""What pages say in prose against what is there: nothing is called absent that works, no place is left out."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_args

import pytest
from tests.error_types import errors_of

import directkafka
import directkafka.cli.all_commands
from directkafka import errors
from directkafka.cli import app as cli
from directkafka.errors import data_loss, streams
from directkafka.errors import kafka as kafka_errors
from directkafka.options.producer import NAME_PREFIX, ledger_topic, sink_specs
from directkafka.options.source import option_table
from directkafka.pipeline.file import replay_name
from directkafka.sinks.registry import own_types, sink_type
from directkafka.spark.datasource.source import DirectKafkaDataSource

ROOT = Path(__file__).parents[2]
DESIGN = (ROOT / "docs" / "DESIGN.md").read_text()
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
README = (ROOT / "README.md").read_text()
OPERATIONS = (ROOT / "docs" / "guide" / "operations.md").read_text()
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "guide").glob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
]
COMMANDS = {command.name or command.callback.__name__ for command in cli.app.registered_commands if command.callback}

#: `X` is refused, `X` is not there. What a sentence says of a value behind the name is another matter.
ABSENT = re.compile(
    r"`([^`]+)`,? (?:is|are) (?:not (?:there|yet|supported|implemented|possible)|refused|missing|absent)\b"
    r"(?! with| where| in)"
)
#: Doing words that stand for a part of the format.
DOING = {"PendingWrite": "writer streamWriter", "Reading": "reader streamReader"}


def benchmark_module(name: str) -> ModuleType:
    """A module of benchmarks/, which are scripts and import one another by their bare names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module(name)


def prose(page: Path) -> str:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return " ".join(text.split())


def exists(name: str) -> bool:
    """Whether the code of a sentence is something that works: a public name, a command, an option, the format."""
    options = {spec.name for spec in (*option_table(), *sink_specs())}
    if "write" in name and "directkafka" in name:
        return hasattr(DirectKafkaDataSource, "writer")
    bare = name.removeprefix("dk.").removeprefix("directkafka ").removesuffix("()")
    return hasattr(directkafka, bare) or bare in COMMANDS or bare in options


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_says_that_what_works_is_absent(page: Path) -> None:
    text = prose(page)
    assert [name for name in ABSENT.findall(text) if exists(name)] == []
    for doing, methods in DOING.items():
        is_there = all(hasattr(DirectKafkaDataSource, method) for method in methods.split())
        assert not (is_there and f"{doing} is refused" in text)


def test_the_check_sees_what_it_is_for() -> None:
    text = '`df.write.format("directkafka")` is not there, `dk.KafkaSink` is not yet, `replay` is missing'
    assert [exists(name) for name in ABSENT.findall(text)] == [True, True, True]
    assert ABSENT.findall("`sasl.kerberos` is refused, `mode` is refused with replace") == ["sasl.kerberos"]
    assert not exists("sasl.kerberos")


def test_monitoring_names_every_way_to_tell_a_consumer_group() -> None:
    section = OPERATIONS.partition("\n## Monitoring\n")[2].partition("\n## ")[0]
    ways = [spec.name for spec in option_table() if "consumer group to which" in spec.doc]
    assert ways == ["commitToGroup"]
    assert [name for name in (*ways, "offsets_group", "commit_async") if f"`{name}`" not in section] == []


def test_every_extra_that_is_named_is_there_and_every_one_for_users_is_named() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named_by = {path: path.read_text() for path in (*PAGES, *(ROOT / "src").rglob("*.py"))}
    # What is not on PyPI is not installed by its name.
    assert [path for path, text in named_by.items() if re.search(r"pip install \S*directkafka\b", text)] == []
    named = {
        extra for text in named_by.values() for extra in re.findall(r"""pip install (?:-e )?["']\.\[(\w+)\]""", text)
    }
    assert named == extras - {"test"}
    guides = "".join(path.read_text() for path in PAGES)
    assert [extra for extra in named if f'pip install ".[{extra}]"' not in guides] == []


def test_the_guide_s_table_of_sinks_has_every_type() -> None:
    page = (ROOT / "docs" / "guide" / "pipelines.md").read_text()
    table = re.search(r"^\| type \|.*?\n\n", page, re.DOTALL | re.MULTILINE)
    assert table is not None
    cells = " ".join(re.findall(r"^\| (.*?) \|", table[0], re.MULTILINE))
    assert [name for name in own_types() if f"`{name}`" not in cells] == []


@pytest.mark.parametrize(("page", "type"), [("kafka-sink.md", "kafka"), ("files.md", "parquet")])
def test_what_a_guide_s_table_of_options_names_can_be_written_in_a_file(page: str, type: str) -> None:
    text = (ROOT / "docs" / "guide" / page).read_text()
    table = re.search(r"^\| option \|.*?\n\n", text, re.DOTALL | re.MULTILINE)
    assert table is not None
    names = re.findall(r"^\| `(\w+)` \|", table[0], re.MULTILINE)
    assert len(names) >= 6
    assert [name for name in names if name not in cast("Any", sink_type(type)).__pydantic_fields__] == []


def test_the_design_names_every_store_that_settles_a_lost_answer() -> None:
    section = DESIGN.partition("\n## Outcomes of a commit\n")[2].partition("\n## ")[0]
    source = ROOT / "src" / "directkafka"
    settling = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if "raise CommitUnknownError(" in path.read_text()
    }
    assert len(settling) >= 2
    assert settling == set(re.findall(r"`(sinks/[\w/]+\.py)`", section.partition("\n|")[0]))


def test_the_design_and_contributors_know_every_module_that_may_import_kafka_python() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    allowed = next(contract for contract in contracts if contract.get("forbidden_modules") == ["kafka"])[
        "ignore_imports"
    ]
    files = [
        allowed_import.partition(" ->")[0].removeprefix("directkafka.").replace(".", "/") + ".py"
        for allowed_import in allowed
    ]
    sentence = re.search(r"kafka-python\s+is imported by (.*?) alone", DESIGN, re.DOTALL)
    assert sentence is not None
    assert sorted(re.findall(r"`([\w/.]+)`", sentence[1])) == sorted(files)
    told = re.search(r"kafka-python is touched by four files of `kafka/`:(.*?)\.\n", CONTRIBUTING, re.DOTALL)
    assert told is not None
    assert sorted(f"kafka/{name}" for name in re.findall(r"`([\w./]+)`", told[1])) == sorted(files)


def test_operations_says_what_to_do_on_every_error() -> None:
    section = OPERATIONS.partition("\n## What to do on each error\n")[2].partition("\n## ")[0]
    cells = " ".join(re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE))
    bases = {"DirectKafkaError", "KafkaError", "StoreError"}
    names = {error.__name__ for module in (errors, kafka_errors, streams) for error in errors_of(module)} - bases
    assert set(re.findall(r"`(\w+)`", cells)) == names
    # What has a name of Spark's is one of them.
    types = errors_of(data_loss)
    assert len(types) > 10
    assert [error_type for error_type in types if not {base.__name__ for base in error_type.__mro__} & names] == []


def test_an_image_is_told_to_import_modules_that_bring_every_kernel() -> None:
    [sentence] = re.findall(r"An image may bring them: import\s+(.*?)\s+once", OPERATIONS, re.DOTALL)
    brought = imported_with(re.findall(r"`directkafka\.([\w.]+)`", sentence))
    package = ROOT / "src" / "directkafka"
    with_kernels = [path for path in package.rglob("*.py") if re.search(r"^@kernel\(", path.read_text(), re.MULTILINE)]
    assert len(with_kernels) > 5
    assert [path for path in with_kernels if module_of(path) not in brought] == []


def imported_with(modules: list[str]) -> set[str]:
    """What is imported with modules, by the imports at the top of each; names without ``directkafka.``."""
    waiting, imported_modules = list(modules), set[str]()
    while waiting:
        name = waiting.pop()
        path = ROOT / "src" / "directkafka" / (name.replace(".", "/") + ".py")
        if name in imported_modules or not path.exists():
            continue
        imported_modules.add(name)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("directkafka"):
                module = (node.module or "").partition(".")[2]
                waiting += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return imported_modules


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src" / "directkafka").with_suffix("").parts)


def test_the_kafka_sink_s_guide_has_the_figures_of_the_design() -> None:
    guide = (ROOT / "docs" / "guide" / "kafka-sink.md").read_text()
    [row] = re.findall(r"^\| a Kafka transaction's fixed cost.*? \| (.*?) \|", PERFORMANCE, re.MULTILINE)
    [whole] = re.findall(
        r"^\| a Kafka transaction's fixed cost.*the whole batch (\d+ ms) \|$", PERFORMANCE, re.MULTILINE
    )
    figure, unit = row.split()
    assert f"the transaction takes {float(figure):g} {unit}, the whole batch {whole}" in guide


def test_the_readme_s_table_has_the_figures_of_the_last_run() -> None:
    pages = benchmark_module("pages")
    [table] = re.findall(r"<!-- measured -->\n(.*?)\n<!-- /measured -->", README, re.DOTALL)
    assert table.splitlines() == list(pages.readme_rows(PERFORMANCE))
    assert len(table.splitlines()) == 2 + len(pages.HEADLINES)


def test_the_page_of_figures_has_a_place_for_each_group_of_the_benchmarks() -> None:
    groups = re.findall(r"^<!-- figures: (\w+) -->$", PERFORMANCE, re.MULTILINE)
    assert sorted(groups) == sorted(benchmark_module("run").GROUPS)


def test_a_group_s_table_is_replaced_as_a_whole_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, figures = benchmark_module("pages"), benchmark_module("figures")
    monkeypatch.setattr(pages, "PERFORMANCE", tmp_path / "performance.md")
    monkeypatch.setattr(pages, "README", tmp_path / "README.md")
    groups = benchmark_module("run").GROUPS
    page = "\n".join(f"<!-- figures: {group} -->\nof {group}\n<!-- /figures -->\n" for group in groups)
    pages.PERFORMANCE.write_text(page)
    pages.README.write_text("<!-- measured -->\nold\n<!-- /measured -->\n")
    names = {measure for _, measure, _ in pages.HEADLINES}
    headline_figures = [
        figures.Figure(name=name, value=0.8, unit="x", required=2.0, detail="a, b") for name in sorted(names)
    ]
    for _ in range(2):
        pages.write_pages({"headers": headline_figures})
    written = pages.PERFORMANCE.read_text()
    assert pages.figures_on(written) == dict.fromkeys(names, 0.8)
    assert written.count("| 0.80 x | 2, **missed** | a, b |") == len(names)
    start, end = (written.index(f"<!-- figures: {group}") for group in ("headers", "columns"))
    assert written[:start] + written[end:] == page.replace(
        "<!-- figures: headers -->\nof headers\n<!-- /figures -->\n\n", ""
    )
    rows = pages.README.read_text().splitlines()
    assert len(rows) == 4 + len(pages.HEADLINES)
    assert sum(row.endswith("| 1.2 |") for row in rows) == 2
    with pytest.raises(ValueError, match="0 places for 'figures: nothing'"):
        pages.write_pages({"nothing": []})


def test_the_readme_names_every_mode_every_command_and_every_way_to_read_and_write() -> None:
    modes = get_args(cast("Any", sink_type("postgres")).__pydantic_fields__["mode"].annotation)
    ways = (
        "dk.Pipeline",
        "dk.write_stream",
        "dk.foreach_batch",
        "dk.create_rdd",
        "dk.create_direct_stream",
        "df.writeStream",
    )
    assert len(modes) == 5
    assert [name for name in (*modes, *COMMANDS - {"run"}, *ways) if f"`{name}`" not in README] == []
    assert 'df.write.format("directkafka")' in README


def test_the_guides_name_the_ledger_of_replays() -> None:
    suffix = replay_name("")
    assert f"`<pipeline>{suffix}`" in OPERATIONS
    rights = (ROOT / "docs" / "guide" / "kafka-sink.md").read_text().partition("\n## Rights (ACLs)\n")[2]
    for name in ("<pipeline>", f"<pipeline>{suffix}"):
        assert f"`{NAME_PREFIX}.{name}`" in rights
        assert f"`{ledger_topic(name)}`" in rights


def test_how_many_files_of_tests_go_side_by_side_is_left_to_the_makefile() -> None:
    pages = [CONTRIBUTING, *(path.read_text() for path in (ROOT / "docs" / "adr").glob("*.md"))]
    assert [text for text in pages if re.search(r"\b(two|three|four|\d+) files (at a time|at work)", text)] == []


def test_the_examples_page_has_a_row_for_each_example() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    examples = [path.name + "/" * path.is_dir() for path in (ROOT / "examples").iterdir() if path.name != "README.md"]
    assert [name for name in examples if f"({name}" not in page and not name.startswith("__")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_line_of_a_paragraph_is_not_indented(page: Path) -> None:
    """Only what belongs to an item of a list is."""
    wrong, may_be = [], False
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for number, line in enumerate(text.splitlines(), start=1):
        is_item = re.match(r" *([-*]|\d+\.) ", line) is not None
        if line.startswith(" ") and not (may_be or is_item):
            wrong.append((number, line))
        # An item goes on until a line that begins at the margin.
        may_be = is_item or (may_be and (line.startswith(" ") or not line))
    assert wrong == []


def test_all_extras_are_in_the_one_of_all_but_those_for_a_machine_of_one_s_own() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (line,) = extras["all"]
    assert set(re.findall(r"\w+", line)) - {"directkafka"} == extras.keys() - {"all", "demo", "test"}
