"""Durations of a batch's steps."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Stopwatch"]


class Stopwatch:
    """Begins when it is made.

    Args:
        clock: seconds on a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_s = clock()

    def lap_ms(self) -> int:
        """Milliseconds since the last call, or since it was made."""
        before_s, self._last_s = self._last_s, self._clock()
        return round((self._last_s - before_s) * 1000)
