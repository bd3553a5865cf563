"""Changes that a reset makes in one store, and topics that were deleted and made again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from directkafka.errors import OptionError
from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition
from directkafka.pipeline.ledger.reset_entry import (
    changed_ranges,
    is_skipped,
    reset_entry_of_store,
    skipped_unread_ranges,
)
from directkafka.pipeline.ledger.store_group import Ledger
from directkafka.planning.loss import is_same_topic
from directkafka.sinks.api import LedgerEntry
from directkafka.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChange:
    """What a reset skips in one store, and what it reads again.

    Attributes:
        ledger, own: the store, and where it stands.
        skipped, again: ranges of offsets.
    """

    ledger: Ledger
    own: LedgerEntry
    skipped: tuple[OffsetRange, ...]
    again: tuple[OffsetRange, ...]

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        own: LedgerEntry,
        entry: LedgerEntry,
        starts: Mapping[TopicPartition, PartitionProgress],
        snapshot: ClusterSnapshot,
    ) -> StoreChange:
        """What a reset's entry changes.

        Args:
            ledger, own: the store, and where it stands.
            entry: the reset's ledger entry.
            starts: where the partitions that are reset go on.
            snapshot: the cluster.
        """
        changed = changed_ranges(own, reset_entry_of_store(entry, own))
        unread = skipped_unread_ranges(own, starts, snapshot.earliest())
        return cls(
            ledger=ledger,
            own=own,
            skipped=(*(each for each in changed if is_skipped(own, each)), *unread),
            again=tuple(each for each in changed if not is_skipped(own, each)),
        )

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """Those that are skipped, then those that are read again."""
        return (*self.skipped, *self.again)


def topics_made_again(
    entries: Iterable[LedgerEntry], starts: Mapping[TopicPartition, PartitionProgress], snapshot: ClusterSnapshot
) -> list[str]:
    """The topics being reset whose id is not the one that was read, sorted. Without an id on either side none is.

    Args:
        entries: of the stores.
        starts: where the partitions that are reset go on.
        snapshot: the cluster.
    """
    return sorted(
        {
            progress.topic
            for entry in entries
            for partition, progress in entry.by_partition().items()
            if partition in starts
            and partition in snapshot.partitions
            and not is_same_topic(progress, snapshot.partitions[partition])
        }
    )


def check_topics(entries: Sequence[LedgerEntry], snapshot: ClusterSnapshot) -> None:
    """Refuse a topic whose id is not the one in the ledger; one without an id on either side passes.

    Raises:
        OptionError: there is such a topic.
    """
    for progress in (each for entry in entries for each in entry.progress):
        seen = snapshot.partitions.get(progress.topic_partition)
        if seen is not None and not is_same_topic(progress, seen):
            raise OptionError(
                option="--bootstrap-server",
                reason=f"topic {progress.topic} is not the one that the pipeline has read: its id is {seen.topic_id}, "
                f"and the ledger has {progress.topic_id}. It was made again, or this is another cluster; give FILE",
            )
