"""Triggers: as users write them, as values, and when the next batch starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from directkafka.errors import OptionError
from directkafka.options.spec import LONG_MAX, shown
from directkafka.options.texts import duration_ms


@dataclass(frozen=True, slots=True)
class Interval:
    """A batch every ``interval_ms``, counted from batch start to batch start. A late batch starts at once."""

    interval_ms: int


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """Batches one after the other up to the offsets that were the latest at the start; then stop."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A pause of ``delay_ms`` after the end of each batch."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """As soon as ``records`` are waiting, or ``at_most_ms`` after the last batch's start if any are."""

    records: int
    at_most_ms: int


@dataclass(frozen=True, slots=True)
class Custom:
    """A policy of the user's own: how many milliseconds to wait from a moment on; 0 or less is now."""

    wait_ms: Callable[[Moment], float]


Trigger = Interval | AvailableNow | Delay | Backlog | Custom

#: How often a pipeline that has nothing to do looks for new offsets, in milliseconds.
POLL_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known when it is decided whether a batch starts. Times are in milliseconds on one clock.

    Attributes:
        now_ms: the time of the decision.
        started_ms, ended_ms: start and end of the last batch; None before the first.
        backlog: offsets that are waiting; None while nobody has looked.
        is_idle: whether the last look found nothing to read.
    """

    now_ms: int
    started_ms: int | None
    ended_ms: int | None
    backlog: int | None
    is_idle: bool = False


def wait_ms(trigger: Trigger, moment: Moment) -> int:
    """How long to wait before a batch may start, in milliseconds; 0 is now.

    After a look that found nothing it is at least what is left of :data:`POLL_MS`, however short the trigger: an
    idle pipeline must not keep the brokers busy. A backlog trigger that waits for records is asked again after
    :data:`POLL_MS` with a fresh backlog.
    """
    if moment.started_ms is None or moment.ended_ms is None:
        return 0
    idle = moment.ended_ms + POLL_MS - moment.now_ms if moment.is_idle else 0
    return max(0, idle, _due_ms(trigger, moment, moment.started_ms, moment.ended_ms))


def _due_ms(trigger: Trigger, moment: Moment, started_ms: int, ended_ms: int) -> int:
    match trigger:
        case AvailableNow():
            return 0
        case Interval(interval_ms):
            return started_ms + interval_ms - moment.now_ms
        case Delay(delay_ms):
            return ended_ms + delay_ms - moment.now_ms
        case Backlog(records, at_most_ms):
            due = started_ms + at_most_ms - moment.now_ms
            return 0 if due <= 0 or (moment.backlog or 0) >= records else min(due, POLL_MS)
        case Custom(policy):
            return _checked(policy(moment))
    assert_never(trigger)


def asks_backlog(trigger: Trigger) -> bool:
    """Whether Kafka has to be asked how much is waiting before the trigger can decide."""
    return isinstance(trigger, Backlog | Custom)


def _checked(wait: object) -> int:
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not math.isfinite(wait):
        raise OptionError(
            option="trigger", reason=f"the function gave {wait!r:.100}, and not how many milliseconds to wait (0: now)"
        )
    return math.ceil(wait)


GivenTrigger = str | Mapping[str, Any] | Callable[[Moment], float]

_TRIGGER_FORMS: Final = 'expected "1s", "available-now", { delay = "1s" } or { records = 100000, at_most = "5s" }'


def parse_trigger(trigger: GivenTrigger, *, where: str = "") -> Trigger:
    """``"1s"``, ``"available-now"``, ``{"delay": "1s"}``, ``{"records": 100000, "at_most": "5s"}`` or a function.

    Raises:
        OptionError: anything else.
    """
    if callable(trigger):
        return Custom(trigger)
    if trigger == "available-now":
        return AvailableNow()
    if isinstance(trigger, str):
        return Interval(parse_duration_ms(trigger, option="trigger", where=where))
    if not isinstance(trigger, Mapping):
        raise OptionError(option="trigger", where=where, reason=f"{_TRIGGER_FORMS}, found {shown(trigger)}")
    if set(trigger) == {"delay"}:
        return Delay(parse_duration_ms(trigger["delay"], option="trigger.delay", where=where))
    if set(trigger) == {"records", "at_most"}:
        records = trigger["records"]
        if not isinstance(records, int) or isinstance(records, bool) or not 1 <= records <= LONG_MAX:
            raise OptionError(
                option="trigger.records", where=where, reason=f"expected a whole number above 0, found {shown(records)}"
            )
        return Backlog(records, parse_duration_ms(trigger["at_most"], option="trigger.at_most", where=where))
    raise OptionError(
        option="trigger",
        where=where,
        reason=f"{_TRIGGER_FORMS}, found the keys {', '.join(sorted(map(str, trigger))) or 'none'}",
    )


def parse_duration_ms(text: object, *, option: str, where: str = "") -> int:
    """A duration such as ``500ms``, ``1s``, ``5 min`` or ``2h`` in milliseconds.

    Raises:
        OptionError: anything else.
    """
    milliseconds = duration_ms(text) if isinstance(text, str) else None
    if milliseconds is None:
        raise OptionError(
            option=option, where=where, reason=f'expected a duration such as "500ms", "1s" or "5m", found {shown(text)}'
        )
    return milliseconds
