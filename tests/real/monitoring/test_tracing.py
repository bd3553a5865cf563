"""Traces of real pipelines: linked to those of their records, and sent to a real receiver by a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Producer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.real.cli.test_run_command import FILE
from tests.real.pipeline.conftest import World
from tests.unit.monitoring.test_tracing import traceparent
from tests.waiting import WAIT_S, until

from directkafka.monitoring.tracing import LINKS_MAX, PipelineTracer
from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java

pytestmark = pytest.mark.real


def produce_with_traces(servers: str, topic: str, count: int, partitions: int) -> None:
    """Records of which every second one belongs to a trace of its own."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 100, "compression.type": "lz4"})
    for number in range(count):
        headers = [("traceparent", traceparent(number + 1))] if number % 2 == 0 else []
        producer.produce(topic, b"%d" % number, headers=headers, partition=number % partitions)
    assert producer.flush(WAIT_S) == 0


def test_the_span_of_a_batch_is_linked_to_the_traces_of_its_first_records(
    world: World, create_topic: Callable[..., str]
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    topic = create_topic(2)
    produce_with_traces(world.kafka, topic, 600, partitions=2)
    with PipelineTracer(provider.get_tracer("test")):
        world.pipeline(source={"subscribe": topic, "maxOffsetsPerTrigger": None}).run()
    batches = [span for span in exporter.get_finished_spans() if span.name == f"process {topic}"]
    assert sum(int(str((span.attributes or {})["messaging.batch.message_count"])) for span in batches) == 600
    linked = [link.context.trace_id for span in batches for link in span.links]
    # Of the two partitions, one has all the traces: 64 of its first offsets were looked at, and there is one in each.
    assert linked == [number + 1 for number in range(0, LINKS_MAX, 2)]


class _Receiver(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP, as a collector does."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        self.server.received.append((self.path, ExportTraceServiceRequest.FromString(body)))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), _Receiver) as server:
        server.received = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_run_sends_its_spans_to_where_the_environment_says(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path, collector: HTTPServer
) -> None:
    use_java()
    topic = create_topic(1)
    produce_with_traces(kafka_broker.bootstrap_servers, topic, 10, partitions=1)
    file = tmp_path / "flights.toml"
    file.write_text(FILE.format(kafka=kafka_broker.bootstrap_servers, topic=topic, database=tmp_path / "flights.db"))
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    run = subprocess.Popen(
        [str(Path(sys.executable).parent / "directkafka"), "run", str(file)],
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        received = collector.received  # type: ignore[attr-defined]
        until(lambda: received, "no span comes")
        run.send_signal(signal.SIGTERM)
        _, messages = run.communicate(timeout=WAIT_S)
    finally:
        run.kill()
    assert run.returncode == 0, messages
    assert {path for path, _ in received} == {"/v1/traces"}
    resources = [resource for _, request in received for resource in request.resource_spans]
    services = {
        pair.value.string_value
        for resource in resources
        for pair in resource.resource.attributes
        if pair.key == "service.name"
    }
    assert services == {"directkafka"}
    spans = {span.name: span for resource in resources for scope in resource.scope_spans for span in scope.spans}
    assert set(spans) == {f"process {topic}", "plan", "write", "commit"}
    assert len(spans[f"process {topic}"].links) == 5
