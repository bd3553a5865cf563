"""Failures that may pass by themselves, and how long they are met with another try.

One table says which errors may pass; every other one, :class:`~directkafka.errors.FencedError` above all, leaves
at once. A stop that is asked for ends the tries: the failed step is rolled back, and that is a clean end.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from directkafka.errors import (
    BrokerResponseError,
    BrokerUnreachableError,
    DirectKafkaError,
    EnvironmentFaultError,
    FetchTimeoutError,
    RowCountError,
    StoreUnavailableError,
    WorkerLostError,
)
from directkafka.errors.registry import RegistryUnavailableError

log = logging.getLogger("directkafka.pipeline")

T = TypeVar("T")

#: What may pass by itself; anything else stops the pipeline at once.
_PASSING = (
    StoreUnavailableError,
    RowCountError,
    BrokerUnreachableError,
    FetchTimeoutError,
    RegistryUnavailableError,
    WorkerLostError,
)

_FIRST_PAUSE_S = 0.2
_PAUSE_S_MAX = 5.0


class StopAsked(Exception):  # noqa: N818 - like StopIteration, it is no error
    """A stop was asked for while a step was being tried again; nothing of the step is committed."""


class RetryPolicy:
    """Runs steps, and runs them again while their failure may pass.

    Args:
        stop: ends the tries.
        retry_ms_max: how long after a step's first failure another try may begin, in milliseconds. A step that
            took longer than this before it failed is tried again all the same.
        on_retry: told of each failure that is met with another try.
        on_recovery: told when a step comes through that has failed before.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        stop: Event,
        *,
        retry_ms_max: int,
        on_retry: Callable[[DirectKafkaError], None] = lambda _: None,
        on_recovery: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = stop
        self._on_retry = on_retry
        self._on_recovery = on_recovery
        self._retry_s_max = retry_ms_max / 1000
        self._clock = clock

    def until_done(self, step: Callable[[], T]) -> T:
        """The step's result.

        Raises:
            StopAsked: it failed, and a stop was asked for.
            DirectKafkaError: the failure cannot pass, or did not in time.
        """
        deadline: float | None = None
        tries = 0
        while True:
            tries += 1
            try:
                done = step()
                if tries > 1:
                    self._on_recovery()
                return done
            except DirectKafkaError as error:
                if self._stop.is_set() and (may_pass(error) or isinstance(error, EnvironmentFaultError)):
                    raise StopAsked(str(error)) from error
                if not may_pass(error):
                    raise
                now = self._clock()
                deadline = now + self._retry_s_max if deadline is None else deadline
                pause = _pause_s(tries)
                if now + pause > deadline:
                    raise
                log.warning("try %d failed and may pass, trying again: %s", tries, error)
                self._on_retry(error)
                if self._stop.wait(pause):
                    raise StopAsked(str(error)) from error

    def wait(self, seconds: float, why: str) -> None:
        """Wait before the next look at what the step waits for.

        Raises:
            StopAsked: a stop was asked for.
        """
        if self._stop.wait(seconds):
            raise StopAsked(why)


def may_pass(error: BaseException) -> bool:
    """Whether another try of the same step may succeed."""
    if isinstance(error, BrokerResponseError):
        return error.retriable
    return isinstance(error, _PASSING)


def _pause_s(tries: int) -> float:
    """Doubled from try to try, and blurred, so that pipelines of one database do not come back all at once."""
    return random.uniform(0.5, 1.0) * min(_PAUSE_S_MAX, _FIRST_PAUSE_S * 2.0 ** min(tries - 1, 10))
