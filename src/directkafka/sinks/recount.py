"""Counts of what a sink's table has, for ``directkafka verify``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = ["TableCount", "doubled_records"]

#: Columns that name a Kafka record.
_RECORD: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCount:
    """What a sink's table has, for ``directkafka verify``.

    Attributes:
        rows: number of rows.
        doubled: rows that name a record (topic, partition, offset) which another row names too; 0 where the
            table has no such columns.
        is_folded: whether rows met existing rows (ignore, merge), so that their number says little.
        sums: sums of the columns that the mode adds up.
    """

    rows: int
    doubled: int = 0
    is_folded: bool = False
    sums: Mapping[str, Any] = field(default_factory=dict)


def doubled_records(dataset: ds.Dataset) -> int:
    """Rows beyond the first that name one record; 0 where no columns name records."""
    if not set(_RECORD) <= set(dataset.schema.names):
        return 0
    records = dataset.to_table(columns=list(_RECORD))
    return int(records.num_rows - records.group_by(list(_RECORD)).aggregate([]).num_rows)
