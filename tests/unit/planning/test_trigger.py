"""When the next batch starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.errors import OptionError
from directkafka.planning.trigger import (
    POLL_MS,
    AvailableNow,
    Backlog,
    Custom,
    Delay,
    Interval,
    Moment,
    Trigger,
    asks_backlog,
    wait_ms,
)

times = st.integers(0, 10**12)
lengths = st.integers(0, 10**9)
triggers = st.one_of(
    st.builds(Interval, lengths),
    st.just(AvailableNow()),
    st.builds(Delay, lengths),
    st.builds(Backlog, st.integers(1, 10**9), lengths),
)


@st.composite
def moments(draw: st.DrawFn) -> Moment:
    """A moment behind a batch."""
    started = draw(times)
    ended = started + draw(lengths)
    return Moment(
        now_ms=ended + draw(lengths),
        started_ms=started,
        ended_ms=ended,
        backlog=draw(st.none() | st.integers(0, 10**9)),
        is_idle=draw(st.booleans()),
    )


def moment(*, now: int, started: int = 1_000, ended: int = 1_200, backlog: int | None = None) -> Moment:
    return Moment(now_ms=now, started_ms=started, ended_ms=ended, backlog=backlog)


@pytest.mark.parametrize("trigger", [Interval(5), AvailableNow(), Delay(5), Backlog(5, 5)])
def test_the_first_batch_starts_at_once(trigger: Trigger) -> None:
    assert wait_ms(trigger, Moment(now_ms=7, started_ms=None, ended_ms=None, backlog=None)) == 0


def test_an_interval_counts_from_start_to_start() -> None:
    assert wait_ms(Interval(1_000), moment(now=1_200)) == 800


def test_a_late_interval_starts_at_once() -> None:
    assert wait_ms(Interval(1_000), moment(now=2_500, ended=2_500)) == 0


def test_a_delay_counts_from_the_end() -> None:
    assert wait_ms(Delay(1_000), moment(now=1_300)) == 900


def test_a_backlog_of_enough_records_starts_at_once() -> None:
    assert wait_ms(Backlog(100, 60_000), moment(now=1_300, backlog=100)) == 0


def test_a_backlog_that_is_too_small_is_looked_at_again_soon() -> None:
    assert wait_ms(Backlog(100, 60_000), moment(now=1_300, backlog=99)) == POLL_MS


def test_a_backlog_waits_no_longer_than_it_may() -> None:
    assert wait_ms(Backlog(100, 1_000), moment(now=1_970, backlog=1)) == 30
    assert wait_ms(Backlog(100, 1_000), moment(now=2_000, backlog=1)) == 0


@given(triggers, moments())
def test_a_wait_is_never_negative(trigger: Trigger, when: Moment) -> None:
    assert wait_ms(trigger, when) >= 0


@given(triggers, moments())
def test_between_an_idle_look_and_the_next_lies_the_poll_time_at_least(trigger: Trigger, when: Moment) -> None:
    if when.is_idle:
        assert when.ended_ms is not None
        assert when.now_ms + wait_ms(trigger, when) >= when.ended_ms + POLL_MS


@given(triggers, moments(), st.integers(0, 10**6))
def test_waiting_as_told_ends(trigger: Trigger, when: Moment, extra_ms: int) -> None:
    """After the wait the answer is 0, but for a backlog, which is asked again until it is due."""
    wait = wait_ms(trigger, when)
    later = Moment(
        now_ms=when.now_ms + wait + extra_ms,
        started_ms=when.started_ms,
        ended_ms=when.ended_ms,
        backlog=when.backlog,
        is_idle=when.is_idle,
    )
    again = wait_ms(trigger, later)
    assert again == 0 or (isinstance(trigger, Backlog) and wait > 0 and again <= POLL_MS)


@given(moments(), lengths, st.integers(1, 10**9))
def test_a_batch_is_due_at_most_so_long_after_the_last_one_started(when: Moment, at_most_ms: int, records: int) -> None:
    assert when.started_ms is not None
    if when.now_ms >= when.started_ms + at_most_ms and not when.is_idle:
        assert wait_ms(Backlog(records, at_most_ms), when) == 0


def test_a_policy_of_one_s_own_is_given_the_moment_and_says_how_long_to_wait() -> None:
    seen: list[Moment] = []

    def policy(moment: Moment) -> float:
        seen.append(moment)
        return 0.4 if moment.backlog == 5 else -3

    trigger = Custom(policy)
    early, due = (
        Moment(now_ms=1_500, started_ms=1_000, ended_ms=1_200, backlog=backlog, is_idle=False) for backlog in (5, 6)
    )
    assert (wait_ms(trigger, early), wait_ms(trigger, due)) == (1, 0)
    assert seen == [early, due]


def test_a_policy_of_one_s_own_does_not_keep_the_brokers_busy_either() -> None:
    idle = Moment(now_ms=1_200, started_ms=1_000, ended_ms=1_200, backlog=0, is_idle=True)
    assert wait_ms(Custom(lambda _: 0), idle) == POLL_MS


@pytest.mark.parametrize("answer", [None, True, "1s", float("nan"), float("inf")])
def test_a_policy_that_gives_no_milliseconds_is_refused(answer: object) -> None:
    with pytest.raises(OptionError, match="not how many milliseconds to wait"):
        wait_ms(Custom(lambda _: answer), Moment(now_ms=1, started_ms=0, ended_ms=0, backlog=0))  # type: ignore[arg-type, return-value]


def test_only_triggers_that_ask_for_it_cost_a_question_for_the_backlog() -> None:
    assert [
        asks_backlog(trigger)
        for trigger in (Interval(1), AvailableNow(), Delay(1), Backlog(1, 1), Custom(len))  # type: ignore[arg-type]
    ] == [False, False, False, True, True]
