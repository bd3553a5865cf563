"""The page that compares with Spark's source and sink: each row says something, and each test it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from directkafka.options import option_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "spark-parity.md"
ROW = re.compile(r"^\| (.+?) \| (.+) \|$")
SAYS = re.compile(r"`test_\w+`|Differs:|Cannot:|Not yet")

#: Options that Spark's source does not have.
OURS = {"maxOffsetsPerTriggerByTopic", "commitToGroup", "columns"}

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
    found = [ROW.match(line) for line in PAGE.read_text().splitlines()]
    cells = [(one[1], one[2]) for one in found if one]
    return [one for one in cells if not one[0].startswith("---") and one[1] != "shown by, or why not"]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_a_row_names_a_test_or_says_why_there_is_none(row: tuple[str, str]) -> None:
    assert SAYS.search(row[1])


def test_every_test_that_the_page_names_is_there() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert sorted(name for name in named if f"def {name}(" not in sources) == []
    assert len(named) > 50


def test_every_option_of_spark_s_source_has_a_row() -> None:
    first = " ".join(cell for cell, _ in rows())
    assert [name for name in SPARK_OPTIONS if f"`{name}`" not in first] == []


def test_every_option_of_ours_is_spark_s_or_known_as_ours() -> None:
    names = {one.name for one in option_table() if "." not in one.name}
    assert names - set(SPARK_OPTIONS) == OURS


def test_every_option_and_column_of_spark_s_sink_has_a_row() -> None:
    sink = PAGE.read_text().partition("## The sink's options")[2].partition("\n## Pools")[0]
    assert [name for name in SINK_NAMES if f"`{name}`" not in sink] == []
    titles = sink.partition("## KafkaSinkSuite")[2].count("\n| ") - 1
    assert titles == 15
