"""Metrics: their names, their labels, and numbers out of what pipelines have told."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import pytest
from prometheus_client.metrics_core import Metric

from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.monitoring.lag import LagView
from directkafka.monitoring.metrics import lag_metrics, pipeline_metrics
from directkafka.operations.positions import PartitionPosition
from directkafka.pipeline.status import DURATION_BUCKETS_S, Histogram, StatusView

Samples = dict[tuple[str, tuple[str, ...]], float]

VIEW = StatusView(
    pipeline="flights",
    generation=3,
    is_paused=True,
    batch_count=5,
    read={"air": ReadCount(100, 2_000)},
    row_counts={("sqlite:a", "flights"): 98, ("sqlite:a", "letters"): 2},
    dead_letter_count=2,
    retry_counts={"StoreUnavailableError": 4},
    durations={"write": Histogram().observed(0.2).observed(700.0)},
    committed_at_ms=1_700_000_000_500,
)


def samples(metrics: Iterable[Metric]) -> Samples:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value for metric in metrics for sample in metric.samples
    }


def position(partition: int, *, current: int | None, end: int, age_s: float | None) -> PartitionPosition:
    lag = end - (current or 0)
    return PartitionPosition(
        topic="air", partition=partition, earliest=0, current=current, end=end, lag=lag, lag_seconds=age_s
    )


def test_each_count_has_its_name_and_labels() -> None:
    metrics = samples(pipeline_metrics([VIEW]))
    assert metrics["directkafka_batches_total", ("flights",)] == 5
    assert metrics["directkafka_records_read_total", ("flights", "air")] == 100
    assert metrics["directkafka_bytes_read_total", ("flights", "air")] == 2_000
    assert metrics["directkafka_rows_written_total", ("flights", "sqlite:a", "flights")] == 98
    assert metrics["directkafka_dead_letters_total", ("flights",)] == 2
    assert metrics["directkafka_retries_total", ("flights", "StoreUnavailableError")] == 4
    assert metrics["directkafka_last_commit_timestamp_seconds", ("flights",)] == 1_700_000_000.5
    assert metrics["directkafka_generation", ("flights",)] == 3
    assert metrics["directkafka_paused", ("flights",)] == 1


def test_durations_are_a_histogram_whose_buckets_contain_the_smaller_ones() -> None:
    metrics = samples(pipeline_metrics([VIEW]))
    name = "directkafka_batch_duration_seconds"
    buckets = [metrics[f"{name}_bucket", ("flights", "write", str(bound))] for bound in DURATION_BUCKETS_S]
    assert buckets == [0.0] * 4 + [1.0] * 11
    assert (
        metrics[f"{name}_bucket", ("flights", "write", "+Inf")] == metrics[f"{name}_count", ("flights", "write")] == 2
    )
    assert metrics[f"{name}_sum", ("flights", "write")] == pytest.approx(700.2)


def test_a_pipeline_that_has_done_nothing_has_counts_of_zero_and_no_generation() -> None:
    metrics = samples(pipeline_metrics([StatusView(pipeline="flights")]))
    assert metrics == {
        ("directkafka_batches_total", ("flights",)): 0,
        ("directkafka_dead_letters_total", ("flights",)): 0,
        ("directkafka_paused", ("flights",)): 0,
    }


def test_lag_is_told_by_partition_and_the_largest_by_pipeline() -> None:
    positions = (
        position(0, current=4, end=10, age_s=3.0),
        position(1, current=9, end=9, age_s=0.0),
        position(2, current=None, end=2, age_s=None),
    )
    metrics = samples(lag_metrics([(VIEW, [LagView(cluster_id="c", taken_s=time.monotonic(), positions=positions)])]))
    group, places = ("c", "flights"), [("c", "flights", "air", str(number)) for number in range(3)]
    name = "kafka_consumergroup_group"
    assert [metrics.get((f"{name}_offset", labels)) for labels in places] == [4, 9, None]
    assert [metrics[f"{name}_lag", labels] for labels in places] == [6, 0, 2]
    assert metrics[f"{name}_lag_seconds", places[0]] == pytest.approx(3.0, abs=0.5)
    assert metrics[f"{name}_lag_seconds", places[1]] == 0
    assert (f"{name}_lag_seconds", places[2]) not in metrics
    assert metrics[f"{name}_max_lag", group] == 6
    assert metrics[f"{name}_max_lag_seconds", group] == pytest.approx(3.0, abs=0.5)
    assert [metrics["kafka_partition_latest_offset", ("c", "air", str(number))] for number in range(3)] == [10, 9, 2]
    assert [metrics["kafka_partition_earliest_offset", ("c", "air", str(number))] for number in range(3)] == [0, 0, 0]
    assert all(value >= 0 and not math.isnan(value) for value in metrics.values())


def test_an_unread_record_grows_older_where_kafka_cannot_be_asked_again() -> None:
    positions = (position(0, current=4, end=10, age_s=3.0), position(1, current=9, end=9, age_s=0.0))
    view = LagView(cluster_id="c", taken_s=100.0, positions=positions)
    assert [aged_position.lag_seconds for aged_position in view.aged(107.0)] == [10.0, 0.0]


def test_two_pipelines_of_one_topic_have_its_ends_once() -> None:
    lag = LagView(cluster_id="c", taken_s=time.monotonic(), positions=(position(0, current=1, end=9, age_s=1.0),))
    metrics = list(lag_metrics([(VIEW, [lag]), (StatusView(pipeline="totals"), [lag])]))
    ends = [metric for metric in metrics if metric.name == "kafka_partition_latest_offset"]
    assert [len(metric.samples) for metric in ends] == [1]


def test_of_a_lag_that_is_not_known_nothing_is_said() -> None:
    assert samples(lag_metrics([(VIEW, [])])) == {}
