"""Names of the topics in which pipelines keep their ledgers in Kafka."""

from __future__ import annotations

from typing import Final

__all__ = ["NAME_PREFIX", "is_ledger_topic", "ledger_topic"]

#: What the names of ledgers and of transactional ids begin with, where a sink's option does not say otherwise.
NAME_PREFIX: Final = "directkafka"


def ledger_topic(pipeline: str, name_prefix: str = NAME_PREFIX) -> str:
    """The topic of a pipeline's ledger."""
    return f"{name_prefix}.ledger.{pipeline}"


def is_ledger_topic(topic: str, name_prefix: str = NAME_PREFIX) -> bool:
    """Whether a topic is some pipeline's ledger, by its name."""
    return topic.startswith(ledger_topic("", name_prefix))
