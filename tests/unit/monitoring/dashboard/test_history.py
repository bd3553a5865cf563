"""A day of samples in bounded memory."""

from __future__ import annotations

import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.monitoring.dashboard.history import History, Sample

_NAN = math.nan


def sample(at_s: float, lag: float = 0.0, rate: float = 0.0) -> Sample:
    return Sample(at_ms=at_s * 1000, lag=lag, lag_seconds=lag / 10, records_per_s=rate, rows_per_s=rate)


def test_samples_of_the_last_hour_come_back_as_they_were() -> None:
    history = History()
    for number in range(720):
        history.add(sample(number * 5, lag=number))
    columns = history.columns()
    assert columns["at_ms"] == [number * 5_000.0 for number in range(720)]
    assert columns["lag"] == [float(number) for number in range(720)]


def test_an_unknown_number_is_none() -> None:
    history = History()
    history.add(sample(1, lag=_NAN, rate=_NAN))
    assert history.columns() == {
        "at_ms": [1000.0], "lag": [None], "lag_seconds": [None], "records_per_s": [None], "rows_per_s": [None],
    }  # fmt: skip


def test_older_minutes_keep_their_highest_lag_and_their_mean_rate() -> None:
    history = History()
    for number in range(24 * 720):
        is_peak = number == 100
        history.add(sample(number * 5, lag=7_000.0 if is_peak else 1.0, rate=number % 12))
    columns = history.columns()
    minute = columns["at_ms"].index(8 * 60_000.0)
    assert columns["lag"][minute] == 7_000
    assert columns["lag_seconds"][minute] == 700
    assert columns["rows_per_s"][minute] == pytest.approx(5.5)
    at_ms = [at for at in columns["at_ms"] if at is not None]
    assert at_ms == sorted(set(at_ms))
    # 23 hours in minutes, the last one as it came.
    assert len(at_ms) == pytest.approx(23 * 60 + 720, abs=1)


def test_a_minute_of_which_something_is_known_is_known() -> None:
    history = History()
    for number in range(2 * 720):
        history.add(sample(number * 5, lag=_NAN if number % 2 or number < 12 else 3.0, rate=_NAN))
    columns = history.columns()
    assert columns["lag"][:3] == [None, 3.0, 3.0]
    assert columns["records_per_s"][:3] == [None, None, None]


@given(st.lists(st.floats(min_value=0.001, max_value=600), max_size=60))
def test_times_only_go_forward_whatever_lies_between_samples(pauses: list[float]) -> None:
    history, at_s = History(), 0.0
    for pause in pauses:
        at_s += pause
        history.add(sample(at_s))
    times = history.columns()["at_ms"]
    assert len(times) == len(pauses)
    assert times == sorted(times, key=lambda at: at or 0)


def test_a_day_of_fifty_pipelines_stays_far_below_fifty_megabytes() -> None:
    tracemalloc.start()
    try:
        history = History()
        for number in range(0, 86_400, 20):
            history.add(sample(number))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(history.columns()["at_ms"]) > 1_400
    assert 50 * held < 20 * 1024 * 1024
