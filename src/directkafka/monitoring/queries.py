"""Status of streaming queries that read with the format ``directkafka``, from what Spark's listeners hear of them.

If a pipeline runs the query (``write_stream``, ``foreach_batch``), it has a status already, and only its sources are
added here. Any other query gets a status under its name, or under its id if it has no name. Queries of one name share a
status. A query with the name of a pipeline of this process gets none.

Queries with a status of their own have no generation and no ledger. A batch counts when Spark has committed it. Its
rows are ``numOutputRows``, or 0 if the sink does not report that.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from directkafka.offsets import OffsetRange, TopicPartition, from_nested
from directkafka.options.source import SourceOptions
from directkafka.pipeline.progress import BatchReport, TableRows
from directkafka.pipeline.status import PipelineStatus, Step, publish_if_free, started_pipelines

#: The entries of Spark's ``durationMs`` (``MicroBatchExecution``) that make up each of our steps.
_STEPS: Final = {
    "plan": ("latestOffset", "getBatch", "queryPlanning", "walCommit"),
    "write": ("addBatch",),
    "commit": ("commitOffsets",),
}

_JAVA_ADDRESS: Final = re.compile(r"(?<=[\w$])@[0-9a-f]{1,8}(?=$|[\],)(\s])")


class QueryStatuses:
    """Keeps the status of each query; an observer of :mod:`directkafka.spark.datasource.query_groups`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Statuses of the queries that are no pipelines, by their name in metrics. A new run of a query goes on with
        #: the same counts.
        self._statuses: dict[str, PipelineStatus] = {}
        #: That name, by the query's id.
        self._names: dict[str, str] = {}

    def on_batch(self, progress: Mapping[str, Any], sources: Sequence[SourceOptions]) -> None:
        """A batch of a query is done."""
        status = self._status_of(progress, sources)
        if status is not None:
            # This class does not hear of starts: what comes first after an end begins a new run.
            if status.view.step is Step.ENDED:
                status.started(publish=False)
            ends: dict[TopicPartition, int] = {}
            for source in progress["sources"]:
                for partition, end in from_nested(source["endOffset"] or {}).items():
                    # Of two sources with one partition, the one that is behind.
                    ends[partition] = min(end, ends.get(partition, end))
            status.committed(report_of(progress), ends)

    def on_idle(self, query: Mapping[str, Any], sources: Sequence[SourceOptions]) -> None:
        """A query runs, and has nothing to do: as one that was started again after a failure, or with its process."""
        status = self._status_of(query, sources)
        if status is not None:
            if status.view.step is Step.ENDED:
                status.started(publish=False)
            status.ready()
            status.at(Step.WAITING)

    def on_end(self, query_id: str, failure: str | None) -> None:
        """A run of a query has ended."""
        with self._lock:
            status = self._statuses.get(self._names.get(query_id, ""))
        if status is not None:
            status.ended(None if failure is None else f"StreamingQueryException: {failure}")

    def _status_of(self, progress: Mapping[str, Any], sources: Sequence[SourceOptions]) -> PipelineStatus | None:
        """The query's status; None if it belongs to a pipeline, or a pipeline has the query's name."""
        for pipeline in started_pipelines():
            if pipeline.query_id == progress["id"]:
                # The pipeline reports its batches itself. Only Spark knows its sources; another run may have others.
                pipeline.sources = tuple(sources) or pipeline.sources
                return None
        name = progress["name"] or progress["id"]
        with self._lock:
            status = self._statuses.get(name) or PipelineStatus(name, sources)
            # Spark reports a batch late: the query may be over by then, and a pipeline of its name may run.
            if publish_if_free(status) is not status:
                return None
            status.sources = tuple(sources) or status.sources
            self._statuses[name] = status
            self._names[progress["id"]] = name
        return status


#: The instance of this process.
query_statuses: Final = QueryStatuses()


def report_of(progress: Mapping[str, Any]) -> BatchReport:
    """The report of a batch, made of what Spark says of it.

    Args:
        progress: ``StreamingQueryProgress`` in JSON.
    """
    durations: Mapping[str, int] = progress["durationMs"]
    laps_ms = {step: sum(durations.get(name, 0) for name in names) for step, names in _STEPS.items()}
    sink, name = progress["sink"], progress["name"] or progress["id"]
    rows = max(0, sink.get("numOutputRows") or 0)
    # Without the address that Java adds to an object without a text of its own: it is another one at each start.
    table = _JAVA_ADDRESS.sub("", sink["description"])
    ranges = [offset_range for source in progress["sources"] for offset_range in _ranges(source)]
    return BatchReport(
        pipeline=name,
        generation=0,
        batch_id=progress["batchId"],
        offsets=sum(offset_range.count() for offset_range in ranges),
        records=None,
        rows={table: rows},
        backlog=None,
        plan_ms=laps_ms["plan"],
        write_ms=laps_ms["write"],
        commit_ms=laps_ms["commit"],
        ranges=tuple(ranges),
        tables=(TableRows(store="spark", table=table, row_count=rows),),
    )


def _ranges(source: Mapping[str, Any]) -> list[OffsetRange]:
    starts, ends = from_nested(source["startOffset"] or {}), from_nested(source["endOffset"] or {})
    return [
        OffsetRange(partition.topic, partition.partition, starts[partition], end)
        for partition, end in sorted(ends.items())
        if partition in starts and end > starts[partition]
    ]
