"""Spark's scheduler of batches, as far as a direct stream asks it; and the times of batches."""

from __future__ import annotations

from datetime import datetime

KEPT_MS = 5_000


class Scheduler:
    """Says what the test has it say."""

    def __init__(self) -> None:
        self.waiting: set[int] = set()
        self.reported: str | None = None
        self.is_serial = True

    def error(self) -> str | None:
        return self.reported

    def pending(self) -> set[int]:
        return set(self.waiting)

    remembered_ms = KEPT_MS

    def report(self, *_: object) -> None:
        pass


def at(seconds: int) -> datetime:
    """A time to come: batches are planned before the next one is due."""
    return datetime.fromtimestamp(2_000_000_000 + seconds)
