"""Pipelines of a store: what its ledger says of each. Nothing is changed, and nothing is fenced."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from directkafka.errors import OptionError
from directkafka.pipeline.file import is_pipeline, pause_name
from directkafka.sinks.api import LedgerEntry, Store
from directkafka.sinks.commit import LedgerStore
from directkafka.sinks.ledger import row_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSummary:
    """One pipeline in one store.

    Attributes:
        pipeline: its name.
        generation: of the driver that committed last.
        batch_id: number of the last batch.
        partitions: how many it has read.
        rows: of all its batches, in all tables of the store.
        paused: whether it is paused.
        committed_at: when the last batch was committed, in ISO 8601, UTC.
    """

    pipeline: str
    generation: int
    batch_id: int
    partitions: int
    rows: int
    paused: bool
    committed_at: str

    @classmethod
    def of(cls, entry: LedgerEntry, *, is_paused: bool = False) -> PipelineSummary:
        """What an entry says."""
        return cls(
            pipeline=entry.pipeline,
            generation=entry.generation,
            batch_id=entry.batch_id,
            partitions=len(entry.progress),
            rows=row_count(entry.total_rows),
            paused=is_paused,
            committed_at=datetime.fromtimestamp(entry.committed_at_ms / 1000, UTC).isoformat(timespec="seconds"),
        )

    def as_record(self) -> dict[str, Any]:
        """For printing."""
        return asdict(self)


def has_driver(store: Store, pipeline: str) -> bool:
    """Whether a driver has ever fenced a store, or committed to it where that is all that it tells."""
    return store.state(pipeline).generation > 0 if isinstance(store, LedgerStore) else store.read(pipeline) is not None


def names_in(store: Store) -> tuple[str, ...]:
    """The names under which something was committed to a store: of pipelines, of their replays and pauses.

    Raises:
        OptionError: stores of this type do not tell.
    """
    try:
        return store.pipelines()
    except NotImplementedError as error:
        raise OptionError(option="--store", reason=str(error)) from None


def look_at_pipelines(store: Store) -> tuple[PipelineSummary, ...]:
    """The pipelines that have committed to a store, sorted by name, their replays left out.

    Raises:
        StoreError: the store cannot be read.
        SchemaMismatchError: an entry is of a newer format.
    """
    names = names_in(store)
    entries = [entry for name in names if is_pipeline(name) and (entry := store.read(name)) is not None]
    return tuple(PipelineSummary.of(entry, is_paused=pause_name(entry.pipeline) in names) for entry in entries)
