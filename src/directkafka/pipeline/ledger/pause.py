"""A pause of a pipeline: an entry beside the pipeline's own, in each of its stores, for as long as the pause lasts.

It fences nobody. Before each batch a driver looks for it in the pipeline's first store, under both engines, and waits.
So a pause outlasts the driver: one that is started meanwhile waits as well.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final

from directkafka.errors import StoreAccessError
from directkafka.pipeline.file import pause_name
from directkafka.sinks.api import LedgerEntry, Store
from directkafka.sinks.ledger import dropped

log = logging.getLogger("directkafka.pipeline")

#: How long an answer is used again, in seconds: a driver may notice a pause, or its end, this much later.
PAUSE_POLL_S: Final = 2.0


class Pause:
    """A driver's look at its pipeline's pause.

    Args:
        pipeline: the pipeline's name.
        clock: seconds on a monotonic clock.
    """

    def __init__(self, pipeline: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._looked_s: float | None = None
        self._is_paused = False
        self._can_read_pause = True

    def is_paused(self, store: Store) -> bool:
        """Whether the pipeline is paused, as of at most :data:`PAUSE_POLL_S` ago.

        Args:
            store: the pipeline's first one.

        Raises:
            StoreUnavailableError: it cannot be asked.
        """
        now_s = self._clock()
        if not self._can_read_pause or (self._looked_s is not None and now_s - self._looked_s < PAUSE_POLL_S):
            return self._is_paused
        was_paused = self._is_paused
        try:
            self._is_paused = paused_at_ms(store, self._pipeline) is not None
        except StoreAccessError as error:
            # In Kafka a pause is a topic. A driver without rights on it cannot be paused, and runs on.
            log.warning("%s cannot be paused: %s", self._pipeline, error)
            self._can_read_pause = self._is_paused = False
        self._looked_s = now_s
        if self._is_paused and not was_paused:
            log.warning("%s is paused, until directkafka resume", self._pipeline)
        elif was_paused and not self._is_paused:
            log.info("%s is resumed", self._pipeline)
        return self._is_paused


def paused_at_ms(store: Store, pipeline: str) -> int | None:
    """Since when a pipeline is paused, in milliseconds since 1970; None where it is not."""
    entry = store.read(pause_name(pipeline))
    return None if entry is None else entry.committed_at_ms


def set_paused(stores: Sequence[Store], pipeline: str, *, is_paused: bool) -> bool:
    """Pause a pipeline, or end its pause, in all its stores; whether that has changed anything.

    Args:
        stores: each place once.
        pipeline: the pipeline's name.
        is_paused: True to pause, False to resume.
    """
    name, has_changed = pause_name(pipeline), False
    for store in stores:
        if (store.read(name) is not None) == is_paused:
            continue
        generation = store.fence(name)
        previous = store.read(name)
        entry = LedgerEntry(
            pipeline=name,
            generation=generation,
            lineage=uuid.uuid4().hex,
            batch_id=0,
            progress=(),
            committed_at_ms=int(time.time() * 1000),
        )
        if (previous is not None) != is_paused:
            store.commit(entry if is_paused else dropped(entry), previous=previous)
            has_changed = True
    return has_changed
