"""The status of a pipeline: what it has done adds up, and each moment is a value of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.pipeline.test_progress import REPORT as PLAIN

from directkafka.errors import FencedError
from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.pipeline.progress import BatchReport, TableRows
from directkafka.pipeline.status import (
    DURATION_BUCKETS_S,
    Histogram,
    PipelineStatus,
    Step,
    listeners,
    started_pipelines,
)

PARTITION = TopicPartition("air", 0)
REPORT = replace(
    PLAIN,
    ranges=(OffsetRange("air", 0, 0, 10),),
    read={"air": ReadCount(9, 100)},
    tables=(
        TableRows(store="sqlite:a", table="flights", row_count=8),
        TableRows(store="sqlite:a", table="letters", row_count=1, is_of_dead_letters=True),
    ),
)


def fenced() -> FencedError:
    return FencedError(pipeline="flights", store="a", held=2, found=3)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_what_batches_have_done_adds_up() -> None:
    status = PipelineStatus("flights")
    status.committed(REPORT, {PARTITION: 10})
    status.committed(
        replace(REPORT, batch_id=8, read={"air": ReadCount(1, 5), "sea": ReadCount(2, 6)}), {PARTITION: 12}
    )
    view = status.view
    assert (view.batch_count, view.batch_id, view.generation, view.ends) == (2, 8, 2, {PARTITION: 12})
    assert view.read == {"air": ReadCount(10, 105), "sea": ReadCount(2, 6)}
    assert view.row_counts == {("sqlite:a", "flights"): 16, ("sqlite:a", "letters"): 2}
    assert view.dead_letter_count == 2
    assert view.durations["write"].total_s == pytest.approx(0.16)
    assert sum(view.durations["commit"].counts) == 2


def test_where_spark_reads_offsets_are_counted() -> None:
    status = PipelineStatus("flights")
    status.committed(replace(REPORT, records=None, read={}), {PARTITION: 10})
    assert status.view.read == {"air": ReadCount(10, 0)}


def test_a_moment_that_was_looked_at_stays_as_it_was() -> None:
    status = PipelineStatus("flights")
    status.committed(REPORT, {PARTITION: 10})
    before = status.view
    status.committed(REPORT, {PARTITION: 20})
    assert (before.batch_count, before.ends, before.read["air"]) == (1, {PARTITION: 10}, ReadCount(9, 100))


def test_a_new_run_goes_on_counting_and_knows_nothing_of_the_fence_of_the_last_one() -> None:
    status = PipelineStatus("flights")
    status.committed(REPORT, {PARTITION: 10})
    status.started()
    assert (status.view.batch_count, status.view.generation, status.view.is_ready) == (1, None, False)


def test_a_step_has_an_age_and_a_look_again_makes_it_young() -> None:
    clock = Clock()
    status = PipelineStatus("flights", clock=clock)
    status.at(Step.WRITE)
    clock.now_s += 7
    assert status.idle_s() == 7
    status.at(Step.WRITE)
    assert status.idle_s() == 0


class Failures:
    """Hears of failures alone."""

    def __init__(self) -> None:
        self.heard: list[tuple[Step, str]] = []

    def on_committed(self, status: PipelineStatus, report: BatchReport) -> None: ...

    def on_failed(self, status: PipelineStatus, step: Step, error: str) -> None:
        self.heard.append((step, error))

    def on_ended(self, status: PipelineStatus) -> None: ...


def test_a_failure_is_told_with_the_step_that_failed() -> None:
    failures = Failures()
    listeners.append(failures)
    status = PipelineStatus("flights")
    status.at(Step.PLAN)
    status.retried(OSError())
    status.retried(OSError())
    status.at(Step.WRITE)
    status.retried(OSError())
    status.ended(ValueError())
    listeners.remove(failures)
    assert failures.heard == [
        (Step.PLAN, "OSError"), (Step.PLAN, "OSError"), (Step.WRITE, "OSError"), (Step.WRITE, "ValueError"),
    ]  # fmt: skip


def test_a_query_that_is_ready_keeps_the_ends_that_another_thread_has_set() -> None:
    status = PipelineStatus("flights")
    status.set_ends({PARTITION: 10})
    status.ready()
    assert (status.view.is_ready, status.view.ends) == (True, {PARTITION: 10})


def test_retries_are_counted_by_the_type_of_their_error() -> None:
    status = PipelineStatus("flights")
    status.retried(ValueError())
    status.retried(ValueError())
    status.retried(OSError())
    assert status.view.retry_counts == {"ValueError": 2, "OSError": 1}
    assert status.view.step is Step.RETRYING


def test_a_step_that_comes_through_again_is_where_it_was_and_no_longer_retried() -> None:
    status = PipelineStatus("flights")
    status.at(Step.WAITING)
    status.retried(OSError())
    status.retried(OSError())
    assert (status.view.step, status.view.is_retrying) == (Step.RETRYING, True)
    status.recovered()
    assert (status.view.step, status.view.is_retrying) == (Step.WAITING, False)


def test_a_try_that_goes_on_to_another_step_is_still_a_try() -> None:
    status = PipelineStatus("flights")
    status.at(Step.COMMIT)
    status.retried(OSError())
    status.at(Step.PLAN)
    assert status.view.is_retrying
    status.recovered()
    assert (status.view.step, status.view.is_retrying) == (Step.PLAN, False)


def test_who_looked_before_somebody_told_more_tells_nothing() -> None:
    status = PipelineStatus("flights")
    status.at(Step.WRITE)
    status.moved(Step.WAITING, Step.PLAN)
    seen = [str(status.view.step)]
    status.moved(Step.WRITE, Step.COMMIT)
    assert [*seen, str(status.view.step)] == ["write", "commit"]


def test_a_run_that_fails_says_what_ended_it_and_one_that_ends_says_nothing() -> None:
    status = PipelineStatus("flights")
    with pytest.raises(FencedError), status.of_run():
        raise fenced()
    assert (status.view.failure or "").startswith("FencedError: ")
    with status.of_run():
        assert (status.view.step, status.view.failure) == (Step.STARTING, None)
    assert (status.view.step, status.view.failure) == (Step.ENDED, None)


def test_pipelines_that_were_started_are_found_by_name_and_the_newest_of_a_name_counts() -> None:
    older, newer, other = PipelineStatus("b of a test"), PipelineStatus("b of a test"), PipelineStatus("a of a test")
    for status in (older, newer, other):
        status.started()
    assert [pipeline_status for pipeline_status in started_pipelines() if pipeline_status in {older, newer, other}] == [
        other,
        newer,
    ]


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0, 0), (0.01, 0), (0.011, 1), (600.0, 14), (600.1, 15)])
def test_a_duration_falls_into_the_first_bucket_that_it_is_not_above(seconds: float, bucket: int) -> None:
    counts = Histogram().observed(seconds).counts
    assert len(counts) == len(DURATION_BUCKETS_S) + 1
    assert [number for number, count in enumerate(counts) if count] == [bucket]
