"""Write modes: how a batch's rows are combined with the rows that a table already has.

``append``: the rows are inserted. ``ignore``: rows that violate a unique index are left out. ``upsert``: a row replaces
the row with its key. ``merge``: numbers are added to the row with the key. ``replace``: the batch's rows become the
whole table.

If rows of one batch violate a unique index among themselves, ``ignore`` keeps the first: tasks count in the order of
Spark's partitions, a task's rows as they come. Without a shuffle in the transform, this is the order of topic,
partition and offset, and the same row is kept as if the batch had ended between the two. After a shuffle Spark's rows
have no order: use ``upsert`` with ``order`` to say which row is kept.

What is in the table must not depend on where one batch ends and the next begins. So ``order`` decides between two rows
with one key in the same way whether both are in one batch or one of them is in the table already: the higher row stays,
and of two equal rows in two batches the later. Two rows with one key in one batch are an error if nothing decides
between them. Rows of ``upsert`` may also say that their key is no more (:mod:`directkafka.sinks.deletes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from directkafka.errors import OptionError, RowRejectedError
from directkafka.sinks.deletes import OP, DeleteHow, Deletes, null_delete_reason, null_key_reason, null_order_reason

Mode = Literal["append", "ignore", "upsert", "merge", "replace"]

_KEYED: frozenset[str] = frozenset({"ignore", "upsert", "merge"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMode:
    """A mode with its columns, checked.

    Attributes:
        name: the mode.
        key: columns that say which rows are the same.
        add: columns that ``merge`` adds up; a null counts as zero.
        order: columns of ``upsert``, compared from the left; the row with the higher values stays.
        deletes: of ``upsert``, which rows delete others; None: none do.
    """

    name: Mode = "append"
    key: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    deletes: Deletes | None = None

    @classmethod
    def parse(
        cls,
        mode: str,
        *,
        key: Sequence[str] | None,
        add: Sequence[str] | None,
        order: Sequence[str] | None,
        delete: str | None = None,
        delete_how: DeleteHow = "hard",
        delete_time: str | None = None,
        truncate: bool = False,
        where: str,
    ) -> WriteMode:
        """Check that mode and columns make sense together.

        Args:
            mode: its name.
            key, add, order, delete, delete_how, delete_time, truncate: as the user gave them.
            where: what the options belong to, for messages.

        Raises:
            OptionError: they do not; the message names the option.
        """
        problem = _problem(mode, key, add, order)
        if problem is None and delete is None:
            problem = _needless(delete_how=delete_how != "hard", delete_time=delete_time, truncate=truncate)
        deletes = None
        if problem is None and delete is not None:
            deletes = Deletes(column=delete, how=delete_how, time=delete_time, truncates=truncate)
            problem = _problem_of_deletes(deletes, mode, key or (), order or ())
        if problem is not None:
            raise OptionError(option=problem[0], where=where, reason=problem[1])
        name = next(known for known in get_args(Mode) if known == mode)
        return cls(name=name, key=tuple(key or ()), add=tuple(add or ()), order=tuple(order or ()), deletes=deletes)

    @property
    def controls(self) -> tuple[str, ...]:
        """The columns that say what is done with a row, and are not stored."""
        return () if self.deletes is None else self.deletes.controls

    @property
    def removes_rows(self) -> bool:
        """Whether rows of the table may be gone after a batch of ``upsert``."""
        return self.deletes is not None and not self.deletes.is_soft

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """The columns that go into the table.

        Args:
            schema: the DataFrame's.
        """
        return pa.schema([field for field in schema if field.name not in self.controls])

    @property
    def adds_rows(self) -> bool:
        """Whether every row of a batch becomes one of the table, so that none has to be compared with others."""
        return self.name in ("append", "replace")

    @property
    def is_folded(self) -> bool:
        """Whether the table's number of rows says little about the number that was written."""
        return self.name != "append"

    def null_reasons(self) -> dict[tuple[str, ...], str]:
        """Why a null is refused in some columns, by these, where a unique index counts nulls as different."""
        reason = (
            f"in the key {', '.join(self.key)}, and a unique index counts nulls as different: filter them out in the "
        )
        reasons = {self.key: f"{reason}transform", self.order: null_order_reason(self.order)}
        if self.deletes is not None:
            reasons[self.key] = null_key_reason(self.key, self.deletes)
            reasons[self.deletes.column,] = null_delete_reason(self.deletes)
        return {columns: reason for columns, reason in reasons.items() if columns}

    def column_problems(self, schema: pa.Schema) -> list[str]:
        """What is wrong with the mode's columns in a DataFrame of this schema, one sentence each."""
        named = (*self.key, *self.add, *self.order)
        missing = [name for name in dict.fromkeys(named) if name not in schema.names]
        problems = [f"the DataFrame has no column {name!r} (key, add, order)" for name in missing]
        if self.deletes is not None:
            problems += self.deletes.column_problems(schema)
        if self.name == "merge":
            problems += [
                f"column {name!r} is neither key nor add: merge would not know which row's to keep"
                for name in schema.names
                if name not in named
            ]
        return problems

    def double_key(self, values: Sequence[object], count: int) -> str:
        """The message for a key that ``count`` rows of one batch have, if nothing decides between these rows."""
        key = ", ".join(f"{name} = {value!r}" for name, value in zip(self.key, values, strict=True))
        equal = f"equal in {', '.join(self.order)}, " if self.order else ""
        return (
            f"{count} rows of one batch have the key {key}, {equal}and nothing says which one is newer: name columns "
            "that do in order = [...], for example the record's offset, or keep one row per key in the transform"
        )


