"""Write modes: how a batch's rows meet the rows that are there, in every sink into a table.

``append``: they are inserted. ``ignore``: those that violate a unique index are left out. ``upsert``: a row replaces
the row of its key. ``merge``: numbers are added to the row of the key. ``replace``: the batch's rows become the whole
table.

Of rows of one batch that ``ignore`` finds to collide, the first stays: tasks in the order of Spark's partitions, a
task's rows as they come. Where the transform does not shuffle, that is the order of topic, partition and offset, and
the row that stays is the one that would have stayed had the batch ended before the other. After a shuffle Spark gives
rows no order: ``upsert`` with ``order`` says which one is meant.

What is in the table must not depend on where one batch ends and the next begins. So ``order`` decides between two rows
of a key in the same way whether both are in one batch or one of them is in the table already: the higher one stays,
and of equal ones in two batches the later. Two rows of a key in one batch that nothing decides between are an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from directkafka.errors import OptionError, RowRejectedError

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
    """

    name: Mode = "append"
    key: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls,
        mode: str,
        *,
        key: Sequence[str] | None,
        add: Sequence[str] | None,
        order: Sequence[str] | None,
        where: str,
    ) -> WriteMode:
        """Check that mode and columns make sense together.

        Args:
            mode: its name.
            key, add, order: as the user gave them.
            where: what the options belong to, for messages.

        Raises:
            OptionError: they do not; the message names the option.
        """
        problem = _problem(mode, key, add, order)
        if problem is not None:
            raise OptionError(option=problem[0], where=where, reason=problem[1])
        name = next(known for known in get_args(Mode) if known == mode)
        return cls(name=name, key=tuple(key or ()), add=tuple(add or ()), order=tuple(order or ()))

    @property
    def is_folded(self) -> bool:
        """Whether the table's number of rows says little about the number that was written."""
        return self.name != "append"

    def column_problems(self, schema: pa.Schema) -> list[str]:
        """What is wrong with the mode's columns in a DataFrame of this schema, one sentence each."""
        named = (*self.key, *self.add, *self.order)
        missing = [name for name in dict.fromkeys(named) if name not in schema.names]
        problems = [f"the DataFrame has no column {name!r} (key, add, order)" for name in missing]
        if self.name == "merge":
            problems += [
                f"column {name!r} is neither key nor add: merge would not know which row's to keep"
                for name in schema.names
                if name not in named
            ]
        return problems

    def double_key(self, values: Sequence[object], count: int) -> str:
        """What to say of a key that comes ``count`` times in one batch, nothing deciding between its rows."""
        key = ", ".join(f"{name} = {value!r}" for name, value in zip(self.key, values, strict=True))
        equal = f"equal in {', '.join(self.order)}, " if self.order else ""
        return (
            f"{count} rows of one batch have the key {key}, {equal}and nothing says which one is newer: name columns "
            "that do in order = [...], for example the record's offset, or keep one row per key in the transform"
        )


def check_taken(*, store: str, sink: str, sent: int, taken: int, triggers: Sequence[str]) -> None:
    """Refuse a batch of which the table has left rows out by itself: they would be committed as read, and be nowhere.

    Args:
        store, sink: for the message.
        sent: rows that were to be put or changed.
        taken: rows that the database says were.
        triggers: of the table, by name.

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
    """Refuse to replace a table's rows where the table has kept some.

    Args:
        store, sink: for the message.
        left: rows that are there after all were deleted.
        triggers: of the table, by name.

    Raises:
        RowRejectedError: there are such rows.
    """
    if left:
        raise RowRejectedError(
            store=store,
            sink=sink,
            detail=f"the table kept {left} rows that were to be replaced (triggers of its own: {', '.join(triggers)}): "
            "let them be deleted, or use another mode",
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
