"""A reset in the ledgers: an entry without rows that says where the pipeline goes on. Pure.

It begins a lineage of its own, so that a driver that is still at work, or starts again from what it remembers, finds
another history than its own. The new lineage is made of the old one and of what the reset does. So the stores of a
reset that was killed between two commits can be told from stores with nothing in common: whoever comes next, a driver
or another reset, finishes it in those that lack it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition, to_nested
from directkafka.planning.reset import RowsPolicy
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import PASSED_OVER

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
    stays = {place: replace(progress, start=progress.end) for place, progress in ahead.by_place().items()}
    progress = tuple(sorted((stays | dict(starts)).values()))
    entry = replace(ahead, batch_id=ahead.batch_id + 1, progress=progress, row_counts={}, total_rows={})
    return replace(entry, lineage=_lineage(ahead.lineage, entry, rows))


def rows_policy_of(entry: LedgerEntry, own: LedgerEntry) -> RowsPolicy | None:
    """What an entry, where it is that of a reset of the history that a store stands at, does with rows; else None.

    Args:
        entry: the newest entry.
        own: of a store with another lineage.
    """
    return next((rows for rows in RowsPolicy if entry.lineage == _lineage(own.lineage, entry, rows)), None)


def entry_of_store(entry: LedgerEntry, own: LedgerEntry) -> LedgerEntry:
    """A reset's entry as one store writes it, which may have begun, and may end, elsewhere than the others.

    Of what is passed over it keeps the number: nothing of it can be counted again.
    """
    known = own.by_place()
    progress = tuple(
        replace(start, origin=min(before.origin, start.end))
        if (before := known.get(start.topic_partition)) is not None and _is_same_topic(before, start)
        else start
        for start in entry.progress
    )
    passed_over = sum(max(0, gap.count()) for gap in changed_ranges(own, entry) if is_passed_over(own, gap))
    return replace(entry, progress=progress, total_rows={PASSED_OVER: passed_over} if passed_over else {})


def changed_ranges(own: LedgerEntry, entry: LedgerEntry) -> list[OffsetRange]:
    """The offsets between where a store stands and where a reset goes on: passed over, or read again.

    What lies before the store's origin was never read, and will not be read again.
    """
    ranges = []
    for place, before in sorted(own.by_place().items()):
        after = entry.by_place().get(place)
        if after is not None and _is_same_topic(before, after) and before.end != after.end:
            low, high = sorted((before.end, after.end))
            ranges.append(OffsetRange(place.topic, place.partition, min(max(low, before.origin), high), high))
    return [each for each in ranges if each.count()]


def is_passed_over(own: LedgerEntry, changed: OffsetRange) -> bool:
    """Whether a range of :func:`changed_ranges` starts at the store's next offset, so that the reset skips it.

    Otherwise it ends there, and is read again.
    """
    return own.ends()[changed.topic_partition] == changed.from_offset


def unread_ranges(
    own: LedgerEntry, starts: Mapping[TopicPartition, PartitionProgress], earliest: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """What a reset skips of partitions that a store has never read, also since their topic was made again.

    Args:
        own: where the store stands.
        starts: where the partitions that are reset go on.
        earliest: the first offset that is there.
    """
    known, ranges = own.by_place(), []
    for place, start in sorted(starts.items()):
        before, first = known.get(place), earliest.get(place, start.end)
        if (before is None or not _is_same_topic(before, start)) and first < start.end:
            ranges.append(OffsetRange(place.topic, place.partition, first, start.end))
    return ranges


def _is_same_topic(before: PartitionProgress, after: PartitionProgress) -> bool:
    return not (before.topic_id and after.topic_id) or before.topic_id == after.topic_id


def _lineage(before: str, entry: LedgerEntry, rows: RowsPolicy) -> str:
    text = json.dumps([before, entry.batch_id, rows.value, to_nested(entry.ends())], sort_keys=True)
    return uuid.uuid5(_NAMESPACE, text).hex
