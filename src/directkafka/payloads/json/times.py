"""Dates and timestamps in texts, as Spark takes them where no pattern is given.

Years have four digits or more, all other fields may have one; what is left out behind a field is its least value. A
time without a date is of the day on which it is read. Sources: ``stringToDate`` and ``parseTimestampString`` of Spark's
``SparkDateTimeUtils``, and ``ZoneId.of`` of Java.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfoNotFoundError

from directkafka.options.time_zones import time_zone

_SPACES: Final = "".join(map(chr, range(33))) + "\x7f"
_DATE: Final = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIME: Final = (
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?(?P<zone>\D.*)?)?)?"
)
_TIMESTAMP: Final = re.compile(
    rf"(?P<sign>[+-]?)(?P<year>\d{{4,6}})(?:-(?P<month>\d{{1,2}})(?:-(?P<day>\d{{1,2}})(?:[ T]{_TIME})?)?)?",
    re.ASCII | re.DOTALL,
)
_TIME_ALONE: Final = re.compile(rf"(?:T{_TIME}|{_TIME.replace('?P<', '?P<_')})", re.ASCII | re.DOTALL)
#: A number of 32 bits, perhaps behind zeros; Python reads no more than 4,300 digits.
_INT: Final = re.compile(r"([+-]?)0*(\d{1,10})")

#: The first day of the Gregorian calendar, 1582-10-15, counted from 1970.
_GREGORIAN: Final = -141_427
_DAY_US: Final = 86_400_000_000
_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1


def date(text: str) -> int | None:
    """Days from 1970 to a date; None where the text is none."""
    for candidate in (text, text.replace("GMT", "")):
        if (match := _DATE.fullmatch(candidate.strip(_SPACES))) is not None:
            sign, *fields = match.groups()
            year, month, day = (int(field or 1) for field in fields)
            days = days_of(-year if sign == "-" else year, month, day)
            if days is not None and -_INT32_MAX - 1 <= days <= _INT32_MAX:
                return days
    if (match := _INT.fullmatch(text)) is not None:
        days = int("".join(match.groups()))
        if -_INT32_MAX - 1 <= days <= _INT32_MAX:
            # Spark 1.5 wrote days as numbers, in the calendar that was Julian before 1582.
            return days if days >= _GREGORIAN else _rebased(days)
    return None


def timestamp(text: str, default: tzinfo) -> int | None:
    """Microseconds from 1970 to a moment; None where the text is none.

    Args:
        text: the text.
        default: the time zone where the text names none.
    """
    for candidate in (text, text.replace("GMT", "")):
        try:
            parsed = _parsed(candidate, default)
        except ZoneInfoNotFoundError:
            continue
        if parsed is not None:
            local_us, zone_found, _, _ = parsed
            moment = local_us - offset_us(local_us, zone_found or default)
            return moment if -_INT64_MAX - 1 <= moment <= _INT64_MAX else None
    return None


def local_timestamp(text: str) -> int | None:
    """Microseconds from 1970 to what a clock shows; None where the text is none, or names a time zone."""
    try:
        parsed = _parsed(text, UTC)
    except ZoneInfoNotFoundError:
        return None
    if parsed is None:
        return None
    local_us, _, is_time_alone, has_zone = parsed
    return None if is_time_alone or has_zone or not -_INT64_MAX - 1 <= local_us <= _INT64_MAX else local_us


def _parsed(text: str, default: tzinfo) -> tuple[int, tzinfo | None, bool, bool] | None:
    """Local microseconds, the zone, whether there is no date, and whether the text names a zone."""
    trimmed = text.strip(_SPACES)
    alone = _TIME_ALONE.fullmatch(trimmed) if text[:1] == trimmed[:1] or not trimmed.startswith("T") else None
    match = alone or _TIMESTAMP.fullmatch(trimmed)
    if match is None:
        return None
    fields = {name.removeprefix("_"): value for name, value in match.groupdict().items() if value is not None}
    if alone is not None and trimmed[0] != "T" and "minute" not in fields:
        return None
    hour, minute, second = (int(fields.get(name, 0)) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    named = time_zone(fields["zone"].strip(_SPACES)) if "zone" in fields else None
    if alone is None:
        year = int(fields["year"]) * (-1 if fields["sign"] == "-" else 1)
        days = days_of(year, int(fields.get("month", 1)), int(fields.get("day", 1)))
    else:
        today = datetime.now(named or default)
        days = days_of(today.year, today.month, today.day)
    if days is None:
        return None
    fraction_us = int(fields.get("fraction", "")[:6].ljust(6, "0"))
    local_us = days * _DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction_us
    return local_us, named, alone is not None, named is not None


def offset_us(local_us: int, where: tzinfo) -> int:
    """How much a zone's clock is ahead of UTC when it shows a time, in microseconds.

    What the clock shows twice is the first time; what it passes over is counted by the clock before, as Java does.
    """
    if isinstance(where, timezone):
        offset: timedelta | None = where.utcoffset(None)
    else:
        day, of_day_us = divmod(local_us, _DAY_US)
        # Rules of time zones come again every 400 years; before the first year, nothing has changed.
        cycle = -(-max(0, day - _LAST_DAY) // _CYCLE_DAYS)
        moment = datetime(1970, 1, 1) + timedelta(
            days=max(day - cycle * _CYCLE_DAYS, _FIRST_DAY), microseconds=of_day_us
        )
        offset = where.utcoffset(moment)
    assert offset is not None, "a time zone has an offset at any time"
    return round(offset / timedelta(microseconds=1))


def days_of(year: int, month: int, day: int) -> int | None:
    """Days from 1970 to a date of the Gregorian calendar, which goes on before 1582; None where there is none.

    Source: H. Hinnant, "chrono-compatible low-level date algorithms".
    """
    if not (1 <= month <= 12 and 1 <= day <= _month_days(year, month)):
        return None
    return _days(year, month, day)


def _days(year: int, month: int, day: int) -> int:
    from_march = year - (month <= 2)
    era, of_era = divmod(from_march, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _month_days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _rebased(days: int) -> int:
    """A day of the Julian calendar as the one of the same date in the Gregorian calendar."""
    shifted = days + 719_470  # from 0000-03-01 of the Julian calendar
    year, of_year = divmod(4 * shifted + 3, 1461)
    of_year //= 4
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return _days(year + (month >= 10), month % 12 + 3 if month < 10 else month - 9, day)


_CYCLE_DAYS: Final = 146_097
_FIRST_DAY: Final = _days(1, 1, 2)
_LAST_DAY: Final = _days(9990, 1, 1)


def fixed_offset_us(name: str) -> int:
    """How much a zone's clock is ahead of UTC, in microseconds; the least int64 where that changes.

    Raises:
        ZoneInfoNotFoundError: there is no such zone.
    """
    zone = time_zone(name)
    return offset_us(0, zone) if isinstance(zone, timezone) else -_INT64_MAX - 1
