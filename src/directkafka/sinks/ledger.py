"""Ledger entries, for all stores: their JSON, their counts of rows, and the checks of a commit.

No I/O here, except in :func:`doubled_records`. The JSON form is part of the ledger's format
(:data:`~directkafka.sinks.api.FORMAT_VERSION`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from directkafka.errors import FencedError, OffsetMismatchError, RowCountError, SchemaMismatchError
from directkafka.offsets import PartitionProgress
from directkafka.sinks.api import FORMAT_VERSION, LedgerEntry

# Where sinks of other packages have it from.
from directkafka.sinks.capabilities import TableCount as TableCount  # noqa: PLC0414 - it is meant to be had from here

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from _typeshed import DataclassInstance

#: A key of ``total_rows`` beside the sinks' names: the number of offsets that were read of deleted topics, which are no
#: longer in ``progress``.
FORGOTTEN = "(offsets of deleted topics)"

#: The same for offsets that were never read, since a reset has skipped them.
SKIPPED = "(offsets that a reset skipped)"

#: The same for records that made their batch fail and were set apart.
ALL_SET_APART = "(records set apart)"

#: The batch id of a ledger in which nothing is committed.
NO_BATCH = -1

#: Keys of ``total_rows`` that are no sink's.
OFFSET_COUNTS = frozenset({FORGOTTEN, SKIPPED, ALL_SET_APART})

#: Keys of ``row_counts`` that are no sink's, by column: the id of the registry's schema that the batch was read with.
SCHEMA_IDS: Final = {"value": "(schema id of value)", "key": "(schema id of key)"}

#: A key of ``row_counts`` that is no sink's: the batch has taken dead letters out of their table.
TAKEN_OUT: Final = "(dead letters taken out)"

#: In ``row_counts``, before the name of each record that the batch went without; see :func:`records_set_apart`.
SET_APART: Final = "(set apart) "


def row_count(total_rows: Mapping[str, int]) -> int:
    """The rows of all sinks; offsets that were not read are no rows."""
    return sum(rows for sink, rows in total_rows.items() if sink not in OFFSET_COUNTS)


def sink_rows(entry: LedgerEntry) -> dict[str, int]:
    """The rows of an entry's batch by sink name; ids of schemas and records that were set apart are no rows."""
    return {name: rows for name, rows in entry.row_counts.items() if not _is_note(name)}


def _is_note(name: str) -> bool:
    return name in SCHEMA_IDS.values() or name == TAKEN_OUT or name.startswith(SET_APART)


def schema_ids(entry: LedgerEntry) -> dict[str, int]:
    """The ids of the registry's schemas that an entry's batch was read with, by column."""
    counts = entry.row_counts
    return {column: counts[name] for column, name in SCHEMA_IDS.items() if name in counts}


def records_set_apart(entry: LedgerEntry) -> tuple[str, ...]:
    """The records that an entry's batch went without, as texts: ``topic-partition@offset``."""
    return tuple(name.removeprefix(SET_APART) for name in entry.row_counts if name.startswith(SET_APART))


def replayed(entry: LedgerEntry) -> LedgerEntry:
    """An entry that is about to be committed, of a batch of dead letters; a plan of such batches is none."""
    return replace(entry, row_counts={**entry.row_counts, TAKEN_OUT: 1})


def is_replayed(entry: LedgerEntry) -> bool:
    """Whether it is what :func:`replayed` gives; entries of earlier versions are not."""
    return TAKEN_OUT in entry.row_counts


def with_notes(entry: LedgerEntry, *, schema_ids: Mapping[str, int], set_apart: Iterable[str] = ()) -> LedgerEntry:
    """An entry that is about to be committed, with what its batch must be done again by in another store.

    Args:
        entry: the entry.
        schema_ids: the ids of the schemas that the batch is read with, by column.
        set_apart: the records that it goes without, see :func:`records_set_apart`.
    """
    notes = {SCHEMA_IDS[column]: number for column, number in schema_ids.items()}
    return replace(entry, row_counts=notes | {SET_APART + record: 1 for record in set_apart})


