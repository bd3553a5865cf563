"""Names of staging tables: who owns one can be read from its name.

``directkafka_stage_<pipeline>_<generation>_<batch>_<attempt>_<sink>``, where pipeline, attempt and sink are
short hashes, so that the name stays below the 63 bytes that Postgres keeps of a name. The generation tells the
janitor which tables are a dead driver's: age alone would not. A pipeline is told by its name and by where its ledger
is: one database may have two of a name, with ledgers in two schemas, and their generations say nothing of each other.
"""

from __future__ import annotations

import hashlib
from typing import Final

from directkafka.sinks.api import BatchName

__all__ = ["ended_staging_pattern", "staging_name", "stale_staging_pattern"]

_PREFIX: Final = "directkafka_stage"


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def staging_name(batch: BatchName, sink: str, ledger: str = "") -> str:
    """The staging table of one try of one batch for one sink; at most 60 bytes while ids have 20 digits.

    Args:
        batch: the try.
        sink: the sink's name.
        ledger: where the pipeline's ledger is, when that may be in several places.
    """
    attempt, output = _hash(batch.attempt, 6), _hash(sink, 6)
    return f"{_PREFIX}_{_pipeline(batch.pipeline, ledger)}_{batch.generation}_{batch.batch_id}_{attempt}_{output}"


def stale_staging_pattern(pipeline: str, ledger: str = "") -> str:
    """A regular expression that finds the generation in the names of this pipeline's staging tables."""
    return rf"^{_PREFIX}_{_pipeline(pipeline, ledger)}_(\d+)_\d+_[0-9a-f]{{6}}_[0-9a-f]{{6}}$"


def ended_staging_pattern(batch: BatchName, sink: str, ledger: str = "") -> str:
    """The same for the batch's number, in the names of its driver's staging tables for one sink."""
    pipeline = _pipeline(batch.pipeline, ledger)
    return rf"^{_PREFIX}_{pipeline}_{batch.generation}_(\d+)_[0-9a-f]{{6}}_{_hash(sink, 6)}$"


def _pipeline(name: str, ledger: str) -> str:
    return _hash(f"{ledger}\0{name}" if ledger else name, 10)
