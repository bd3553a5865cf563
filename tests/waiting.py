"""Waiting for what another thread, process or server does, without a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WAIT_S = 120.0


def until(condition: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> Any:
    """Wait for a condition and return what it gave.

    Raises:
        AssertionError: with ``what``, where it does not come in time.
    """
    deadline = time.monotonic() + timeout_s
    while not (outcome := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return outcome
