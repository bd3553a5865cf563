"""The limit of a batch after one took longer than a store's transaction may. Pure.

Sequence of events that this ends: a batch takes longer than ``transaction.timeout.ms``; it is aborted; it is planned
again, as large as before or larger, for more records have come; it takes longer again; and so on without end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from directkafka.planning.plan import BatchPlan, PlanPolicy

#: A batch that took no longer than this share of its budget shows that one of twice its size will do.
_EASY_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveLimit:
    """Most offsets of a batch, beside the limits that the user gave.

    Attributes:
        offsets: so many; None: any number.
        too_slow: as many took too long; at this height it ends.
        budget_ms: how long a batch may take, in milliseconds.
    """

    offsets: int | None = None
    too_slow: int = 0
    budget_ms: int = 0

    def lowered(self, batch: BatchPlan, *, budget_ms: int) -> AdaptiveLimit | None:
        """After a batch that took longer than its budget: half of it, or None where nothing is left to be halved.

        A limit leaves each partition that has records one offset at least. So a batch may be larger than its limit, and
        it is the limit that is halved then: each time it is lower than before, whatever comes in meanwhile.
        """
        count = batch.offset_count
        basis = count if self.offsets is None else min(count, self.offsets)
        if basis < 2 or count <= len({offset_range.topic_partition for offset_range in batch.ranges}):
            return None
        return AdaptiveLimit(offsets=basis // 2, too_slow=max(count, self.too_slow), budget_ms=budget_ms)

    def after(self, batch: BatchPlan, *, took_ms: int) -> AdaptiveLimit:
        """After a batch that was committed: twice as much if a batch that large was easy."""
        is_full = self.offsets is not None and batch.offset_count * 2 > self.offsets
        if self.offsets is None or not is_full or took_ms > self.budget_ms * _EASY_SHARE:
            return self
        return replace(self, offsets=self.offsets * 2) if self.offsets * 2 < self.too_slow else NO_LIMIT

    def over(self, policy: PlanPolicy) -> PlanPolicy:
        """The policy under this limit."""
        if self.offsets is None:
            return policy
        total = policy.limits.total
        limit = self.offsets if total is None else min(total, self.offsets)
        return replace(policy, limits=replace(policy.limits, total=limit))


#: Any size.
NO_LIMIT: Final = AdaptiveLimit()
