"""History of one pipeline: a day of samples in bounded memory. Pure.

The last hour is kept as it was sampled, what is older minute by minute: the highest lag of a minute, since a lag that
was there must not vanish from the picture, and the mean of its rates.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

_FINE_COUNT: Final = 720
_COARSE_COUNT: Final = 1_440
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A pipeline at one moment; NaN where a number is not known.

    Attributes:
        at_ms: when, in milliseconds since 1970.
        lag: unread offsets of all partitions.
        lag_seconds: age of the oldest unread record, in seconds; 0 without one.
        records_per_s, rows_per_s: since the sample before.
    """

    at_ms: float
    lag: float
    lag_seconds: float
    records_per_s: float
    rows_per_s: float


_NAMES: Final = tuple(field.name for field in fields(Sample))


class History:
    """Samples of one pipeline: up to 720 as they came, and 1,440 minutes before them; 86 kB."""

    def __init__(self) -> None:
        self._fine = _Ring(_FINE_COUNT)
        self._coarse = _Ring(_COARSE_COUNT)
        self._minute: list[Sample] = []

    def add(self, sample: Sample) -> None:
        """Keep a sample that is later than all before."""
        if self._minute and sample.at_ms // _MINUTE_MS != self._minute[0].at_ms // _MINUTE_MS:
            self._coarse.add(_merged(self._minute))
            self._minute = []
        self._minute.append(sample)
        self._fine.add(np.array(astuple(sample)))

    def columns(self) -> dict[str, list[float | None]]:
        """All samples, the oldest first, by their fields' names; None where a number is not known."""
        fine, coarse = self._fine.values(), self._coarse.values()
        if len(fine):
            coarse = coarse[coarse[:, 0] < fine[0, 0]]
        samples = np.concatenate([coarse, fine])
        return {
            name: [None if math.isnan(value) else value for value in column.tolist()]
            for name, column in zip(_NAMES, samples.T, strict=True)
        }


class _Ring:
    def __init__(self, count: int) -> None:
        self._rows = np.empty((count, len(_NAMES)))
        self._added = 0

    def add(self, row: npt.NDArray[np.float64]) -> None:
        self._rows[self._added % len(self._rows)] = row
        self._added += 1

    def values(self) -> npt.NDArray[np.float64]:
        if self._added <= len(self._rows):
            return self._rows[: self._added]
        return np.roll(self._rows, -(self._added % len(self._rows)), axis=0)


def _merged(samples: list[Sample]) -> npt.NDArray[np.float64]:
    """One sample for all of a minute, at the time of its first."""
    rows = np.array([astuple(sample) for sample in samples])
    known = ~np.isnan(rows)
    highest = np.where(known, rows, -np.inf).max(axis=0)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, rows, 0.0).sum(axis=0) / known.sum(axis=0)
    merged: npt.NDArray[np.float64] = np.where(np.isin(_NAMES, ("lag", "lag_seconds")), highest, mean)
    merged[~known.any(axis=0)] = np.nan
    merged[0] = rows[0, 0]
    return merged
