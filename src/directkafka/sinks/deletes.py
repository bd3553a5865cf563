"""Deletes of mode upsert: rows that say of their key that it is no more, and what becomes of the row that is there.

``hard`` removes it. ``soft`` marks it: the column that says so is stored, and of the other columns only those of the
order, and the time column if there is one, take what came. What goes in comes first, then what marks, so that a row
that was made and deleted in one batch is the same as in two. A marked row is the memory of its key: a record that comes
late and is older is kept out by the order. ``hard`` keeps no memory, so a late record brings a deleted row back, until
its delete comes again; that is why dead letters cannot be replayed into such a table.

``truncate`` takes the rows that were there before a row whose ``op`` is ``t``; the order says which these are. Of the
batch's own earlier rows nothing is left, no mark either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

DeleteHow = Literal["hard", "soft"]

#: The column that says what happened to a row, and what it says where the whole table was truncated.
OP: Final = "op"
TRUNCATED: Final = "t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """Which rows delete others, and how.

    Attributes:
        column: boolean; true in rows whose key is no more.
        how: whether the row is removed or marked.
        time: of soft deletes a column that marked rows take from what came; None: there is none.
        truncates: whether rows whose :data:`OP` is :data:`TRUNCATED` empty the table.
    """

    column: str
    how: DeleteHow = "hard"
    time: str | None = None
    truncates: bool = False

    @property
    def is_soft(self) -> bool:
        """Whether deleted rows stay, and are marked."""
        return self.how == "soft"

    @property
    def controls(self) -> tuple[str, ...]:
        """The columns that say what is done with a row, and are not stored."""
        return (*[self.column] * (not self.is_soft), *[OP] * self.truncates)

    def taken(self, order: Sequence[str]) -> tuple[str, ...]:
        """The columns that a marked row takes from what came; it keeps all others but the key.

        Args:
            order: the mode's.
        """
        names = [*order, self.column, self.time]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def column_problems(self, schema: pa.Schema) -> list[str]:
        """What is wrong with the columns in a DataFrame of this schema, one sentence each."""
        wanted = {self.column: ("delete", pa.types.is_boolean, "boolean")}
        if self.truncates:
            wanted[OP] = "truncate", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "a string"
        if self.time is not None:
            wanted[self.time] = "delete_time", lambda kind: True, ""
        problems = []
        for name, (option, is_right, kind) in wanted.items():
            if name not in schema.names:
                problems.append(f"the DataFrame has no column {name!r} ({option})")
            elif not is_right(schema.field(name).type):
                problems.append(f"column {name!r} of type {schema.field(name).type} is not {kind} ({option})")
        return problems


def null_key_reason(key: Sequence[str], deletes: Deletes) -> str:
    """Why a row without a key is refused, behind "have a null"."""
    truncates = "" if deletes.truncates else "; that of a TRUNCATE has none: with truncate = true it empties the table"
    return (
        f"in the key {', '.join(key)}, so nobody can say which row they are about: for a delete see whether the key of "
        f"its record can be read; filter them out in the transform if they mean nothing{truncates}"
    )


def null_delete_reason(deletes: Deletes) -> str:
    """Why a row that does not say whether it deletes is refused, behind "have a null"."""
    return (
        f"in the column {deletes.column}, which then does not say whether their key is no more: fill it in the "
        "transform, for example with coalesce"
    )


def null_order_reason(order: Sequence[str]) -> str:
    """Why a row without its order is refused, behind "have a null"."""
    return (
        f"in the order {', '.join(order)}, which then does not say which row of a key is the newer one: fill them in "
        "the transform, for example with coalesce; filter out tombstones, which have no position"
    )
