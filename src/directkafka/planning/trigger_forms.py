"""Triggers as users write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from directkafka.errors import OptionError
from directkafka.options.durations import duration_ms
from directkafka.options.spec import LONG_MAX, shown
from directkafka.planning.trigger import AvailableNow, Backlog, Custom, Delay, Interval, Moment, Trigger

__all__ = ["GivenTrigger", "parse_duration_ms", "parse_trigger"]

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
    found = duration_ms(text) if isinstance(text, str) else None
    if found is None:
        raise OptionError(
            option=option, where=where, reason=f'expected a duration such as "500ms", "1s" or "5m", found {shown(text)}'
        )
    return found
