"""Statuses of streaming queries: which query has one of its own, and which is told by its pipeline."""

from __future__ import annotations

from typing import Any

from directkafka.monitoring.queries import QueryStatuses
from directkafka.options.source import SourceOptions
from directkafka.pipeline.status import PipelineStatus, Step, started_pipelines

SOURCE = SourceOptions.parse({"kafka.bootstrap.servers": "b:9092", "subscribe": "air"}, streaming=True)


def progress(batch_id: int, *, query_id: str = "1-2") -> dict[str, Any]:
    """Ten records of one partition, as Spark's listener has them."""
    return {
        "name": "flights",
        "id": query_id,
        "batchId": batch_id,
        "durationMs": {"addBatch": 100},
        "sink": {"description": "MemorySink", "numOutputRows": 10},
        "sources": [
            {"startOffset": {"air": {"0": 10 * batch_id}}, "endOffset": {"air": {"0": 10 * batch_id + 10}}},
        ],
    }


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


def test_a_query_that_is_a_pipeline_only_gives_its_status_the_sources() -> None:
    queries, pipeline = QueryStatuses(), PipelineStatus("flights")
    pipeline.started()
    queries.on_batch(progress(0), [SOURCE])
    assert published() is pipeline
    assert (pipeline.sources, pipeline.view.batch_count) == ((SOURCE,), 0)


def test_a_query_never_takes_the_place_of_a_pipeline_of_its_name() -> None:
    """Spark tells of a query some time after its batch: of one that is over, when a pipeline of its name may run."""
    queries, pipeline = QueryStatuses(), PipelineStatus("flights")
    queries.on_batch(progress(0), [SOURCE])
    pipeline.started()
    queries.on_end("1-2", None)
    queries.on_batch(progress(0, query_id="3-4"), [SOURCE])
    assert published() is pipeline
