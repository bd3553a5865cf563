"""Durations as users write them: ``500ms``, ``1s``, ``5 minutes``, ``2h``."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["duration_ms"]

_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def duration_ms(text: str) -> int | None:
    """A duration in milliseconds; None when the text is none."""
    found = _DURATION.fullmatch(text)
    if found is None or found[2] not in _UNITS_MS:
        return None
    return round(float(found[1]) * _UNITS_MS[found[2]])
