"""Counting what a table of files has, for ``directkafka verify``."""

from __future__ import annotations

from typing import Final

import pyarrow.dataset as ds

__all__ = ["doubled_records"]

#: Columns that name a Kafka record.
_RECORD: Final = ("topic", "partition", "offset")


def doubled_records(dataset: ds.Dataset) -> int:
    """Rows beyond the first that name one record; 0 where no columns name records."""
    if not set(_RECORD) <= set(dataset.schema.names):
        return 0
    records = dataset.to_table(columns=list(_RECORD))
    return int(records.num_rows - records.group_by(list(_RECORD)).aggregate([]).num_rows)
