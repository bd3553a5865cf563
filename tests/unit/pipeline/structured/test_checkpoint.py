"""The offset log's format, both versions of it, and what is no Kafka source."""

from __future__ import annotations

from pathlib import Path

import pytest

from directkafka.errors import EnvironmentFaultError
from directkafka.offsets import TopicPartition
from directkafka.operations.checkpoint import ArrowFiles
from directkafka.pipeline.structured.checkpoint import Checkpoint, parse_offsets

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795262592297,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def parsed(*lines: str) -> dict[TopicPartition, int]:
    return parse_offsets("\n".join(lines), path="c/offsets/3").ends


@pytest.mark.parametrize(
    "lines", [("v1", METADATA, '{"t":{"0":23,"1":-1}}'), ("v2", METADATA, '0:{"t":{"0":23,"1":-1}}')]
)
def test_both_versions_of_the_log_give_offsets_and_the_time_of_the_plan(lines: tuple[str, ...]) -> None:
    logged = parse_offsets("\n".join(lines), path="c/offsets/3")
    assert logged.sources == {"0": {TopicPartition("t", 0): 23, TopicPartition("t", 1): -1}}
    assert logged.planned_at_ms == 1795262592297


@pytest.mark.parametrize(
    "source",
    [
        "51",
        '{"offset":5,"timestamp":1000}',
        '{"logOffset":3}',
        "-",
        "{}",
        '{"t":{"zero":1}}',
        '{"t":{"0":"1"}}',
        "[1]",
        # Digits, and no number: to Python, or to anybody.
        '{"t":{"\u00b2":1}}',
        pytest.param('{"t":{"' + "9" * 5000 + '":1}}', id="a partition of 5000 digits"),
    ],
)
def test_sources_that_are_not_kafka_give_nothing(source: str) -> None:
    assert parsed("v1", METADATA, source) == {}
    assert parsed("v2", METADATA, f"0:{source}") == {}


def test_of_two_sources_on_one_partition_the_lower_position_counts() -> None:
    positions = parsed("v1", METADATA, '{"t":{"0":7,"1":1}}', "51", '{"t":{"0":5},"u":{"0":9}}')
    assert positions == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 1, TopicPartition("u", 0): 9}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v3\n{}\n{}",
        "v1",
        "v1\n{",
        "v1\n[]",
        'v1\n{"batchTimestampMs":"soon"}',
        'v1\n{"batchTimestampMs":[]}',
        pytest.param("v1\n{}\n" + "[" * 200_000, id="nested deeper than Python reads"),
        pytest.param("v1\n{}\n" + "9" * 5000, id="a number of 5000 digits"),
    ],
)
def test_what_is_no_offset_log_is_an_error_that_names_the_file(text: str) -> None:
    with pytest.raises(EnvironmentFaultError, match="c/offsets/3"):
        parse_offsets(text, path="c/offsets/3")


def written(folder: Path, **files: str) -> Checkpoint:
    """A checkpoint with these files; ``__`` stands for a slash."""
    for name, text in {"metadata": '{"id":"mine"}', **files}.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Checkpoint(ArrowFiles(str(folder)))


def logged(*sources: str, version: str = "v1") -> str:
    return "\n".join([version, METADATA, *sources])


P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_our_source_begins_a_partition_where_the_log_first_names_it(tmp_path: Path) -> None:
    checkpoint = written(tmp_path, offsets__4=logged('{"t":{"0":5}}'), offsets__5=logged('{"t":{"0":9,"1":3}}'))
    assert checkpoint.planned(5).begin() == {P0: 5, P1: 3}


def test_what_our_source_names_no_more_is_gone_for_good_and_what_spark_s_does_not_name_may_come_back(
    tmp_path: Path,
) -> None:
    files = {"offsets__4": logged('{"t":{"0":5,"1":3}}'), "offsets__5": logged('{"t":{"0":9}}')}
    assert written(tmp_path / "ours", **files).planned(5).dropped == {P1}
    spark = written(tmp_path / "spark", sources__0__0='v1\n{"t":{"0":2,"1":1}}', **files)
    assert spark.planned(5).dropped == frozenset()


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_spark_s_own_source_reads_a_partition_from_0_in_the_batch_that_names_it(tmp_path: Path, version: str) -> None:
    """It shows by what it noted before batch 0; a source that notes other things is another one."""
    name = "0:" if version == "v2" else ""
    checkpoint = written(
        tmp_path,
        sources__0__0='v1\n{"t":{"0":2}}',
        sources__1__0='v1\n{"path":"file:///a","timestamp":1,"batchId":0}',
        offsets__0=logged(f'{name}{{"t":{{"0":5}}}}', version=version),
        offsets__1=logged(f'{name}{{"t":{{"0":9,"1":3}}}}', version=version),
    )
    assert checkpoint.planned(0).begin() == {P0: 2}
    assert checkpoint.planned(1).begin() == {P0: 5, P1: 0}
    assert checkpoint.planned(1).starts == {P0: 5}


def test_each_source_of_a_query_has_its_own_way_with_new_partitions(tmp_path: Path) -> None:
    u0, u1 = TopicPartition("u", 0), TopicPartition("u", 1)
    checkpoint = written(
        tmp_path,
        sources__1__0='v1\n{"t":{"0":0}}',
        offsets__4=logged('{"u":{"0":1}}', '{"t":{"0":5}}'),
        offsets__5=logged('{"u":{"0":2,"1":8}}', '{"t":{"0":9,"1":3}}'),
    )
    assert checkpoint.planned(5).begin() == {P0: 5, P1: 0, u0: 1, u1: 8}