Checked = TypeVar("Checked", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineState:
    """Who owns a pipeline, and its last batch.

    Attributes:
        generation: the newest fence's; 0 before the first fence.
        driver: id of the driver that fenced, for stores that must tell their own fence from another driver's.
        entry: the last committed batch's; None before batch 0.
        commit_id: the id of that batch's commit; empty before batch 0.
    """

    generation: int = 0
    driver: str = ""
    entry: LedgerEntry | None = None
    commit_id: str = ""


def progress_to_json(progress: Iterable[PartitionProgress]) -> list[dict[str, Any]]:
    """One object per partition, sorted, so that equal progress is equal JSON."""
    return [asdict(partition) for partition in sorted(progress)]


def progress_from_json(items: Iterable[Mapping[str, Any]]) -> tuple[PartitionProgress, ...]:
    """The reverse of :func:`progress_to_json`."""
    return tuple(sorted(check_fields(PartitionProgress(**item)) for item in items))


def entry_to_json(entry: LedgerEntry) -> dict[str, Any]:
    """An entry as plain values, for stores that keep it as a document."""
    return asdict(entry) | {"progress": progress_to_json(entry.progress)}


def entry_from_json(document: Mapping[str, Any]) -> LedgerEntry:
    """The reverse of :func:`entry_to_json`; of a later format without the progress, for :func:`check_format` to refuse.

    Raises:
        ValueError: it is no entry.
    """
    try:
        known = {field.name for field in fields(LedgerEntry)}
        values = {name: value for name, value in document.items() if name in known}
        is_known = document["format_version"] <= FORMAT_VERSION
        progress = progress_from_json(document["progress"]) if is_known else ()
        return check_fields(LedgerEntry(**values | {"progress": progress}))
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no ledger entry ({type(error).__name__}: {error})") from error


def state_to_json(state: PipelineState) -> dict[str, Any]:
    """A pipeline's state as plain values."""
    entry = None if state.entry is None else entry_to_json(state.entry)
    return {"generation": state.generation, "driver": state.driver, "commit_id": state.commit_id, "entry": entry}


def state_from_json(document: Mapping[str, Any], *, store: str) -> PipelineState:
    """The reverse of :func:`state_to_json`; names beside its own are passed over.

    Raises:
        SchemaMismatchError: the entry is of a newer format.
        ValueError, LookupError, TypeError: it is no state.
    """
    values = {field.name: document[field.name] for field in fields(PipelineState)}
    if values["entry"] is not None:
        values["entry"] = unless_dropped(check_format(entry_from_json(values["entry"]), store=store))
    return check_fields(PipelineState(**values))


def state_from_row(row: Mapping[str, Any], *, store: str) -> PipelineState:
    """The state in a row of a ledger's table: an entry's fields and ``commit_id``.

    ``generation`` is the fence's there, and ``batch_generation`` the entry's.

    Raises:
        SchemaMismatchError: the entry is of a newer format.
        ValueError: it is no entry.
    """
    if row["batch_id"] < 0:
        return PipelineState(generation=row["generation"], commit_id=row["commit_id"])
    entry = check_format(entry_from_json({**row, "generation": row["batch_generation"]}), store=store)
    return PipelineState(generation=row["generation"], entry=entry, commit_id=row["commit_id"])


def check_fields(value: Checked) -> Checked:
    """Refuse a dataclass value that has something else in a field of type ``int`` or ``str``; returns the value.

    Raises:
        TypeError: names the first such field.
    """
    for checked in fields(value):
        type_name = type(getattr(value, checked.name)).__name__
        if checked.type in ("int", "str") and type_name != checked.type:
            raise TypeError(f"{checked.name} is of type {type_name}")
    return value


def dropped(entry: LedgerEntry) -> LedgerEntry:
    """What takes an entry's place when its pipeline is dropped: a ledger in which nothing was ever committed.

    Only the generation stays, so that drivers of before are fenced for good.
    """
    return LedgerEntry(
        pipeline=entry.pipeline,
        generation=entry.generation,
        lineage="",
        batch_id=NO_BATCH,
        progress=(),
        committed_at_ms=entry.committed_at_ms,
    )


def is_dropped(entry: LedgerEntry) -> bool:
    """Whether it is what :func:`dropped` gives."""
    return (entry.batch_id, entry.lineage, entry.progress) == (NO_BATCH, "", ())


def unless_dropped(entry: LedgerEntry) -> LedgerEntry | None:
    """The entry, or None where the pipeline was dropped."""
    return None if is_dropped(entry) else entry


def describe_entry(entry: LedgerEntry | None) -> str:
    """Batch, lineage and ends in one line, for messages that name both sides."""
    if entry is None:
        return "no batch committed"
    ends = ", ".join(f"{partition.topic_partition}: {partition.end}" for partition in sorted(entry.progress))
    return f"batch {entry.batch_id} of lineage {entry.lineage or '(none)'}, ends {{{ends}}}"


def check_successor(entry: LedgerEntry, previous: LedgerEntry | None, *, store: str) -> None:
    """Refuse an entry that does not follow the previous one: within a lineage, its batch id must be one higher.

    That of a pipeline that is dropped (:func:`dropped`) follows any.

    Raises:
        OffsetMismatchError: the batch id is negative or not the next one.
    """
    follows = previous is None or previous.lineage != entry.lineage
    if is_dropped(entry):
        return
    if entry.batch_id < 0 or not (follows or (previous and entry.batch_id == previous.batch_id + 1)):
        raise OffsetMismatchError(
            store=store,
            pipeline=entry.pipeline,
            batch_id=entry.batch_id,
            expected=f"batch {entry.batch_id - 1}",
            found=describe_entry(previous),
        )


def check_stands(entry: LedgerEntry, previous: LedgerEntry | None, state: PipelineState, *, store: str) -> None:
    """Refuse a commit that the ledger's state does not fit: for stores without a conditional update, and after a lost
    answer.

    Args:
        entry: the new entry.
        previous: the entry that it continues; None when it is the pipeline's first.
        state: what the store says now.
        store: the store's label.

    Raises:
        FencedError: a newer driver owns the pipeline.
        OffsetMismatchError: the last entry is not ``previous``, or the ledger's generation is lower than ours.
    """
    if state.generation > entry.generation:
        raise FencedError(store=store, pipeline=entry.pipeline, held=entry.generation, found=state.generation)
    if state.generation != entry.generation or _position(state.entry) != _position(previous):
        raise mismatch(entry, previous, state, store=store)


def mismatch(
    entry: LedgerEntry, previous: LedgerEntry | None, state: PipelineState, *, store: str
) -> OffsetMismatchError:
    """The error for a ledger that does not stand at ``previous``, with both sides; see :func:`check_stands`."""
    description = describe_entry(state.entry) if state.generation else "no fence of this pipeline"
    if 0 < state.generation < entry.generation:
        description += f", generation {state.generation} (an older state of the ledger was restored)"
    return OffsetMismatchError(
        store=store,
        pipeline=entry.pipeline,
        batch_id=entry.batch_id,
        expected=describe_entry(previous) + f", generation {entry.generation}",
        found=description,
    )


def _position(entry: LedgerEntry | None) -> tuple[object, ...]:
    return () if entry is None else (entry.batch_id, entry.lineage, tuple(sorted(entry.progress)))


def check_format(entry: LedgerEntry, *, store: str) -> LedgerEntry:
    """Refuse an entry that a newer program wrote in a format this one does not know.

    Raises:
        SchemaMismatchError: naming both versions.
    """
    check_version(entry.format_version, entry.pipeline, store=store)
    return entry


def check_version(format_version: int, pipeline: str, *, store: str) -> None:
    """:func:`check_format` for a store that must check the version before it can parse an entry.

    Raises:
        SchemaMismatchError: naming both versions.
    """
    if format_version > FORMAT_VERSION:
        raise SchemaMismatchError(
            store=store,
            sink=f"the ledger entry of pipeline {pipeline!r}",
            detail=f"format version {format_version} is newer than this program's "
            f"{FORMAT_VERSION}; run the version of directkafka that wrote it, or a later one",
        )


def check_count(*, store: str, sink: str, reported: int, stored: int) -> None:
    """Refuse a batch whose rows in the store are not those that its tasks reported.

    Raises:
        RowCountError: the two numbers differ.
    """
    if reported != stored:
        raise RowCountError(store=store, sink=sink, reported=reported, found=stored)


def with_counts(entry: LedgerEntry, previous: LedgerEntry | None, row_counts: Mapping[str, int]) -> LedgerEntry:
    """The entry with this batch's rows by sink, and the totals carried on from the entry before it.

    What the entry has as totals already is added to them: offsets that a reset skips. Its notes stay.
    """
    totals = dict(previous.total_rows) if previous and not is_dropped(entry) else {}
    if forgotten := _forgotten(entry, previous):
        totals[FORGOTTEN] = totals.get(FORGOTTEN, 0) + sum(partition.end - partition.origin for partition in forgotten)
    set_apart = {ALL_SET_APART: number} if (number := len(records_set_apart(entry))) else {}
    for name, count in (*entry.total_rows.items(), *row_counts.items(), *set_apart.items()):
        totals[name] = totals.get(name, 0) + count
    kept = {name: number for name, number in entry.row_counts.items() if _is_note(name)}
    return replace(entry, row_counts=kept | dict(row_counts), total_rows=totals)


def _forgotten(entry: LedgerEntry, previous: LedgerEntry | None) -> list[PartitionProgress]:
    """The partitions that the previous entry has and this one no longer has.

    Empty for a replay's entry, which has no partitions, and for one of another lineage (another checkpoint), which may
    have other partitions.
    """
    if previous is None or not entry.progress or entry.lineage != previous.lineage:
        return []
    kept = entry.ends()
    return [partition for partition in previous.progress if partition.topic_partition not in kept]


#: Columns that name a Kafka record.
_RECORD: Final = ("topic", "partition", "offset")


def doubled_records(dataset: ds.Dataset) -> int:
    """The number of rows beyond the first that name the same record; 0 where no columns name records."""
    if not set(_RECORD) <= set(dataset.schema.names):
        return 0
    records = dataset.to_table(columns=list(_RECORD))
    return int(records.num_rows - records.group_by(list(_RECORD)).aggregate([]).num_rows)
