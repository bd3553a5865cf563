"""Reports of a replay to the outside: of each batch after it is committed, and of all at the end."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

log = logging.getLogger("directkafka.pipeline")

#: How many reasons a summary tells apart: a transform may give each row one of its own.
REASONS_MAX: Final = 10_000
OTHER_REASONS: Final = "(other reasons)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """One committed batch of a replay.

    Attributes:
        pipeline: the replay's name in the ledgers.
        generation, batch_id: which.
        letters: dead letters that were tried.
        rejected: those that were rejected again.
        rows: rows written, by sink name.
        left: dead letters that are planned and not yet tried.
        total_ms: duration of the batch, in milliseconds.
    """

    pipeline: str
    generation: int
    batch_id: int
    letters: int
    rejected: int
    rows: Mapping[str, int]
    left: int
    total_ms: int


ReplayReporter = Callable[[ReplayReport], None]


def log_replay(report: ReplayReport) -> None:
    """One line a batch at INFO."""
    log.info(
        "%s batch %d: %s dead letters -> %s rows in %d ms, %s dead letters left",
        report.pipeline,
        report.batch_id,
        f"{report.letters:,}",
        ", ".join(f"{sink} {count:,}" for sink, count in report.rows.items()) or "no",
        report.total_ms,
        f"{report.left:,}",
    )


def add_reasons(counts: Counter[str], more: Mapping[str, int]) -> None:
    """Add dead letters by reason; beyond :data:`REASONS_MAX` reasons those that are new are counted as one."""
    for reason, count in more.items():
        counts[reason if reason in counts or len(counts) < REASONS_MAX else OTHER_REASONS] += count


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    """Dead letters of one reason.

    Attributes:
        reason: what the transform said of them.
        letters: how many of the dead letters that were chosen had it.
        rejected: how many have it now, rejected again; None where nothing was tried.
    """

    reason: str
    letters: int
    rejected: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """What a replay did, or would try.

    Attributes:
        reasons: by reason, those of most dead letters first.
        is_dry: whether nothing was tried.
    """

    reasons: tuple[ReasonCount, ...] = ()
    is_dry: bool = False

    @classmethod
    def of(cls, letters: Mapping[str, int], rejected: Mapping[str, int] | None) -> ReplaySummary:
        """From counts by reason; ``rejected`` is None where nothing was tried."""
        names = sorted({*letters, *(rejected or ())}, key=lambda name: (-letters.get(name, 0), name))
        return cls(
            reasons=tuple(
                ReasonCount(
                    reason=name,
                    letters=letters.get(name, 0),
                    rejected=None if rejected is None else rejected.get(name, 0),
                )
                for name in names
            ),
            is_dry=rejected is None,
        )

    @property
    def letters(self) -> int:
        """Dead letters that were tried, or would be."""
        return sum(counted.letters for counted in self.reasons)

    @property
    def rejected(self) -> int:
        """Dead letters that were rejected again."""
        return sum(counted.rejected or 0 for counted in self.reasons)

    @property
    def replayed(self) -> int:
        """Dead letters that are dead letters no more."""
        return 0 if self.is_dry else self.letters - self.rejected

    def as_records(self) -> list[dict[str, Any]]:
        """For printing: one for each reason."""
        if self.is_dry:
            return [{"reason": counted.reason, "letters": counted.letters} for counted in self.reasons]
        return [
            {"reason": counted.reason, "letters": counted.letters, "rejected_again": counted.rejected or 0}
            for counted in self.reasons
        ]
