"""Folding of a batch's rows for a merge: of all rows of a key, one that says what becomes of the key. Pure, in Arrow.

A Delta merge compares each row of the table with one row at most, so what the modes decide between the rows of one
batch is decided here, on the driver, which holds the batch for that.

A folded row of ``upsert`` has the table's columns, and beside them:

- :data:`GOES_IN`: whether the key has a row that is to be stored, and under :func:`own_order` the order of that row;
- :data:`DELETES`: whether the key is no more. If both are true, the row was stored and marked in one batch: the columns
  that a mark takes are the mark's already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.errors import RowRejectedError
from directkafka.sinks.deletes import OP, TRUNCATED, Deletes, null_order_reason
from directkafka.sinks.write_modes import WriteMode

GOES_IN: Final = "directkafka_goes_in"
DELETES: Final = "directkafka_deletes"

#: Sums are made in so many digits and have to fit the column afterwards; Arrow's own of whole numbers wrap round.
_SUM_DIGITS: Final = 76

_Places = npt.NDArray[np.int64]


def own_order(index: int) -> str:
    """The column with the order of the row that goes in, by the place of the column in the mode's order."""
    return f"directkafka_order_{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedBatch:
    """What a merge is given.

    Attributes:
        rows: one for each key.
        truncate: the last row that tells a TRUNCATE; None: there is none. All rows that it concerns are left out.
    """

    rows: pa.Table
    truncate: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """How a sink folds its batches.

    Attributes:
        mode: how rows meet those that are there: ``ignore``, ``upsert`` or ``merge``.
        store, sink: names for messages.
    """

    mode: WriteMode
    store: str
    sink: str

    def fold(self, rows: pa.Table) -> FoldedBatch:
        """Fold the rows of one batch.

        Args:
            rows: with the DataFrame's columns, in the order of the tasks.

        Raises:
            RowRejectedError: nulls where the mode needs a value, rows that nothing decides between, sums that do not
                fit.
        """
        rows, truncate = self._after_truncate(rows)
        self._refuse_nulls(rows)
        match self.mode.name:
            case "ignore":
                return FoldedBatch(rows=self._first_rows(rows))
            case "merge":
                return FoldedBatch(rows=self._sums(rows))
            case _:
                return FoldedBatch(rows=self._winners(rows), truncate=truncate)

    def _after_truncate(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """The rows that are newer than the last TRUNCATE, and that."""
        if self.mode.deletes is None or not self.mode.deletes.truncates:
            return rows, None
        truncates = rows.filter(pc.fill_null(pc.equal(rows.column(OP), TRUNCATED), False))
        if not truncates.num_rows:
            return rows, None
        self._refuse_null_in(truncates, self.mode.order, null_order_reason(self.mode.order))
        last = _sorted(truncates, self.mode.order).slice(truncates.num_rows - 1)
        is_newer = pc.invert(pc.fill_null(_is_not_newer(rows, last, self.mode.order), False))
        return rows.filter(is_newer), last

    def _refuse_nulls(self, rows: pa.Table) -> None:
        for names, reason in self.mode.null_reasons().items():
            self._refuse_null_in(rows, names, reason)

    def _refuse_null_in(self, rows: pa.Table, names: Sequence[str], reason: str) -> None:
        is_null = np.zeros(rows.num_rows, dtype=bool)
        for name in names:
            is_null |= pc.is_null(rows.column(name)).to_numpy()
        if null_count := int(is_null.sum()):
            self._refuse(f"{null_count} rows have a null {reason}")

    def _first_rows(self, rows: pa.Table) -> pa.Table:
        """Of each key the row that came first."""
        ranked = _sorted(rows, self.mode.key)
        return ranked.take(np.flatnonzero(np.concatenate([[True], ~_is_as_next(ranked, self.mode.key)])[: len(ranked)]))

    def _sums(self, rows: pa.Table) -> pa.Table:
        """Of each key the sums; a null counts as zero."""
        names = (*self.mode.key, *self.mode.add)
        columns = [rows.column(name) for name in self.mode.key] + [_addend(rows.column(name)) for name in self.mode.add]
        # Names are numbers here: Arrow takes some names for paths.
        keys, added = _numbered(0, len(self.mode.key)), _numbered(len(self.mode.key), len(names))
        grouped = pa.table(dict(zip(keys + added, columns, strict=True))).group_by(keys)
        summed = grouped.aggregate([(name, "sum") for name in added])
        result_columns = [summed.column(name) for name in keys]
        for name, label in zip(added, self.mode.add, strict=True):
            kind = rows.schema.field(label).type
            try:
                result_columns.append(pc.cast(pc.fill_null(summed.column(f"{name}_sum"), 0), kind))
            except pa.ArrowInvalid as error:
                self._refuse(f"the sum of {label} over the rows of one key does not fit its type {kind} ({error})")
        return pa.table(result_columns, names=list(names))

    def _winners(self, rows: pa.Table) -> pa.Table:
        """Of each key the row that its order puts last; of soft deletes, that of rows and that of marks, as one."""
        mode, deletes = self.mode, self.mode.deletes
        ranked = _sorted(rows, (*mode.key, *mode.order))
        is_as_next, top = _is_as_next(ranked, mode.key), self._last_of_each(ranked)
        if deletes is not None and deletes.is_soft and mode.order:
            # Below a mark a row is stored as well, so two of them must not be equal either.
            for is_wanted in (ranked.column(deletes.column), pc.invert(ranked.column(deletes.column))):
                self._last_of_each(ranked.filter(is_wanted))
        row, mark = _rows_and_marks(ranked, is_as_next, top, deletes)
        base = np.where(row >= 0, row, mark)
        taken = np.where(mark > row, mark, base)
        names = mode.stored(rows.schema).names
        marked = set() if deletes is None else set(deletes.taken(mode.order))
        folded = {name: ranked.column(name).take(taken if name in marked else base) for name in names}
        folded |= {own_order(index): ranked.column(name).take(base) for index, name in enumerate(mode.order)}
        return pa.table(folded | {GOES_IN: pa.array(row >= 0), DELETES: pa.array(mark > row)})

    def _last_of_each(self, ranked: pa.Table) -> _Places:
        """Of rows that are sorted, the last place of each key; nothing may be equal to what is there."""
        is_as_next = _is_as_next(ranked, self.mode.key)
        top = np.flatnonzero(np.concatenate([~is_as_next, [True]])[: len(ranked)])
        self._refuse_ties(ranked, is_as_next, top)
        return top

    def _refuse_ties(self, ranked: pa.Table, is_as_next: npt.NDArray[np.bool_], top: _Places) -> None:
        """Refuse rows of one key that nothing puts after another; rows that are all key are equal."""
        mode = self.mode
        if mode.deletes is None and set(ranked.schema.names) == set(mode.key):
            return
        is_tie = is_as_next & _is_as_next(ranked, mode.order)
        ties = top[(top > 0) & np.concatenate([[False], is_tie])[top]] if len(top) else top
        if not len(ties):
            return
        last = first = int(ties[0])
        while first and is_tie[first - 1]:
            first -= 1
        values = [ranked.column(name)[last].as_py() for name in mode.key]
        self._refuse(mode.double_key(values, last - first + 1))

    def _refuse(self, detail: str) -> NoReturn:
        raise RowRejectedError(store=self.store, sink=self.sink, detail=detail)


def _rows_and_marks(
    ranked: pa.Table, is_as_next: npt.NDArray[np.bool_], top: _Places, deletes: Deletes | None
) -> tuple[_Places, _Places]:
    """For each key the places of the row that goes in and of the row that deletes; -1 where there is none."""
    if deletes is None:
        return top, np.full(len(top), -1)
    is_deleted = ranked.column(deletes.column).to_numpy()
    if not deletes.is_soft:
        return np.where(is_deleted[top], -1, top), np.where(is_deleted[top], top, -1)
    key = np.cumsum(np.concatenate([[0], ~is_as_next])[: len(ranked)]).astype(np.int64)
    row, mark = np.full(len(top), -1), np.full(len(top), -1)
    # The rows of a key come in their order, so the highest place is the last of them.
    for places, is_wanted in ((row, ~is_deleted), (mark, is_deleted)):
        np.maximum.at(places, key[is_wanted], np.flatnonzero(is_wanted))
    return row, mark


def _sorted(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """By columns, from the left; equal rows as they came."""
    keys = pa.table({number: rows.column(name) for number, name in zip(_numbered(0, len(names)), names, strict=True)})
    return rows.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.schema.names]))


