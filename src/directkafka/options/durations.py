"""Durations as users write them: ``500ms``, ``1s``, ``5 minutes``, ``2h``."""

from __future__ import annotations

import re
from typing import Final

from directkafka.options.texts import decimal_number

__all__ = ["DURATION_MS_MAX", "duration_ms"]

_DURATION: Final = re.compile(r"\s*([0-9.]+)\s*([a-z]+)\s*")
_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}

#: A hundred years. Python waits for no more than 292, and says so in its own words.
DURATION_MS_MAX: Final = 100 * 365 * 86_400_000


def duration_ms(text: str) -> int | None:
    """A duration in milliseconds; None when the text is none, or one of more than a hundred years."""
    found = _DURATION.fullmatch(text)
    number = None if found is None else decimal_number(found[1])
    if found is None or number is None or found[2] not in _UNITS_MS:
        return None
    value = number * _UNITS_MS[found[2]]
    return round(value) if value <= DURATION_MS_MAX else None
