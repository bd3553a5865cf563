"""The end of a pipeline: its ledgers forget it, and one of the same name begins anew. Its tables stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from directkafka.operations.pipelines import PipelineSummary, has_driver
from directkafka.pipeline.file import pause_name, replay_name
from directkafka.sinks.api import Store
from directkafka.sinks.ledger import dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedLedger:
    """What one store has of a pipeline.

    Attributes:
        store: the store's identity.
        pipeline: of which pipeline; its replays have an entry of their own.
        summary: what the entry says.
    """

    store: str
    pipeline: str
    summary: PipelineSummary

    def as_record(self) -> dict[str, Any]:
        """For printing."""
        return {"store": self.store, **self.summary.as_record()}


def look_at_ledgers(stores: Sequence[Store], pipeline: str) -> tuple[DroppedLedger, ...]:
    """What a drop would take out of each store; changes nothing.

    Args:
        stores: each place once.
        pipeline: the pipeline's name.
    """
    return tuple(
        DroppedLedger(store=store.identity, pipeline=name, summary=PipelineSummary.of(entry))
        for store in stores
        for name in _names(pipeline)
        if (entry := store.read(name)) is not None
    )


def drop(stores: Sequence[Store], pipeline: str) -> tuple[DroppedLedger, ...]:
    """Take a pipeline out of each store's ledger, store by store, each in one transaction; what there was.

    A driver that is at work is fenced, in all stores before the first one forgets: also in one that it has fenced and
    not committed to yet, where it would have a new store join. Killed between two stores, the others still have the
    pipeline: to be done again before the pipeline is started, since it would go on where they are.

    Args:
        stores: each place once.
        pipeline: the pipeline's name.

    Raises:
        FencedError: a driver has come in between.
        StoreError: the first store that failed; later ones were not touched.
    """
    ledgers = look_at_ledgers(stores, pipeline)
    for name in _names(pipeline):
        if not any(ledger.pipeline == name for ledger in ledgers):
            continue
        generations = [(store, store.fence(name)) for store in stores if has_driver(store, name)]
        for store, generation in generations:
            entry = store.read(name)
            if entry is not None:
                store.commit(dropped(replace(entry, generation=generation)), previous=entry)
    return ledgers


def _names(pipeline: str) -> tuple[str, ...]:
    return pipeline, replay_name(pipeline), pause_name(pipeline)
