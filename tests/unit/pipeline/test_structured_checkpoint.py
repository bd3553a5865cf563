"""The offset log's format, both versions of it, and what is no Kafka source."""

from __future__ import annotations

import pytest

from directkafka.errors import EnvironmentFaultError
from directkafka.offsets import TopicPartition
from directkafka.pipeline.structured_checkpoint import parse_offsets

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795262592297,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def parsed(*lines: str) -> dict[TopicPartition, int]:
    return parse_offsets("\n".join(lines), place="c/offsets/3").ends


@pytest.mark.parametrize(
    "lines", [("v1", METADATA, '{"t":{"0":23,"1":-1}}'), ("v2", METADATA, '0:{"t":{"0":23,"1":-1}}')]
)
def test_both_versions_of_the_log_give_offsets_and_the_time_of_the_plan(lines: tuple[str, ...]) -> None:
    logged = parse_offsets("\n".join(lines), place="c/offsets/3")
    assert logged.ends == {TopicPartition("t", 0): 23, TopicPartition("t", 1): -1}
    assert logged.planned_at_ms == 1795262592297


@pytest.mark.parametrize(
    "source",
    ["51", '{"offset":5,"timestamp":1000}', '{"logOffset":3}', "-", "{}", '{"t":{"zero":1}}', '{"t":{"0":"1"}}', "[1]"],
)
def test_sources_that_are_not_kafka_give_nothing(source: str) -> None:
    assert parsed("v1", METADATA, source) == {}
    assert parsed("v2", METADATA, f"0:{source}") == {}


def test_of_two_sources_on_one_partition_the_lower_position_counts() -> None:
    found = parsed("v1", METADATA, '{"t":{"0":7,"1":1}}', "51", '{"t":{"0":5},"u":{"0":9}}')
    assert found == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 1, TopicPartition("u", 0): 9}


@pytest.mark.parametrize("text", ["", "v3\n{}\n{}", "v1", "v1\n{"])
def test_what_is_no_offset_log_is_an_error_that_names_the_file(text: str) -> None:
    with pytest.raises(EnvironmentFaultError, match="c/offsets/3"):
        parse_offsets(text, place="c/offsets/3")
