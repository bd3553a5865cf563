"""Dates and timestamps in kernels, in their usual form alone; :mod:`directkafka.payloads.json.times` has the others."""

# ruff: noqa: PLR0911, PLR0912, PLR1714, C901 - as numba compiles it best
from __future__ import annotations

from typing import Final

from directkafka.kafka.kernels.addresses import load8
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.json.kernels.characters import COLON, LEFT, MINUS, PLUS, POINT, QUOTE, ZERO
from directkafka.payloads.json.kernels.numbers import TENS, read_digits

#: In place of an offset of the zone of timestamps that name none: it changes, and they are left.
NO_OFFSET: Final = -(1 << 63)

_DAY_US: Final = 86_400_000_000


@helper
def _two(at: int) -> int:
    """Two digits; negative where they are none."""
    tens, ones = load8(at) - ZERO, load8(at + 1) - ZERO
    if tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return -1
    return tens * 10 + ones


@helper
def read_date(at: int, end: int) -> tuple[int, int]:
    """``YYYY-MM-DD``: the position behind it, and days from 1970."""
    if at + 10 > end:
        return LEFT, 0
    century, years, month, day = _two(at), _two(at + 2), _two(at + 5), _two(at + 8)
    if century < 0 or years < 0 or load8(at + 4) != MINUS or load8(at + 7) != MINUS:
        return LEFT, 0
    year = century * 100 + years
    leap = 1 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 0
    if month < 1 or month > 12 or day < 1:
        return LEFT, 0
    if month == 2:
        longest = 28 + leap
    elif month == 4 or month == 6 or month == 9 or month == 11:
        longest = 30
    else:
        longest = 31
    if day > longest:
        return LEFT, 0
    from_march = year - 1 if month <= 2 else year
    shifted = month + 9 if month <= 2 else month - 3
    of_year = (153 * shifted + 2) // 5 + day - 1
    era = from_march // 400
    of_era = from_march - era * 400
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return at + 10, days


@helper
def _without_zone(at: int, moment: int, offset_us: int, is_local: bool) -> tuple[int, int]:
    """A timestamp that ends here, at its quote, and has named no zone."""
    if is_local:
        return at + 1, moment
    if offset_us == NO_OFFSET:
        return LEFT, 0
    return at + 1, moment - offset_us


@helper
def read_timestamp(at: int, end: int, offset_us: int, is_local: bool) -> tuple[int, int]:
    """``YYYY-MM-DD``, ``THH:MM:SS`` (or a space for the T), a fraction, ``Z`` or ``+HH:MM``, and the quote."""
    at, days = read_date(at, end)
    if at < 0 or at >= end:
        return LEFT, 0
    moment = days * _DAY_US
    byte = load8(at)
    if byte == QUOTE:
        return _without_zone(at, moment, offset_us, is_local)
    if (byte != 0x54 and byte != 0x20) or at + 10 > end:
        return LEFT, 0
    hour, minute, second = _two(at + 1), _two(at + 4), _two(at + 7)
    if hour < 0 or minute < 0 or second < 0 or load8(at + 3) != COLON or load8(at + 6) != COLON:
        return LEFT, 0
    if hour > 23 or minute > 59 or second > 59:
        return LEFT, 0
    moment += ((hour * 60 + minute) * 60 + second) * 1_000_000
    at += 9
    byte = load8(at)
    if byte == POINT:
        first = at + 1
        fraction, at = read_digits(first, end, 0)
        count = at - first
        if count == 0 or count > 9 or at >= end:
            return LEFT, 0
        if count <= 6:
            moment += fraction * TENS[6 - count]
        else:
            moment += fraction // TENS[count - 6]
        byte = load8(at)
    if byte == QUOTE:
        return _without_zone(at, moment, offset_us, is_local)
    if is_local:
        return LEFT, 0
    if byte == 0x5A:
        if load8(at + 1) != QUOTE:
            return LEFT, 0
        return at + 2, moment
    if (byte != PLUS and byte != MINUS) or at + 7 > end:
        return LEFT, 0
    hour, minute = _two(at + 1), _two(at + 4)
    if hour < 0 or minute < 0 or load8(at + 3) != COLON or load8(at + 6) != QUOTE or hour > 17 or minute > 59:
        return LEFT, 0
    ahead = (hour * 60 + minute) * 60_000_000
    return at + 7, moment - ahead if byte == PLUS else moment + ahead
