"""What a benchmark finds: figures with what is required of them, told as a table and kept as JSON."""

from __future__ import annotations

import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = ["Figure", "alternately", "console", "ratio", "save", "show", "told"]

console = Console(stderr=True)

_WARM_RUNS_MIN, _WARM_RUNS_MAX = 3, 8

Run = Callable[[], float | None]
Aside = Callable[[str], None]


def _nothing(name: str) -> None:
    """Where a run needs nothing around it."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number and its bound.

    Attributes:
        name: what was measured.
        value: the number.
        unit: of the number: ``x`` for a ratio, ``M/s`` for million records a second, ``MB`` and so on.
        required: what it must be; None where nothing was asked for, and the number is told all the same.
        at_most: whether ``required`` is an upper bound; else it is a lower one.
        detail: what the number was made of, medians with (least to most).
    """

    name: str
    value: float
    unit: str
    required: float | None
    at_most: bool = False
    detail: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the bound holds."""
        if self.required is None:
            return True
        return self.value <= self.required if self.at_most else self.value >= self.required


def alternately(
    runs: Mapping[str, Run],
    repeat: int,
    *,
    before: Aside = _nothing,
    after: Aside = _nothing,
    always_warm: Collection[str] = (),
) -> dict[str, list[float]]:
    """Seconds of each run by name: all are warmed, then timed in turn, so that all see the same machine.

    They are warm when no run was faster than its best before by more than a twentieth: what the JVM compiles late
    would else be paid for by what happens to be measured first.

    Args:
        runs: by name; one that measures itself (a process of its own, whose start is left out) returns its seconds.
        repeat: timed runs of each.
        before, after: called with the name around each run, not timed: to make and to check what it writes to.
        always_warm: runs that gain nothing from one before, since each is a process of its own.
    """

    def seconds_of(name: str) -> float:
        before(name)
        started = time.perf_counter()
        own_seconds = runs[name]()
        taken = time.perf_counter() - started
        after(name)
        return taken if own_seconds is None else own_seconds

    best = dict.fromkeys([name for name in runs if name not in always_warm], math.inf)
    for number in range(1, _WARM_RUNS_MAX + 1):
        round_seconds = {name: seconds_of(name) for name in best}
        is_warm = all(round_seconds[name] > best[name] * 0.95 for name in best)
        best = {name: min(best[name], round_seconds[name]) for name in best}
        if is_warm and number >= _WARM_RUNS_MIN:
            break
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name in runs:
            seconds[name].append(seconds_of(name))
    return seconds


def ratio(
    name: str,
    seconds: Mapping[str, list[float]],
    *,
    over: str,
    required: float | None,
    records: int,
    unit: str = "x",
    side: str = "ours",
) -> Figure:
    """How many times faster ``side`` is than another run; with unit ``%``, its share of that run's speed."""
    medians = {run: statistics.median(times) for run, times in seconds.items()}
    value = medians[over] / medians[side]
    detail = ", ".join(
        f"{run} {medians[run]:.2f} s ({min(times):.2f}-{max(times):.2f}), {records / medians[run] / 1e6:.2f} M/s"
        for run, times in seconds.items()
        if run in {side, over}
    )
    return told(
        Figure(name=name, value=100 * value if unit == "%" else value, unit=unit, required=required, detail=detail)
    )


def told(figure: Figure) -> Figure:
    """Print a figure as soon as it is known."""
    mark = "" if figure.is_met else "  [red]below what is required[/red]"
    console.print(f"{figure.name}: {figure.value:.2f} {figure.unit}{mark}")
    return figure


def show(figures: list[Figure]) -> None:
    """The table, wide enough for every figure, on a log file too."""
    table = Table(title="directkafka, Spark's JVM connector 4.2.0 and others, side by side", title_justify="left")
    for column in ("measure", "figure", "required", ""):
        table.add_column(column, justify="right" if column in {"figure", "required"} else "left")
    table.add_column("median seconds (least-most)")
    for figure in figures:
        bound = (
            "" if figure.required is None else f"{'<=' if figure.at_most else '>='} {figure.required:g} {figure.unit}"
        )
        table.add_row(
            figure.name, f"{figure.value:.2f} {figure.unit}", bound, "" if figure.is_met else "missed", figure.detail
        )
    Console(width=max(console.width, 170)).print(table)


def save(figures: list[Figure]) -> None:
    """Keep the figures as benchmarks/results/latest.json."""
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    document = {
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "machine": platform.platform(),
        "figures": [asdict(figure) | {"is_met": figure.is_met} for figure in figures],
    }
    (folder / "latest.json").write_text(json.dumps(document, indent=2) + "\n")
