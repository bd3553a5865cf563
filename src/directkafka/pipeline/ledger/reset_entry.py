"""A reset in the ledgers: an entry without rows that says where the pipeline goes on. Pure.

The entry has a new lineage, so a driver that still runs, or that remembers the old one, is refused. The lineage is a
hash of the old lineage, the new offsets and what becomes of rows. So a store that only lacks this reset is known, and
the next driver or reset finishes it there; a store with another history is refused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition, to_nested
from directkafka.planning.reset_target import RowsPolicy
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import SKIPPED

_NAMESPACE: Final = uuid.UUID("6d1f1f64-0d5c-5b9e-9a55-0c1b5c9b7d3e")


def reset_entry(
    ahead: LedgerEntry, starts: Mapping[TopicPartition, PartitionProgress], rows: RowsPolicy
) -> LedgerEntry:
    """The entry of a reset, for all stores.

    Args:
        ahead: the newest entry; its generation and time are to be replaced.
        starts: where the partitions that are reset go on.
        rows: what becomes of the rows of records that are read again.
    """
    stays = {partition: replace(progress, start=progress.end) for partition, progress in ahead.by_partition().items()}
    progress = tuple(sorted((stays | dict(starts)).values()))
    entry = replace(ahead, batch_id=ahead.batch_id + 1, progress=progress, row_counts={}, total_rows={})
    return replace(entry, lineage=_lineage(ahead.lineage, entry, rows))


def rows_policy_of(entry: LedgerEntry, own: LedgerEntry) -> RowsPolicy | None:
    """What becomes of rows, if an entry is a reset that was made from a store's lineage; else None.

    Args:
        entry: the newest entry.
        own: of a store with another lineage.
    """
    return next((rows for rows in RowsPolicy if entry.lineage == _lineage(own.lineage, entry, rows)), None)


def reset_entry_of_store(entry: LedgerEntry, own: LedgerEntry) -> LedgerEntry:
    """The reset's entry for one store, whose origins and ends may differ from those of other stores.

    It keeps the number of skipped offsets, since ``verify`` cannot count them.
    """
    known = own.by_partition()
    progress = tuple(
        replace(start, origin=min(before.origin, start.end))
        if (before := known.get(start.topic_partition)) is not None and _is_same_topic(before, start)
        else start
        for start in entry.progress
    )
    skipped = sum(max(0, gap.count()) for gap in changed_ranges(own, entry) if is_skipped(own, gap))
    return replace(entry, progress=progress, total_rows={SKIPPED: skipped} if skipped else {})


def changed_ranges(own: LedgerEntry, entry: LedgerEntry) -> list[OffsetRange]:
    """The offsets between where a store stands and where a reset goes on: skipped, or read again.

    What lies before the store's origin was never read, and will not be read again.
    """
    ranges = []
    for partition, before in sorted(own.by_partition().items()):
        after = entry.by_partition().get(partition)
        if after is not None and _is_same_topic(before, after) and before.end != after.end:
            low, high = sorted((before.end, after.end))
            ranges.append(OffsetRange(partition.topic, partition.partition, min(max(low, before.origin), high), high))
    return [each for each in ranges if each.count()]


def is_skipped(own: LedgerEntry, changed: OffsetRange) -> bool:
    """Whether a range of :func:`changed_ranges` starts at the store's next offset, so that the reset skips it.

    Otherwise it ends there, and is read again.
    """
    return own.ends()[changed.topic_partition] == changed.from_offset


def skipped_unread_ranges(
    own: LedgerEntry, starts: Mapping[TopicPartition, PartitionProgress], earliest: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """The offsets that a reset skips in partitions that a store never read, or whose topic was made again.

    Args:
        own: where the store stands.
        starts: where the partitions that are reset go on.
        earliest: the first offset that is there.
    """
    known, ranges = own.by_partition(), []
    for partition, start in sorted(starts.items()):
        before, first = known.get(partition), earliest.get(partition, start.end)
        if (before is None or not _is_same_topic(before, start)) and first < start.end:
            ranges.append(OffsetRange(partition.topic, partition.partition, first, start.end))
    return ranges


def _is_same_topic(before: PartitionProgress, after: PartitionProgress) -> bool:
    return not (before.topic_id and after.topic_id) or before.topic_id == after.topic_id


def _lineage(before: str, entry: LedgerEntry, rows: RowsPolicy) -> str:
    text = json.dumps([before, entry.batch_id, rows.value, to_nested(entry.ends())], sort_keys=True)
    return uuid.uuid5(_NAMESPACE, text).hex
