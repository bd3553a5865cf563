"""Spans of what pipelines tell, and the traces of records that they are linked to."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import util
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.waiting import until

import directkafka
from directkafka.errors import OptionError
from directkafka.monitoring import tracing
from directkafka.monitoring.traces import is_asked_for
from directkafka.monitoring.tracing import LINKS_MAX, PipelineTracer, links_of
from directkafka.offsets import OffsetRange
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.status import PipelineStatus, Step, listeners

MS = 1_000_000


class Traced:
    """A tracer whose spans stay in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = PipelineTracer(provider.get_tracer("test"))

    def spans(self, count: int) -> Sequence[ReadableSpan]:
        """Those that have ended, once there are so many."""
        until(lambda: len(self._exporter.get_finished_spans()) >= count, "spans are missing", 30)
        return self._exporter.get_finished_spans()


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    yield made
    made.tracer.close()
    assert made.tracer not in listeners


def report(*ranges: OffsetRange) -> BatchReport:
    return BatchReport(
        pipeline="flights", generation=3, batch_id=7, offsets=10, records=9, rows={"flights": 8, "rejected": 1},
        backlog=0, plan_ms=5, write_ms=100, commit_ms=20, ranges=ranges,
    )  # fmt: skip


def test_a_batch_is_a_span_with_its_steps_below_it(traced: Traced) -> None:
    PipelineStatus("flights").committed(report(OffsetRange("air", 2, 0, 10)), {})
    spans = {span.name: span for span in traced.spans(4)}
    whole = spans.pop("process air")
    assert whole.kind is SpanKind.CONSUMER
    assert dict(whole.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "flights",
        "messaging.destination.name": "air",
        "messaging.destination.partition.id": "2",
        "messaging.batch.message_count": 9,
        "directkafka.batch_id": 7,
        "directkafka.generation": 3,
        "directkafka.offset_ranges": ("air-2[0, 10)",),
        "directkafka.rows": 9,
        "directkafka.tables": ("flights", "rejected"),
    }
    assert (whole.end_time or 0) - (whole.start_time or 0) == 125 * MS
    at = whole.start_time or 0
    for name, took_ms in (("plan", 5), ("write", 100), ("commit", 20)):
        step = spans.pop(name)
        assert step.parent is not None
        assert step.parent.span_id == whole.context.span_id
        assert (step.start_time, step.end_time) == (at, at + took_ms * MS)
        at += took_ms * MS
    assert spans == {}


def test_the_connections_of_a_run_go_with_it(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Cluster:
        def __init__(self, source: Any) -> None: ...

        def first_headers(self, _: Any) -> list[Any]:
            return []

        def close(self) -> None:
            closed.append("closed")

    monkeypatch.setattr(tracing, "SourceCluster", Cluster)
    source: Any = "source"
    status = PipelineStatus("flights", [source])
    status.started()
    status.committed(report(OffsetRange("air", 2, 0, 10)), {})
    traced.spans(4)
    assert closed == []
    status.ended()
    until(lambda: closed == ["closed"], "the connections stay open", 30)


def test_a_batch_of_several_topics_names_them_all(traced: Traced) -> None:
    PipelineStatus("flights").committed(report(OffsetRange("air", 0, 0, 5), OffsetRange("sea", 0, 0, 5)), {})
    (whole,) = [span for span in traced.spans(4) if span.name == "process"]
    assert (whole.attributes or {})["directkafka.topics"] == ("air", "sea")
    assert "messaging.destination.name" not in (whole.attributes or {})


def test_a_step_that_fails_is_a_span_with_the_type_of_its_error_and_no_text_of_a_record(traced: Traced) -> None:
    status = PipelineStatus("flights")
    status.started()
    status.at(Step.COMMIT)
    status.retried(ConnectionError("a value of a record"))
    status.ended(ZeroDivisionError("a value of a record"))
    first, second = traced.spans(2)
    assert (first.attributes or {})["error.type"] == "ConnectionError"
    assert (first.attributes or {})["directkafka.step"] == "commit"
    assert (second.attributes or {})["error.type"] == "ZeroDivisionError"
    for span in (first, second):
        assert span.status.status_code is StatusCode.ERROR
        assert "a value of a record" not in span.to_json()


def test_a_pipeline_does_not_wait_for_spans(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, released = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        hangs.set()
        released.wait(60)

    monkeypatch.setattr(PipelineTracer, "_trace_batch", hang)
    status = PipelineStatus("flights")
    status.committed(report(), {})
    assert hangs.wait(30)
    for _ in range(3_000):
        status.committed(report(), {})
    assert status.view.batch_count == 3_001
    released.set()


def test_a_span_that_cannot_be_made_is_told_and_others_are_made(
    traced: Traced, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(PipelineTracer, "_links", lambda *_: 1 / 0)
        PipelineStatus("flights").committed(report(), {})
        until(lambda: "no span was made" in caplog.text, "nothing is told", 30)
    PipelineStatus("flights").committed(report(), {})
    assert len(traced.spans(4)) == 4


def traceparent(number: int) -> bytes:
    return f"00-{number:032x}-{number:016x}-01".encode()


def test_each_trace_is_linked_once_up_to_a_limit() -> None:
    records = [[("traceparent", traceparent(1 + number % 300))] for number in range(1_000)]
    trace_ids = [link.context.trace_id for link in links_of(records)]
    assert trace_ids == list(range(1, LINKS_MAX + 1))
    assert len(list(links_of(records[:1] * 5))) == 1


@pytest.mark.parametrize(
    "value",
    [None, b"", b"x", b"\xff\xfe", traceparent(0), b"00-xyz", traceparent(1)[:-3], b"9" * 10_000,
     b"ff-" + traceparent(1)[3:]],
)  # fmt: skip
def test_a_header_that_is_no_trace_is_passed_over(value: bytes | None) -> None:
    good = [("other", b"x"), ("traceparent", traceparent(5))]
    assert [link.context.trace_id for link in links_of([[("traceparent", value)], good])] == [5]


@pytest.mark.parametrize(
    ("variables", "is_asked"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_a_run_has_traces_where_the_environment_says_where_they_go(
    variables: dict[str, str], is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_asked_for() is is_asked


@pytest.mark.parametrize("package", ["opentelemetry", "opentelemetry.sdk"])
def test_without_the_extra_it_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = util.find_spec
    monkeypatch.setattr(
        "directkafka.options.texts.find_spec", lambda name: None if name == package else find_spec(name)
    )
    with pytest.raises(OptionError, match=rf"{package} is not installed: run pip install '\.\[otel\]'"):
        directkafka.trace_pipelines()


def test_without_an_exporter_it_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("directkafka.monitoring.tracing.trace.get_tracer_provider", trace.ProxyTracerProvider)
    with pytest.raises(OptionError, match=rf"{name} .*is not installed|{name} is not installed"):
        directkafka.trace_pipelines()


def test_a_step_that_fails_again_is_still_that_step(traced: Traced) -> None:
    status = PipelineStatus("flights")
    status.at(Step.COMMIT)
    for _ in range(2):
        status.retried(ConnectionError("gone"))
    assert [(span.attributes or {})["directkafka.step"] for span in traced.spans(2)] == ["commit", "commit"]
