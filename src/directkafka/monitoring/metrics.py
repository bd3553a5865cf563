"""Metrics of the pipelines of this process, for Prometheus.

A collector for the registry of prometheus-client: when it is scraped, it makes metrics of what the pipelines have told
(:mod:`directkafka.pipeline.status`), and looks their lag up. Lag has the names of kafka-lag-exporter, with the pipeline
as the group.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from directkafka.monitoring.lag import LagReader, LagView, lags
from directkafka.monitoring.queries import query_statuses
from directkafka.pipeline.status import DURATION_BUCKETS_S, Histogram, PipelineStatus, StatusView, started_pipelines
from directkafka.spark.datasource.query_groups import observe_queries

#: How long a scrape waits for Kafka, in seconds. Prometheus gives up after ten by default.
_LAG_TIMEOUT_S: Final = 3.0

_PARTITION: Final = ("cluster_name", "group", "topic", "partition")
_GROUP: Final = ("cluster_name", "group")


class MetricsCollector(Collector):
    """All metrics of the pipelines that were started in this process, as a collector of prometheus-client.

    For a program with a registry of its own: ``prometheus_client.REGISTRY.register(dk.metrics_collector())``.
    """

    def __init__(self) -> None:
        observe_queries(query_statuses)
        #: Several may scrape at a time.
        self._lock = threading.Lock()
        self._readers: dict[PipelineStatus, LagReader] = {}

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that to register it asks Kafka for nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The metrics as of now; Kafka is asked for lags."""
        statuses = started_pipelines()
        with self._lock:
            # A pipeline that was made anew under its name has another status.
            self._readers = {status: self._readers.get(status) or LagReader(status) for status in statuses}
            readers = [self._readers[status] for status in statuses]
        views = lags(readers, timeout_s=_LAG_TIMEOUT_S)
        yield from pipeline_metrics([status.view for status in statuses])
        pipeline_lags = [(status.view, views_of) for status, views_of in zip(statuses, views, strict=True)]
        # Of a pipeline that a newer driver has taken over, that one tells.
        yield from lag_metrics([each for each in pipeline_lags if each[0].failure_type != "FencedError"])


def pipeline_metrics(views: Sequence[StatusView]) -> Iterator[Metric]:
    """What the pipelines have done since this process began.

    Args:
        views: one for each pipeline.
    """
    batches = _counter("batches", "Committed batches.")
    records = _counter("records_read", "Records read from Kafka.", "topic")
    byte_counts = _counter("bytes_read", "Bytes of record batches read from Kafka, as they came, compressed.", "topic")
    rows = _counter("rows_written", "Rows that were committed.", "store", "table")
    dead_letters = _counter("dead_letters", "Records that became dead letters.")
    retries = _counter("retries", "Steps that failed and were tried again, by the type of the error.", "error")
    durations = HistogramMetricFamily(
        "directkafka_batch_duration_seconds", "Histogram of the steps of a batch.", labels=["pipeline", "step"]
    )
    committed_at = _gauge("last_commit_timestamp_seconds", "When the newest batch was committed, since 1970.")
    generation = _gauge("generation", "The generation that the driver holds.")
    paused = _gauge("paused", "Whether the pipeline is paused.")
    for view in views:
        own = [view.pipeline]
        batches.add_metric(own, view.batch_count)
        for topic, read in view.read.items():
            records.add_metric([*own, topic], read.record_count)
            if read.byte_count:  # Spark does not say
                byte_counts.add_metric([*own, topic], read.byte_count)
        for (store, table), row_count in view.row_counts.items():
            rows.add_metric([*own, store, table], row_count)
        dead_letters.add_metric(own, view.dead_letter_count)
        for error, count in view.retry_counts.items():
            retries.add_metric([*own, error], count)
        for step, histogram in view.durations.items():
            durations.add_metric([*own, step], buckets=_buckets(histogram), sum_value=histogram.total_s)
        if view.committed_at_ms is not None:
            committed_at.add_metric(own, view.committed_at_ms / 1000)
        if view.generation is not None:
            generation.add_metric(own, view.generation)
        paused.add_metric(own, float(view.is_paused))
    yield from (
        *(batches, records, byte_counts, rows, dead_letters, retries),
        *(durations, committed_at, generation, paused),
    )


def lag_metrics(pipelines: Sequence[tuple[StatusView, Sequence[LagView]]]) -> Iterator[Metric]:
    """How far the pipelines are behind.

    Args:
        pipelines: each one, and its lag in each of its sources; none where Kafka does not answer: then nothing is said.
    """
    offset = GaugeMetricFamily(
        "kafka_consumergroup_group_offset", "The next offset that the pipeline reads.", labels=_PARTITION
    )
    lag = GaugeMetricFamily("kafka_consumergroup_group_lag", "Offsets that are unread.", labels=_PARTITION)
    seconds = GaugeMetricFamily(
        "kafka_consumergroup_group_lag_seconds",
        "Age of the first unread record; 0 without one.",
        labels=_PARTITION,
    )
    max_lag = GaugeMetricFamily(
        "kafka_consumergroup_group_max_lag", "Most unread offsets of a partition.", labels=_GROUP
    )
    max_seconds = GaugeMetricFamily(
        "kafka_consumergroup_group_max_lag_seconds", "Age of the oldest unread record.", labels=_GROUP
    )
    earliest: dict[tuple[str, str, str], int] = {}
    latest: dict[tuple[str, str, str], int] = {}
    most: dict[tuple[str, str], int] = {}
    oldest: dict[tuple[str, str], float] = {}
    now_s = time.monotonic()
    for view, lag_view in ((view, lag_view) for view, lag_views in pipelines for lag_view in lag_views):
        group = (lag_view.cluster_id, view.pipeline)
        for position in lag_view.aged(now_s):
            partition_labels = (position.topic, str(position.partition))
            if position.current is not None:
                offset.add_metric([*group, *partition_labels], position.current)
            if position.lag is not None:
                lag.add_metric([*group, *partition_labels], position.lag)
                most[group] = max(most.get(group, 0), position.lag)
            if position.lag_seconds is not None:
                seconds.add_metric([*group, *partition_labels], position.lag_seconds)
                oldest[group] = max(oldest.get(group, 0.0), position.lag_seconds)
            if position.earliest is not None:
                earliest[lag_view.cluster_id, *partition_labels] = position.earliest
            if position.end is not None:
                latest[lag_view.cluster_id, *partition_labels] = position.end
    for group, value in most.items():
        max_lag.add_metric(group, value)
    for group, age_s in oldest.items():
        max_seconds.add_metric(group, age_s)
    yield from (offset, lag, seconds, max_lag, max_seconds)
    yield _of_partitions("kafka_partition_earliest_offset", "The first offset that can be read.", earliest)
    yield _of_partitions("kafka_partition_latest_offset", "One past the last offset that can be read.", latest)


def _of_partitions(name: str, text: str, values: Mapping[tuple[str, str, str], int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["cluster_name", "topic", "partition"])
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"directkafka_{name}", text, labels=["pipeline", *labels])


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"directkafka_{name}", text, labels=["pipeline"])


def _buckets(durations: Histogram) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in DURATION_BUCKETS_S), "+Inf"]
    return list(zip(bounds, map(float, accumulate(durations.counts)), strict=True))
