"""The page that compares with Spark's source and sink: each row says something, and each test it names is there."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from directkafka.options.source import option_table

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "reference" / "spark-parity.md"
ROW = re.compile(r"^\| (.+?) \| (.+) \|$")
SAYS = re.compile(r"`test_\w+`|Differs:|Cannot:")

#: The titles of the peer's suites and its error conditions, as its sources spell them.
PEER = json.loads(Path(__file__).with_name("spark_connector.json").read_text())
SUITES: dict[str, list[str]] = PEER["suites"]

#: Options that Spark's source does not have.
OURS = {"maxOffsetsPerTriggerByTopic", "commitToGroup", "minRecordAge", "columns"}

#: The peer's options: the table of its source provider.
_NAMES = """
    kafka.bootstrap.servers subscribe subscribePattern assign startingOffsets startingOffsetsByTimestamp
    startingTimestamp startingOffsetsByTimestampStrategy endingOffsets endingOffsetsByTimestamp endingTimestamp
    failOnDataLoss maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition
    includeHeaders groupIdPrefix kafka.group.id kafkaConsumer.pollTimeoutMs fetchOffset.numRetries
    fetchOffset.retryIntervalMs kafka.isolation.level partition.metadata.cache.ttl.ms _mockSystemTime
"""
SPARK_OPTIONS = _NAMES.split()


#: The sink's options and columns, from its writer and provider.
SINK_NAMES = ("value", "key", "topic", "headers", "partition", "timestamp", "kafka.*")


def rows() -> list[tuple[str, str]]:
    matches = [ROW.match(line) for line in PAGE.read_text().splitlines()]
    cells = [(match[1], match[2]) for match in matches if match]
    return [row for row in cells if not row[0].startswith("---") and row[1] != "shown by, or why not"]


def suites_of_the_page() -> dict[str, list[str]]:
    """The titles that the page has, by suite."""
    titles_by_suite: dict[str, list[str]] = {}
    for section in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        cells = [match[1] for line in body.partition("\n## ")[0].splitlines() if (match := ROW.match(line))]
        titles_by_suite[name] = [title for cell in cells[1:] for title in cell.split(" · ")]
    return titles_by_suite


@cache
def places_of_tests() -> dict[str, set[str]]:
    """The folders below ``tests`` that have a test of this name."""
    folders_by_test: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^ *def (test_\w+)\(", path.read_text(), flags=re.MULTILINE):
            folders_by_test.setdefault(name, set()).add(path.relative_to(TESTS).parts[0])
    return folders_by_test


def is_unit_only(cell: str) -> bool:
    named = re.findall(r"`(test_\w+)`", cell)
    return bool(named) and all(places_of_tests()[name] <= {"unit", "properties"} for name in named)


def test_each_row_names_a_test_or_says_why_there_is_none() -> None:
    assert rows()
    assert [first for first, cell in rows() if not SAYS.search(cell)] == []
    # A row that nobody takes back when the thing is there.
    assert [first for first, cell in rows() if "Not yet" in cell] == []


def test_the_tests_that_a_row_names_are_there() -> None:
    named = [(first, name) for first, cell in rows() for name in re.findall(r"`(test_\w+)`", cell)]
    assert [(first, name) for first, name in named if name not in places_of_tests()] == []


def test_a_row_says_unit_only_where_no_test_of_it_runs_a_broker_and_nowhere_else() -> None:
    assert [first for first, cell in rows() if cell.endswith("Unit only") != is_unit_only(cell)] == []


@pytest.mark.parametrize("suite", SUITES)
def test_the_page_has_every_title_of_the_peer_s_suite_once_and_no_other(suite: str) -> None:
    assert sorted(suites_of_the_page().get(suite, [])) == sorted(SUITES[suite])


def test_the_page_has_no_suite_that_the_peer_has_not() -> None:
    assert suites_of_the_page().keys() == SUITES.keys()


def test_every_error_condition_of_the_peer_has_a_row() -> None:
    conditions = [cell.rpartition(".")[2] for cell, _ in rows()]
    assert [condition for condition in PEER["conditions"] if conditions.count(condition) != 1] == []


def test_every_option_of_spark_s_source_has_a_row() -> None:
    first = " ".join(cell for cell, _ in rows())
    assert [name for name in SPARK_OPTIONS if f"`{name}`" not in first] == []


def test_every_option_of_ours_is_spark_s_or_known_as_ours() -> None:
    names = {option.name for option in option_table() if "." not in option.name}
    assert names - set(SPARK_OPTIONS) == OURS


def test_every_option_and_column_of_spark_s_sink_has_a_row() -> None:
    sink = PAGE.read_text().partition("## The sink's options")[2].partition("\n## ")[0]
    assert [name for name in SINK_NAMES if f"`{name}`" not in sink] == []