def _is_as_next(rows: pa.Table, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """For each row but the last whether the next one is equal to it in some columns."""
    is_equal = np.ones(max(rows.num_rows - 1, 0), dtype=bool)
    for name in names:
        column = rows.column(name)
        is_equal &= pc.fill_null(pc.equal(column.slice(0, len(is_equal)), column.slice(1)), False).to_numpy()
    return is_equal


def _is_not_newer(rows: pa.Table, last: pa.Table, order: Sequence[str]) -> pa.ChunkedArray:
    """Whether rows are not newer than one row, by their order."""
    is_not_newer = None
    for name in reversed(order):
        column, bound = rows.column(name), last.column(name)[0]
        is_equal = pc.equal(column, bound)
        is_not_newer = pc.or_(
            pc.less(column, bound), is_equal if is_not_newer is None else pc.and_(is_equal, is_not_newer)
        )
    return is_not_newer


def _addend(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that can be summed without wrapping round."""
    kind = column.type
    if pa.types.is_integer(kind):
        return pc.cast(pc.cast(column, pa.int64()), pa.decimal256(_SUM_DIGITS, 0))
    return pc.cast(column, pa.decimal256(_SUM_DIGITS, kind.scale)) if pa.types.is_decimal(kind) else column


def _numbered(start: int, end: int) -> list[str]:
    return [f"c{number}" for number in range(start, end)]
