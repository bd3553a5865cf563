"""Traces for OpenTelemetry: a span for each batch, with its steps below it, and links to the traces of its records.

The names are those of OpenTelemetry's semantic conventions for messaging. A record's trace is in its header
``traceparent`` (W3C Trace Context), as producers with OpenTelemetry write it. Of each batch the headers of the first
records of each partition are looked at, and up to 128 of their traces are linked.

A pipeline does not wait for any of this: it leaves the report of its batch in a queue, and a thread makes the spans.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from directkafka.errors import DirectKafkaError
from directkafka.offsets import OffsetRange
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.status import PipelineStatus, Step, listeners
from directkafka.spark.source_cluster import SourceCluster
from directkafka.version import __version__

log = logging.getLogger("directkafka.monitoring")

#: Links of a span; OpenTelemetry's own default for ``OTEL_SPAN_LINK_COUNT_LIMIT``.
LINKS_MAX: Final = 128

_QUEUE_MAX: Final = 1_000
#: How long the end waits for room in the queue, and then for the spans in it, in seconds.
_END_S: Final = 5.0
_TRACEPARENT: Final = "traceparent"
_PROPAGATOR: Final = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """What a pipeline has told: a batch, the step that has failed and its error's type, or its run's end."""

    status: PipelineStatus
    at_ns: int
    report: BatchReport | None = None
    step: Step | None = None
    step_s: float = 0.0
    error: str = ""
    has_ended: bool = False


class PipelineTracer:
    """Makes spans of what the pipelines of this process tell, from a thread, until it is closed.

    Args:
        tracer: where the spans go.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._queue: queue.Queue[_Event | None] = queue.Queue(_QUEUE_MAX)
        self._clusters: dict[PipelineStatus, SourceCluster] = {}
        self._thread = threading.Thread(target=self._run, name="directkafka tracing", daemon=True)
        self._thread.start()
        listeners.append(self)

    def close(self) -> None:
        """Make the spans that are still to be made, for at most ten seconds."""
        with suppress(ValueError):
            listeners.remove(self)
        with suppress(queue.Full):
            self._queue.put(None, timeout=_END_S)
        self._thread.join(_END_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on_committed(self, status: PipelineStatus, report: BatchReport) -> None:
        """See :class:`~directkafka.pipeline.status.StatusListener`."""
        self._put(_Event(status=status, at_ns=time.time_ns(), report=report))

    def on_failed(self, status: PipelineStatus, step: Step, error: str) -> None:
        """See :class:`~directkafka.pipeline.status.StatusListener`."""
        self._put(_Event(status=status, at_ns=time.time_ns(), step=step, step_s=status.idle_s(), error=error))

    def on_ended(self, status: PipelineStatus) -> None:
        """See :class:`~directkafka.pipeline.status.StatusListener`."""
        # It only wakes the thread: where there is no room for it, that is at work, and looks by itself.
        self._put(_Event(status=status, at_ns=time.time_ns(), has_ended=True))

    def _put(self, told: _Event) -> None:
        # Where spans cannot be made as quickly as batches are, some batches have none.
        with suppress(queue.Full):
            self._queue.put_nowait(told)

    def _run(self) -> None:
        while (told := self._queue.get()) is not None:
            try:
                if told.report is not None:
                    self._trace_batch(told.status, told.report, told.at_ns)
                elif not told.has_ended:
                    self._trace_failure(told)
            except Exception:
                log.warning("no span was made of what %s has told", told.status.view.pipeline, exc_info=True)
            if self._queue.empty():
                self._close_ended()
        for cluster in self._clusters.values():
            cluster.close()

    def _close_ended(self) -> None:
        """Give back the connections of runs that have ended."""
        for status in [status for status in self._clusters if status.view.step is Step.ENDED]:
            self._clusters.pop(status).close()

    def _trace_batch(self, status: PipelineStatus, report: BatchReport, end_ns: int) -> None:
        attributes = {**_common(status, report.ranges), **_of_batch(report)}
        start_ns = end_ns - report.total_ms * 1_000_000
        span = self._tracer.start_span(
            _name(report.ranges), kind=SpanKind.CONSUMER, attributes=attributes, links=self._links(status, report),
            start_time=start_ns,
        )  # fmt: skip
        inside = trace.set_span_in_context(span)
        for step, took_ms in (("plan", report.plan_ms), ("write", report.write_ms), ("commit", report.commit_ms)):
            of_step = self._tracer.start_span(step, context=inside, start_time=start_ns)
            start_ns += took_ms * 1_000_000
            of_step.end(start_ns)
        span.end(end_ns)

    def _trace_failure(self, told: _Event) -> None:
        step = str(told.step)
        span = self._tracer.start_span(
            _name(()),
            kind=SpanKind.CONSUMER,
            attributes={**_common(told.status, ()), "directkafka.step": step, "error.type": told.error},
            start_time=told.at_ns - int(told.step_s * 1_000_000_000),
        )
        # The error's text is in the log: it may hold values of records.
        span.set_status(Status(StatusCode.ERROR, f"{told.error} at the step {step}"))
        span.end(told.at_ns)

    def _links(self, status: PipelineStatus, report: BatchReport) -> list[Link]:
        if not report.ranges or len(status.sources) != 1:
            return []
        try:
            if status not in self._clusters:
                self._clusters[status] = SourceCluster(status.sources[0])
            return list(links_of(self._clusters[status].first_headers(_first_offsets(report.ranges))))
        except DirectKafkaError as error:
            log.debug("no traces are linked to batch %d of %s: %s", report.batch_id, report.pipeline, error)
            return []


def links_of(records: Sequence[Sequence[tuple[str, bytes | None]]]) -> Iterator[Link]:
    """Links to the spans of records, each once, up to :data:`LINKS_MAX`.

    Args:
        records: the headers of each; what is no ``traceparent`` of the W3C's is passed over.
    """
    seen: set[tuple[int, int]] = set()
    for headers in records:
        carrier = {key: value.decode("ascii", "replace") for key, value in headers if key == _TRACEPARENT and value}
        span_context = trace.get_current_span(_PROPAGATOR.extract(carrier)).get_span_context() if carrier else None
        if span_context is None or not span_context.is_valid or (span_context.trace_id, span_context.span_id) in seen:
            continue
        seen.add((span_context.trace_id, span_context.span_id))
        yield Link(span_context)
        if len(seen) == LINKS_MAX:
            return


def _first_offsets(ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    """The beginnings of the ranges, with at most as many offsets as there may be links; at least one of each."""
    share = max(1, LINKS_MAX // len(ranges))
    return [
        OffsetRange(each.topic, each.partition, each.from_offset, min(each.until_offset, each.from_offset + share))
        for each in ranges[:LINKS_MAX]
    ]


def _name(ranges: Sequence[OffsetRange]) -> str:
    topics = {each.topic for each in ranges}
    return f"process {topics.pop()}" if len(topics) == 1 else "process"


def _common(status: PipelineStatus, ranges: Sequence[OffsetRange]) -> Mapping[str, str | int | Sequence[str]]:
    topics = sorted({each.topic for each in ranges})
    known: dict[str, str | int | Sequence[str]] = {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": status.view.pipeline,
    }
    if len(topics) == 1:
        known["messaging.destination.name"] = topics[0]
    elif topics:
        known["directkafka.topics"] = topics
    if len(ranges) == 1:
        known["messaging.destination.partition.id"] = str(ranges[0].partition)
    return known


def _of_batch(report: BatchReport) -> Mapping[str, str | int | Sequence[str]]:
    return {
        "messaging.batch.message_count": report.offsets if report.records is None else report.records,
        "directkafka.batch_id": report.batch_id,
        "directkafka.generation": report.generation,
        "directkafka.offset_ranges": [str(each) for each in report.ranges[:LINKS_MAX]],
        "directkafka.rows": sum(report.rows.values()),
        "directkafka.tables": sorted(report.rows),
    }


def tracer_of_process() -> Tracer:
    """A tracer of the provider that the program has set; where it has set none, of one that the environment describes.

    That one sends spans by OTLP over HTTP, and reads OpenTelemetry's own variables.
    """
    if type(trace.get_tracer_provider()) is trace.ProxyTracerProvider:
        trace.set_tracer_provider(_provider())
    return trace.get_tracer("directkafka", __version__)


def _provider() -> TracerProvider:
    """One that sends by OTLP over HTTP.

    Raises:
        ImportError: the package for that is not installed.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if os.environ.get(name, "http/protobuf") != "http/protobuf":
            log.warning("%s=%s: spans are sent by OTLP over HTTP all the same (port 4318)", name, os.environ[name])
            break
    service = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "directkafka"}
    provider = TracerProvider(resource=Resource.create(service))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
