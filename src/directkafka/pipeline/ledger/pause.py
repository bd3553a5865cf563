"""A pause of a pipeline: an entry beside the pipeline's own, in each of its stores, for as long as the pause lasts.

It fences nobody. A driver looks for it between two batches, whichever engine it runs under, and waits. So a pause
outlasts the driver: one that is started meanwhile waits as well.
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

#: How long what was found counts, in seconds: a pause begins and ends with so much delay.
LOOK_S: Final = 2.0


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
        self._holds = False
        self._may_look = True

    def holds(self, store: Store) -> bool:
        """Whether the pipeline is paused, as of at most :data:`LOOK_S` ago.

        Args:
            store: the pipeline's first one.

        Raises:
            StoreUnavailableError: it cannot be asked.
        """
        now_s = self._clock()
        if not self._may_look or (self._looked_s is not None and now_s - self._looked_s < LOOK_S):
            return self._holds
        held = self._holds
        try:
            self._holds = paused_at_ms(store, self._pipeline) is not None
        except StoreAccessError as error:
            # In Kafka the pause has a topic of its own. Who may not look at it cannot be paused, and runs as ever.
            log.warning("%s cannot be paused: %s", self._pipeline, error)
            self._may_look = self._holds = False
        self._looked_s = now_s
        if self._holds and not held:
            log.warning("%s is paused, until directkafka resume", self._pipeline)
        elif held and not self._holds:
            log.info("%s goes on", self._pipeline)
        return self._holds


def paused_at_ms(store: Store, pipeline: str) -> int | None:
    """Since when a pipeline is paused, in milliseconds since 1970; None where it is not."""
    entry = store.read(pause_name(pipeline))
    return None if entry is None else entry.committed_at_ms


def set_paused(stores: Sequence[Store], pipeline: str, *, is_paused: bool) -> bool:
    """Pause a pipeline, or end its pause, in all its stores; whether that has changed anything.

    Args:
        stores: each place once.
        pipeline: the pipeline's name.
        is_paused: what is to be so.
    """
    name, has_changed = pause_name(pipeline), False
    for store in stores:
        if (store.read(name) is not None) == is_paused:
            continue
        generation = store.fence(name)
        found = store.read(name)
        entry = LedgerEntry(
            pipeline=name,
            generation=generation,
            lineage=uuid.uuid4().hex,
            batch_id=0,
            progress=(),
            committed_at_ms=int(time.time() * 1000),
        )
        if (found is not None) != is_paused:
            store.commit(entry if is_paused else dropped(entry), previous=found)
            has_changed = True
    return has_changed
