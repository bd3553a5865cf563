"""Warnings of losses that are accepted, and of what they do to sinks."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from directkafka.planning.loss import Condition
from directkafka.planning.plan import BatchPlan
from directkafka.sinks.api import Sink

__all__ = ["log_losses"]

log = logging.getLogger("directkafka.pipeline")


def log_losses(batch: BatchPlan, sinks: Iterable[Sink]) -> None:
    """Say what a batch goes without, and where rows of a topic that was made again may meet those of the old one.

    Args:
        batch: the plan.
        sinks: the pipeline's.
    """
    for loss in batch.losses:
        log.warning("going on without what is lost: %s", loss)
    again = sorted({one.topic_partition.topic for one in batch.losses if one.condition is Condition.TOPIC_RECREATED})
    modes = {sink.name: sink.capabilities.write_mode for sink in sinks}
    keyed = sorted(name for name, mode in modes.items() if mode is not None and mode.name == "ignore")
    if again and keyed:
        log.warning(
            "the offsets of %s begin anew, and %s leaves out rows whose key is there already (mode ignore): if the key "
            "is topic, partition and offset, records of the new topic are taken for those of the old one, and are in "
            "no table. Move the old topic's rows away before the next batch, or write to another table",
            ", ".join(again), ", ".join(keyed),
        )  # fmt: skip
