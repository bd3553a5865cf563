"""Dates and timestamps that Debezium writes as texts (ISO 8601), in columns.

Its ``isostring`` puts a Z behind dates and local timestamps too, which says nothing of them. What is usual is read all
at once; the rest text by text, as ``from_json`` reads it. A number is no text: nobody says what it counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.options.time_zones import time_zone as zone_of
from directkafka.payloads.json import times

_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_LOCAL: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_UTC: Final = rf"{_LOCAL[:-1]}Z$"
_NUMBER: Final = r"^[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?$"

#: Reads one text; None where it is none.
Parse = Callable[[str], int | None]


def dates(texts: pa.Array) -> pa.Array:
    """Days of texts, null for what is none."""
    return _read(_without_z(texts), _DATE, pa.date32(), pa.int32(), times.date)


def moments(texts: pa.Array, wanted: pa.TimestampType, time_zone: str) -> pa.Array:
    """Timestamps of texts, null for what is none.

    Args:
        texts: string.
        wanted: with a zone or without.
        time_zone: of texts that name none.
    """
    if wanted.tz is None:
        return _read(_without_z(texts), _LOCAL, wanted, pa.int64(), times.local_timestamp)
    zone = zone_of(time_zone)
    return _read(texts, _UTC, wanted, pa.int64(), lambda text: times.timestamp(text, zone))


def _without_z(texts: pa.Array) -> pa.Array:
    return pc.utf8_rtrim(texts, "Z")


def _read(texts: pa.Array, usual: str, wanted: pa.DataType, number: pa.DataType, parse: Parse) -> pa.Array:
    is_usual = pc.fill_null(pc.match_substring_regex(texts, usual), False)
    try:
        values = pc.if_else(is_usual, texts, pa.scalar(None, texts.type)).cast(wanted)
    except pa.ArrowInvalid:
        # One of them is a 30th of February, say.
        is_usual, values = pa.array([False] * len(texts)), pa.nulls(len(texts), wanted)
    is_unread = pc.and_(pc.invert(is_usual), texts.is_valid())
    if not pc.any(is_unread).as_py():
        return values
    is_unread = pc.and_(is_unread, pc.invert(pc.fill_null(pc.match_substring_regex(texts, _NUMBER), True)))
    read = [
        parse(text) if is_one else None for text, is_one in zip(texts.to_pylist(), is_unread.to_pylist(), strict=True)
    ]
    return pc.coalesce(values, pa.array(read, number).cast(wanted))
