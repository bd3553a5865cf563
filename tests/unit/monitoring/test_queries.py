"""Statuses of streaming queries: which query has one of its own, and which is told by its pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from directkafka.monitoring.queries import QueryStatuses, report_of
from directkafka.offsets import OffsetRange
from directkafka.options.source import SourceOptions
from directkafka.pipeline.progress import TableRows
from directkafka.pipeline.status import PipelineStatus, Step, started_pipelines

SOURCE = SourceOptions.parse({"kafka.bootstrap.servers": "b:9092", "subscribe": "air"}, streaming=True)


def progress(batch_id: int, *, query_id: str = "1-2", **changes: Any) -> dict[str, Any]:
    """Ten records of one partition, as Spark's listener has them."""
    return {
        "name": "flights",
        "id": query_id,
        "batchId": batch_id,
        "durationMs": {"latestOffset": 7, "queryPlanning": 2, "addBatch": 100, "commitOffsets": 5, "getOffset": 50},
        "sink": {"description": "MemorySink", "numOutputRows": 10},
        "sources": [source("air", batch_id)],
    } | changes


def source(topic: str, batch_id: int) -> dict[str, Any]:
    start = 10 * batch_id
    return {"startOffset": {topic: {"0": start}}, "endOffset": {topic: {"0": start + 10}}}


def published() -> PipelineStatus:
    """The only status that whoever looks finds."""
    (status,) = started_pipelines()
    return status


def test_a_query_has_a_status_that_goes_on_when_it_is_started_again() -> None:
    queries = QueryStatuses()
    queries.on_batch(progress(0), [SOURCE])
    queries.on_end("1-2", None)
    assert published().view.step is Step.ENDED
    queries.on_batch(progress(1), [SOURCE])
    view = published().view
    assert (view.step, view.batch_count, view.row_counts) == (Step.WAITING, 2, {("spark", "MemorySink"): 20})


def test_a_query_that_fails_says_so() -> None:
    queries = QueryStatuses()
    queries.on_batch(progress(0), [SOURCE])
    queries.on_end("1-2", "no space left")
    assert published().view.failure == "StreamingQueryException: no space left"


def test_a_query_that_runs_again_with_nothing_to_do_has_failed_no_more() -> None:
    queries = QueryStatuses()
    queries.on_batch(progress(0), [SOURCE])
    queries.on_end("1-2", "no broker")
    queries.on_idle({"id": "1-2", "name": "flights"}, [SOURCE])
    view = published().view
    assert (view.step, view.failure, view.is_ready, view.batch_count) == (Step.WAITING, None, True, 1)


def test_a_query_that_has_had_nothing_to_do_yet_is_known() -> None:
    QueryStatuses().on_idle({"id": "1-2", "name": "flights"}, [SOURCE])
    assert (published().view.pipeline, published().view.is_ready, published().sources) == ("flights", True, (SOURCE,))


def test_of_two_sources_with_one_partition_the_one_that_is_behind_counts() -> None:
    queries = QueryStatuses()
    queries.on_batch(progress(0, sources=[source("air", 500), source("air", 3), source("air", 700)]), [SOURCE] * 3)
    assert list((published().view.ends or {}).values()) == [40]


def test_a_table_s_name_has_no_address_of_java_s() -> None:
    report = report_of(progress(0, sink={"description": "org.apache.spark.KafkaTable@4a5c567b", "numOutputRows": 1}))
    assert report.rows == {"org.apache.spark.KafkaTable": 1}
    path = {"description": "FileSink[/mnt/team@cafe/out]", "numOutputRows": 1}
    assert report_of(progress(0, sink=path)).rows == {"FileSink[/mnt/team@cafe/out]": 1}


@pytest.mark.parametrize("name", ["flights", None, "as the user calls it"])
def test_a_query_that_a_pipeline_runs_as_only_gives_its_status_the_sources(name: str | None) -> None:
    queries, pipeline = QueryStatuses(), PipelineStatus("flights")
    pipeline.query_id = "1-2"
    pipeline.started()
    queries.on_batch(progress(0, name=name), [SOURCE])
    queries.on_end("1-2", "late")
    assert published() is pipeline
    assert (pipeline.sources, pipeline.view.batch_count, pipeline.view.failure) == ((SOURCE,), 0, None)


def test_a_query_never_takes_the_place_of_a_pipeline_of_its_name() -> None:
    """Spark tells of a query some time after its batch: of one that is over, when a pipeline of its name may run."""
    queries, pipeline = QueryStatuses(), PipelineStatus("flights")
    queries.on_batch(progress(0), [SOURCE])
    pipeline.started()
    queries.on_batch(progress(1), [SOURCE])
    queries.on_end("1-2", None)
    queries.on_batch(progress(0, query_id="3-4"), [SOURCE])
    queries.on_end("3-4", "late")
    assert published() is pipeline
    assert (pipeline.sources, pipeline.view.batch_count, pipeline.view.failure) == ((), 0, None)


def test_a_pipeline_that_starts_while_a_query_of_its_name_does_stays() -> None:
    class StartsMeanwhile(QueryStatuses):
        def _status_of(self, *arguments: Any) -> PipelineStatus | None:
            status = super()._status_of(*arguments)
            pipeline.started()
            return status

    pipeline = PipelineStatus("flights")
    StartsMeanwhile().on_batch(progress(0), [SOURCE])
    assert published() is pipeline


@pytest.mark.parametrize(("told", "rows"), [(10, 10), (-1, 0), (None, 0)])
def test_a_batch_is_reported_with_its_ranges_steps_and_rows(told: int | None, rows: int) -> None:
    sources = [source("air", 1), source("sea", 2), {"startOffset": None, "endOffset": {"new": {"0": 3}}}]
    report = report_of(progress(1, sources=sources, sink={"description": "noop", "numOutputRows": told}))
    assert report.ranges == (OffsetRange("air", 0, 10, 20), OffsetRange("sea", 0, 20, 30))
    assert (report.batch_id, report.offsets, report.records, report.rows) == (1, 20, None, {"noop": rows})
    assert (report.plan_ms, report.write_ms, report.commit_ms) == (9, 100, 5)
    assert report.tables == (TableRows(store="spark", table="noop", row_count=rows),)


def test_a_query_that_is_started_again_with_other_topics_is_asked_about_these() -> None:
    queries = QueryStatuses()
    more = SourceOptions.parse({"kafka.bootstrap.servers": "b:9092", "subscribe": "air,sea"}, streaming=True)
    queries.on_idle({"id": "1-2", "name": "flights"}, [SOURCE])
    queries.on_end("1-2", None)
    queries.on_idle({"id": "1-2", "name": "flights"}, [more])
    assert published().sources == (more,)