def check_taken(*, store: str, sink: str, sent: int, taken: int, triggers: Sequence[str]) -> None:
    """Refuse a batch if the table itself left out rows: they would count as committed, and be stored nowhere.

    Args:
        store, sink: for the message.
        sent: number of rows that were to be inserted or changed.
        taken: number of rows that were, as the database says.
        triggers: names of the table's triggers.

    Raises:
        RowRejectedError: the numbers differ.
    """
    if sent == taken:
        return
    who = f"a trigger of its own ({', '.join(triggers)})" if triggers else "something of its own"
    raise RowRejectedError(
        store=store,
        sink=sink,
        detail=f"the table took {taken} of {sent} rows, {who} left out the others: leave them out in the transform, so "
        "that it can be seen, or let the table keep them",
    )


def check_left(*, store: str, sink: str, left: int, triggers: Sequence[str]) -> None:
    """Refuse to replace or delete a table's rows if the table has kept some of them.

    Args:
        store, sink: for the message.
        left: number of rows that are still there after the delete.
        triggers: names of the table's triggers.

    Raises:
        RowRejectedError: there are such rows.
    """
    if left:
        raise RowRejectedError(
            store=store,
            sink=sink,
            detail=f"the table kept {left} rows that were to be replaced or deleted (triggers of its own: "
            f"{', '.join(triggers)}): let them be deleted, or use another mode or delete_how",
        )


def _problem(
    mode: str, key: Sequence[str] | None, add: Sequence[str] | None, order: Sequence[str] | None
) -> tuple[str, str] | None:
    """The first option that makes no sense, and why."""
    for name, columns in {"key": key, "add": add, "order": order}.items():
        if isinstance(columns, str):
            return name, f"a list of columns is expected, found the text {columns!r}: write [{columns!r}]"
    known = ", ".join(get_args(Mode))
    rules = (
        (mode not in get_args(Mode), "mode", f"{mode!r} is none of {known}"),
        (mode == "merge" and not (key and add), "mode", "merge needs key = [...] and add = [...]"),
        (mode == "upsert" and not key, "mode", "upsert needs key = [...]"),
        (key and mode not in _KEYED, "key", f"{mode} has no use for a key: write mode = 'ignore', 'upsert' or 'merge'"),
        (add and mode != "merge", "add", "only mode = 'merge' adds"),
        (order and mode != "upsert", "order", "only mode = 'upsert' asks which of two rows is the newer one"),
        (set(key or ()) & set(add or ()), "add", "a column is either key or add"),
        (set(key or ()) & set(order or ()), "order", "the rows of one key are equal in a column of the key"),
    )
    return next(((option, reason) for is_wrong, option, reason in rules if is_wrong), None)


def _needless(**options: object) -> tuple[str, str] | None:
    """The first option that means nothing without ``delete``, and why."""
    return next(((name, "is for a sink with delete = 'column'") for name, given in options.items() if given), None)


def _problem_of_deletes(
    deletes: Deletes, mode: str, key: Sequence[str], order: Sequence[str]
) -> tuple[str, str] | None:
    """The first option of deletes that makes no sense, and why."""
    rules = (
        (mode != "upsert", "delete", "only mode = 'upsert' has a key whose row can be deleted"),
        (
            deletes.column in (*key, *order),
            "delete",
            "the column says whether a row is deleted: it is no key, no order",
        ),
        (
            deletes.time is not None and not deletes.is_soft,
            "delete_time",
            "only delete_how = 'soft' leaves a row to mark",
        ),
        (deletes.time in (*key, deletes.column), "delete_time", "neither the key of a row nor its mark is a time"),
        (deletes.truncates and not order, "truncate", "needs order = [...], which says what was there before"),
        (
            deletes.truncates and OP in (*key, *order, deletes.column, deletes.time),
            "truncate",
            f"takes the column {OP}",
        ),
    )
    return next(((option, reason) for is_wrong, option, reason in rules if is_wrong), None)
