"""Flights as JSON, and the Postgres table that all sides of a comparison read them into. Needs no package of ours: the
peers' processes import it too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

__all__ = ["DEFINITIONS", "NAMES", "TABLE", "TYPES", "flights", "total_distance"]

TABLE = "flights_of_json"

#: Names and Postgres' types, wide enough for what every side makes of JSON by itself.
TYPES = {
    "id": "bigint",
    "carrier": "text",
    "flight": "bigint",
    "tailnum": "text",
    "origin": "text",
    "dest": "text",
    "distance": "bigint",
    "delay": "double precision",
    "departed": "text",
    "is_late": "boolean",
}
NAMES = tuple(TYPES)
DEFINITIONS = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())


def flights(count: int) -> Iterator[bytes]:
    """Records of about 190 bytes."""
    for number in range(count):
        delay = (number * 7919) % 700 - 60
        flight = {
            "id": number,
            "carrier": ("AA", "UA", "DL", "B6")[number % 4],
            "flight": number % 9999,
            "tailnum": f"N{10000 + number % 89999}UA",
            "origin": ("EWR", "JFK", "LGA")[number % 3],
            "dest": ("IAH", "MIA", "ORD", "ATL", "SFO")[number % 5],
            "distance": 100 + number % 4900,
            "delay": delay / 4,
            "departed": f"2013-01-{1 + number % 31:02d}T{number % 24:02d}:{number % 60:02d}:00Z",
            "is_late": delay > 60,
        }
        yield json.dumps(flight, separators=(",", ":")).encode()


def total_distance(count: int) -> int:
    """What the column ``distance`` of so many flights adds up to."""
    return sum(100 + number % 4900 for number in range(count))
