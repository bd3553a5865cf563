"""Time zones by name or offset: as Java's ``ZoneId.of`` knows them, and hours of one digit as Spark takes them."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_OFFSET: Final = re.compile(r"([+-])(?:(\d)|(\d\d)(?::?(\d\d)(?::(\d\d)|(\d\d))?)?)", re.ASCII)

#: ``ZoneId.SHORT_IDS`` of Java 17, of which Spark makes use.
_SHORT_IDS: Final = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip


@lru_cache(maxsize=256)
def time_zone(name: str) -> tzinfo:
    """A time zone by its name or its offset.

    Raises:
        ZoneInfoNotFoundError: there is none.
    """
    name = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name, count=1, flags=re.ASCII)
    name = re.sub(r"([+-])(\d\d):(\d)$", r"\1\2:0\3", name, count=1, flags=re.ASCII)
    name = _SHORT_IDS.get(name, name)
    if name == "Z":
        return UTC
    for prefix in ("UTC", "GMT", "UT", ""):
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            if not rest and prefix:
                return UTC
            if (match := _OFFSET.fullmatch(rest)) is not None:
                sign, hour, hours, minutes, *seconds = match.groups()
                offset = timedelta(
                    hours=int(hour or hours), minutes=int(minutes or 0), seconds=int(seconds[0] or seconds[1] or 0)
                )
                if offset > timedelta(hours=18) or max(int(minutes or 0), int(seconds[0] or seconds[1] or 0)) > 59:
                    raise ZoneInfoNotFoundError(name)
                return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        raise ZoneInfoNotFoundError(name) from error
