"""Changes, as columns: what became of a row, of the fields that Debezium's events have whatever the database.

An event has the row ``before`` and ``after`` the change, in ``op`` what happened to it (``c`` created, ``u`` updated,
``d`` deleted, ``r`` read by a snapshot, ``t`` its table truncated), and in ``source`` when and where the change stands
in the database's log. Behind each deleted row comes a tombstone: its key, and no value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.options.schemas.debezium import SOURCE_NAMES
from directkafka.payloads.debezium.positions import POSITION_FIELDS, positions_of

_MOMENT: Final = pa.timestamp("us", tz="UTC")
#: The fields of ``source`` that are read.
SOURCE_FIELDS: Final = tuple(
    next((field for field in POSITION_FIELDS if field.name == name), pa.field(name, pa.int64()))
    for name in SOURCE_NAMES
)
#: What may have happened to a row, and which field of the event has it then.
_SIDES: Final = {"c": "after", "u": "after", "r": "after", "d": "before", "t": ""}
_DELETE: Final = "d"
_INT64_MAX: Final = (1 << 63) - 1
_HINT: Final = (
    "it is no change event of Debezium (one that its ExtractNewRecordState has flattened is read with the format json "
    "or avro)"
)

#: Rows of the keys of some events, by their numbers: a key's columns are set, the others null; and what is wrong with
#: a key, by its place among them.
RowsOfKeys = Callable[[Any], tuple[pa.StructArray, dict[int, str]]]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes, a row for each event.

    Attributes:
        rows: the row as it became; of a deleted one what the event carries: the row as it was, or its key.
        op: what happened; null for a tombstone.
        deleted: whether the row is no more; never null.
        source_ts: when the change was made.
        position: grows with the database's log; null where nothing says it.
        problems: why an event cannot be read, by its number.
    """

    rows: pa.StructArray
    op: pa.Array
    deleted: pa.Array
    source_ts: pa.Array
    position: pa.Array
    problems: dict[int, str]

    def added(self) -> dict[str, pa.Array]:
        """The columns beside the row."""
        return {"op": self.op, "deleted": self.deleted, "source_ts": self.source_ts, "position": self.position}


def changes_of(events: pa.StructArray, tombstones: Any, problems: dict[int, str], rows_of_keys: RowsOfKeys) -> Changes:
    """The changes that events tell.

    Args:
        events: their fields ``after`` and ``op``, also ``before`` and ``source`` if there are any; null for tombstones.
        tombstones: which events are tombstones, an array of bool.
        problems: why an event could not be read, by its number.
        rows_of_keys: decodes the keys of deleted rows whose events do not carry them.
    """
    columns = dict(zip(events.type.names, events.flatten(), strict=True))
    after, op = columns["after"], columns["op"].cast(pa.string())
    before = columns.get("before", pa.nulls(len(events), after.type))
    source = columns.get("source", pa.nulls(len(events), pa.struct(SOURCE_FIELDS)))
    is_delete = pc.fill_null(pc.equal(op, _DELETE), False).to_numpy(zero_copy_only=False)
    has_row = before.is_valid().to_numpy(zero_copy_only=False)
    of_keys = np.flatnonzero(tombstones | is_delete & ~has_row)
    keys, wrong_keys = rows_of_keys(of_keys) if len(of_keys) else (pa.nulls(0, after.type), {})
    all_problems = {int(of_keys[index]): f"key: {problem}" for index, problem in wrong_keys.items()}
    # A tombstone says nothing new: whoever leaves it out need not have a key that can be read.
    all_problems = {number: problem for number, problem in all_problems.items() if not tombstones[number]}
    all_problems |= _problems_of(op, after, tombstones) | problems
    return Changes(
        rows=_rows(before, after, op, of_keys, keys),
        op=op,
        deleted=pa.array(is_delete | tombstones),
        source_ts=_moments(source),
        position=positions_of(source),
        problems=dict(sorted(all_problems.items())),
    )


def _problems_of(op: pa.Array, after: pa.Array, tombstones: Any) -> dict[int, str]:
    problems = {}
    known = pc.is_in(op, pa.array(list(_SIDES))).to_numpy(zero_copy_only=False)
    for number in np.flatnonzero(~known & ~tombstones).tolist():
        value = op[number].as_py()
        problems[number] = f"it has no op: {_HINT}" if value is None else f"op is {value[:20]!r}: {_HINT}"
    has_after = pc.is_in(op, pa.array([name for name, row in _SIDES.items() if row == "after"]))
    lacks = pc.and_(has_after, after.is_null()).to_numpy(zero_copy_only=False)
    for number in np.flatnonzero(lacks).tolist():
        problems[number] = f"op is {op[number].as_py()!r}, and there is no row in after"
    return problems


def _rows(
    before: pa.StructArray, after: pa.StructArray, op: pa.Array, of_keys: Any, keys: pa.StructArray
) -> pa.StructArray:
    """Of each event the row that it is about: as it became, as it was, or its key."""
    count = len(op)
    is_after = pc.is_in(op, pa.array([name for name, row in _SIDES.items() if row == "after"]))
    if pc.all(is_after).as_py():
        return after
    places = np.arange(count)
    is_delete = pc.fill_null(pc.equal(op, _DELETE), False).to_numpy(zero_copy_only=False)
    has_row = is_after.to_numpy(zero_copy_only=False) | is_delete
    places[is_delete] += count
    places[of_keys] = 2 * count + np.arange(len(of_keys))
    has_row[of_keys] = True
    return pa.concat_arrays([after, before, keys]).take(pa.array(places, mask=~has_row))


def _moments(source: pa.StructArray) -> pa.Array:
    fields = dict(zip(source.type.names, source.flatten(), strict=True))
    microseconds = [
        pc.multiply(_within(fields[name].cast(pa.int64()), _INT64_MAX // factor), factor)
        for name, factor in (("ts_us", 1), ("ts_ms", 1000))
        if name in fields
    ]
    return pc.coalesce(*microseconds).cast(_MOMENT) if microseconds else pa.nulls(len(source), _MOMENT)


def _within(numbers: pa.Array, limit: int) -> pa.Array:
    """The numbers, null in place of those that are further from 0."""
    is_near = pc.and_(pc.less_equal(numbers, limit), pc.greater_equal(numbers, -limit))
    return pc.if_else(is_near, numbers, pa.scalar(None, pa.int64()))
