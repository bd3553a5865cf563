"""Durations in ISO 8601, as Java's ``Duration.parse`` takes them: ``PT10M``, ``P1DT12H``, ``PT0.5S``."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["iso_duration_ms"]

#: A number has 9 digits at most: a duration of 30,000 years is a mistake.
_FORM: Final = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:[.,]\d{1,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def iso_duration_ms(text: str) -> int | None:
    """A duration that is not negative, in milliseconds; None when the text is none."""
    found = _FORM.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return None
    numbers = (float((one or "0").replace(",", ".")) for one in found.groups())
    return round(sum(number * unit_ms for number, unit_ms in zip(numbers, _UNITS_MS, strict=True)))
