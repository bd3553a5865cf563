"""Ranges that a program gives itself: are they there, and does none of them read a record twice?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from directkafka.errors import OptionError
from directkafka.offsets import OffsetRange
from directkafka.options.arguments import list_of
from directkafka.planning.loss import Condition, Loss
from directkafka.view import ClusterView

__all__ = ["checked_ranges", "losses_of_ranges"]


def checked_ranges(values: object, *, option: str) -> list[OffsetRange]:
    """The ranges that a program gives; refused are other things, and ranges that have a record in common.

    Args:
        values: what it gives.
        option: under which name, for messages.

    Raises:
        OptionError: names the type that was found, or the first two that overlap.
    """
    ranges = list_of(OffsetRange, values, option=option, wanted="a list of OffsetRange")
    in_order = sorted(one for one in ranges if one.count())
    for one, following in pairwise(in_order):
        if one.topic_partition == following.topic_partition and following.from_offset < one.until_offset:
            raise OptionError(option=option, reason=f"{one} and {following} overlap: records would be read twice")
    return ranges


def losses_of_ranges(ranges: Sequence[OffsetRange], view: ClusterView) -> tuple[Loss, ...]:
    """What of the ranges is not in the log: before its start, after its end, or in a partition that is not there."""
    found = (_loss_of(one, view) for one in ranges if one.count())
    return tuple(loss for loss in found if loss is not None)


def _loss_of(one: OffsetRange, view: ClusterView) -> Loss | None:
    seen = view.partitions.get(one.topic_partition)
    if seen is None:
        return _loss(Condition.PARTITION_DELETED, one, one.from_offset, one.until_offset, "there is no such partition")
    has = f"{one} was asked for, the log has [{seen.earliest}, {seen.latest})"
    if one.from_offset < seen.earliest:
        return _loss(Condition.RANGE_AGED_OUT, one, one.from_offset, min(one.until_offset, seen.earliest), has)
    if one.until_offset > seen.latest:
        return _loss(Condition.OFFSET_CHANGED, one, max(one.from_offset, seen.latest), one.until_offset, has)
    return None


def _loss(condition: Condition, one: OffsetRange, lost_from: int, lost_until: int, detail: str) -> Loss:
    return Loss(
        condition=condition,
        topic_partition=one.topic_partition,
        lost_from=lost_from,
        lost_until=lost_until,
        detail=detail,
    )
