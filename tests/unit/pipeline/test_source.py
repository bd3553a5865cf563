"""The source of a pipeline: its group for lag tools is named once, and told by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from directkafka import KafkaSink, SQLiteSink
from directkafka.errors import OptionError
from directkafka.pipeline.execution.routes import route_outputs
from directkafka.pipeline.source import PipelineSource

SOURCE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}


def kafka_sink(topic: str, group: str | None) -> KafkaSink:
    return KafkaSink({"bootstrap.servers": "localhost:9092"}, topic, offsets_group=group)


def source_of(group: str | None, *sinks: Any, **options: str) -> PipelineSource:
    return PipelineSource.of(SOURCE | options, route_outputs(sinks), commit_to_group=group)


def test_the_pipeline_s_group_is_the_source_s_for_both_engines(tmp_path: Path) -> None:
    source = source_of("dashboards", SQLiteSink(tmp_path / "a.db", "a"), kafka_sink("out", "others"))
    assert source.options.commit_to_group == "dashboards"
    assert source.given["commitToGroup"] == "dashboards"


def test_no_group_is_told_unless_it_is_asked_for(tmp_path: Path) -> None:
    source = source_of(None, SQLiteSink(tmp_path / "a.db", "a"))
    assert source.options.commit_to_group is None
    assert "committogroup" not in {name.lower() for name in source.given}


def test_dead_letters_keep_the_header_that_names_a_record_s_schema_for_their_replay(tmp_path: Path) -> None:
    sink, letters = SQLiteSink(tmp_path / "a.db", "a"), SQLiteSink(tmp_path / "a.db", "rejected")
    avro = {"value.format": "avro", "value.schema": '"long"', "value.on.error": "dead-letter"}
    registry = {"value.registry.url": "https://registry:8081"}
    for options, kept in ((avro, False), (avro | registry, True)):
        source = PipelineSource.of(SOURCE | options, route_outputs(sink, letters))
        assert ("headers" in source.options.columns) is kept
        assert ("headers" in source.given["columns"]) is kept


def test_only_the_direct_engine_follows_the_newest_schema(tmp_path: Path) -> None:
    routes = route_outputs(SQLiteSink(tmp_path / "a.db", "a"))
    options = SOURCE | {"value.format": "avro", "value.registry.url": "https://registry:8081"}
    PipelineSource.of(options, routes)
    with pytest.raises(OptionError, match=r"value\.registry\.version.*must be a number under the structured engine"):
        PipelineSource.of(options, routes, is_structured=True)
    for fixed in ({"value.registry.version": "3"}, {"value.schema": '"long"'}):
        PipelineSource.of(options | fixed, routes, is_structured=True)


def test_a_subject_that_nothing_names_is_refused_before_the_registry_is_asked(tmp_path: Path) -> None:
    options = SOURCE | {"subscribe": "a,b", "value.format": "avro", "value.registry.url": "https://registry:8081"}
    with pytest.raises(OptionError, match=r"value\.registry\.subject.*must be given"):
        PipelineSource.of(options, route_outputs(SQLiteSink(tmp_path / "a.db", "a")))


@pytest.mark.parametrize(
    ("group", "sinks", "options", "message"),
    [
        ("a", [("out", None)], {"commitToGroup": "a"}, "the source's commitToGroup names 'a' already"),
        ("a", [("out", None)], {"committogroup": "b"}, "the source's commitToGroup names 'b' already"),
        ("a", [("out", "a")], {}, "the group 'a' is told the offsets by commit_to_group or commitToGroup too"),
        (None, [("out", "a")], {"commitToGroup": "a"}, "is told the offsets by commit_to_group or commitToGroup too"),
        (None, [("one", "a"), ("two", "a")], {}, "the group 'a' is told the offsets by sink one too"),
        ("", [("out", None)], {}, "is empty"),
        ("a\x00b", [("out", None)], {}, "NUL"),
    ],
)
def test_a_group_that_two_would_tell_is_refused(
    group: str | None, sinks: list[tuple[str, str | None]], options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        source_of(group, *[kafka_sink(*sink) for sink in sinks], **options)
