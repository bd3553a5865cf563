"""Staging of large batches: names that say who owns them, and which rows are few enough to need none.

``directkafka_stage_<pipeline>_<generation>_<batch>_<attempt>_<sink>``, where pipeline, attempt and sink are
short hashes, so that the name stays within the 63 bytes that Postgres keeps of a name. The generation tells the
janitor which tables are a dead driver's: age alone would not. A pipeline is told by its name and by where its ledger
is: one database may have two of a name, with ledgers in two schemas, and their generations say nothing of each other.
"""

from __future__ import annotations

import functools
import hashlib
import math
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.sinks.api import BatchAttempt, EncodedRows, TaskReport
from directkafka.sinks.write_modes import WriteMode

_PREFIX: Final = "directkafka_stage"


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def staging_name(batch: BatchAttempt, sink: str, ledger: str = "") -> str:
    """The staging table of a try of a batch for a sink; 63 bytes if both ids together have 19 digits.

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


def ended_staging_pattern(batch: BatchAttempt, sink: str, ledger: str = "") -> str:
    """The same for the batch's number, in the names of its driver's staging tables for one sink."""
    pipeline = _pipeline(batch.pipeline, ledger)
    return rf"^{_PREFIX}_{pipeline}_{batch.generation}_(\d+)_[0-9a-f]{{6}}_{_hash(sink, 6)}$"


def _pipeline(name: str, ledger: str) -> str:
    return _hash(f"{ledger}\0{name}" if ledger else name, 10)


InlineRows = tuple[pa.RecordBatch, ...]

#: The share of a task's room that a merge's rows may take after they were folded, for them to be folded once more.
_FOLDED_SHARE_MAX: Final = 0.5


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The rows that a task has to hand over.

    Attributes:
        batches: a tuple if they are few, else an iterator that lets go of each batch when the next one is asked for.
        folded: how many more rows there were, which a merge has added to these.
    """

    batches: InlineRows | Iterator[pa.RecordBatch]
    folded: int = 0


def buffer(
    batches: Iterable[pa.RecordBatch], *, bytes_max: int, row_bytes: int = 0, mode: WriteMode | None = None
) -> TaskRows:
    """Hold a task's rows while they are few; those of a merge are folded, so that many rows of few keys are few.

    Args:
        batches: of one task.
        bytes_max: up to so many bytes are few.
        row_bytes: what the store's own form has in each row beside the values, counted with Arrow's bytes.
        mode: how rows meet those that are there; the rows of a merge are folded. None: nothing is folded.
    """
    merge = mode if mode is not None and mode.name == "merge" else None
    coming = (batch for batch in batches if batch.num_rows)
    held: deque[pa.RecordBatch] = deque()
    held_bytes = rows = 0
    for batch in coming:
        held.append(batch)
        rows += batch.num_rows
        held_bytes += batch.nbytes + row_bytes * batch.num_rows
        if held_bytes > bytes_max and merge is not None:
            held = _folded(held, merge)
            held_bytes = sum(kept.nbytes + row_bytes * kept.num_rows for kept in held)
            # With less room, the rows would be folded again and again, each time to little avail.
            merge = merge if held_bytes <= bytes_max * _FOLDED_SHARE_MAX else None
        if held_bytes > bytes_max:
            return TaskRows(_drain(held, coming), rows - _count(held))
    if merge is not None and held:
        held = _folded(held, merge)
    return TaskRows(tuple(held), rows - _count(held))


def report_inline(few: InlineRows, folded: int = 0) -> TaskReport:
    """The report of a task that hands its rows over as they are."""
    return TaskReport(rows=_count(few) + folded, attempt=uuid.uuid4().hex, staged=False, folded=folded, inline=few)


def report_encoded(
    few: InlineRows, encode: Callable[[str, pa.RecordBatch], Iterable[bytes | memoryview]], folded: int = 0
) -> TaskReport:
    """The report of a task that hands its rows over in the store's own bytes.

    Args:
        few: the rows.
        encode: makes the bytes of a batch, given the attempt's UUID as hex.
        folded: see :class:`TaskRows`.
    """
    attempt = uuid.uuid4().hex
    if not few:
        return TaskReport(rows=0, attempt=attempt, staged=False)
    chunks = tuple(bytes(chunk) for batch in few for chunk in encode(attempt, batch))
    encoded = EncodedRows(row_count=_count(few), chunks=chunks)
    return TaskReport(rows=_count(few) + folded, attempt=attempt, staged=False, folded=folded, encoded=encoded)


def _folded(held: deque[pa.RecordBatch], merge: WriteMode) -> deque[pa.RecordBatch]:
    return deque(fold(pa.Table.from_batches(held), merge.key, merge.add).to_batches())


def _count(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(int(batch.num_rows) for batch in batches)


def _drain(held: deque[pa.RecordBatch], coming: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while held:
        yield held.popleft()
    yield from coming


def fold(table: pa.Table, key: Sequence[str], add: Sequence[str]) -> pa.Table:
    """One row per key with the sums of ``add``, in the same types; the table itself where a sum may not fit.

    Addition in Arrow wraps round silently, so a sum is only taken where it cannot: the database, which adds up the rows
    that stay apart, raises. Rows with a null in their key stay apart too: the database counts what it refuses. So do
    those of a nested key, by which Arrow does not group.
    """
    is_nested = any(pa.types.is_nested(table.schema.field(name).type) for name in key)
    if is_nested or not all(_sum_fits(table.column(name)) for name in add):
        return table
    if any(table.column(name).null_count for name in key):
        has_key = functools.reduce(pc.and_, [pc.is_valid(table.column(name)) for name in key])
        return pa.concat_tables([fold(table.filter(has_key), key, add), table.filter(pc.invert(has_key))])
    # Arrow takes a point in a name for a path, and names a sum after its column, as another column may be named.
    names = table.schema.names
    numbered = table.unify_dictionaries().rename_columns(list(map(str, range(len(names)))))
    sums = numbered.group_by([str(names.index(name)) for name in key]).aggregate(
        [(str(names.index(name)), "sum") for name in add]
    )
    columns = [sums.column(f"{number}_sum" if name in add else str(number)) for number, name in enumerate(names)]
    return pa.table(columns, names=names).cast(table.schema)


def _sum_fits(column: pa.ChunkedArray) -> bool:
    """Whether no sum of any of the values can leave the column's own type."""
    kind = column.type
    if not (pa.types.is_float64(kind) or pa.types.is_integer(kind)):
        return False
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    largest = max(high, -low) * len(column)
    if pa.types.is_float64(kind):
        return math.isfinite(largest)
    return bool(largest < 2 ** (kind.bit_width - pa.types.is_signed_integer(kind)))
