"""The view of ``run --live``: what a pipeline does, drawn in the terminal again and again while it runs.

It shows the same status as the metrics, and looks up lag in the same way. Drawing never waits for Kafka: while a broker
does not answer, the last known lag stays on the screen for up to a minute, then it is shown as not known.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from directkafka.cli.output import messages, warnings_alone
from directkafka.pipeline.status import PipelineStatus, StatusView, Step
from directkafka.plain_text import one_line

if TYPE_CHECKING:
    from directkafka.operations.positions import PartitionPosition

_DRAWN_PER_S: Final = 2
#: How long the rates are told back, in samples of a second each.
_SAMPLES_MAX: Final = 30
_PARTITIONS_SHOWN_MAX: Final = 10
_NAME_MAX: Final = 40
_BARS: Final = " ▁▂▃▄▅▆▇█"
_BAR_WIDTH: Final = 30
_STEPS: Final = (("plan", "cyan"), ("write", "green"), ("commit", "magenta"))

#: Steps in which something is wrong, or somebody has to do something.
_STYLES: Final = {Step.RETRYING: "bold red", Step.PAUSED: "bold yellow"}


class LiveView:
    """What is drawn, as a renderable of rich: 80 columns are enough.

    Args:
        status: the pipeline's.
        positions: where it is in each partition; empty where that is not known.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        status: PipelineStatus,
        positions: Callable[[], Sequence[PartitionPosition]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._status = status
        self._positions = positions
        self._clock = clock
        self._begun_s = clock()
        #: Times, and records and rows until then.
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=_SAMPLES_MAX + 1)

    def __rich__(self) -> Group:
        """The view as of now."""
        view, now_s = self._status.view, self._clock()
        records = sum(count.record_count for count in view.read.values())
        rows = sum(view.row_counts.values())
        if not self._samples or now_s - self._samples[-1][0] >= 1.0:
            self._samples.append((now_s, records, rows))
        return Group(
            self._head(view, now_s),
            _counts(view, records, rows),
            self._rates(),
            _times(view),
            _partitions(self._positions()),
            _retries(view),
        )

    def _head(self, view: StatusView, now_s: float) -> Text:
        generation = "" if view.generation is None else f"  generation {view.generation}"
        step = Text(f"{view.step.value} {max(0.0, self._status.idle_s()):.0f} s", _STYLES.get(view.step, "green"))
        up_s = int(now_s - self._begun_s)
        up = f"  up {up_s // 3600}:{up_s // 60 % 60:02}:{up_s % 60:02}"
        return _fitting(Text.assemble((one_line(view.pipeline)[:40], "bold"), generation, "  ", step, up))

    def _rates(self) -> Group:
        return Group(
            *(
                _fitting(
                    Text.assemble((f"{name:<10}", "dim"), f"{rates[-1] if rates else 0:>12,.0f}/s  ", _bars(rates))
                )
                for name, rates in (("records", self._rates_of(1)), ("rows", self._rates_of(2)))
            )
        )

    def _rates_of(self, index: int) -> list[float]:
        samples = list(self._samples)
        return [(later[index] - earlier[index]) / (later[0] - earlier[0]) for earlier, later in pairwise(samples)]


def _fitting(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _counts(view: StatusView, records: int, rows: int) -> Text:
    batch = "-" if view.batch_id is None else f"{view.batch_id:,}"
    dead_letters = Text(f"{view.dead_letter_count:,} dead letters", "red" if view.dead_letter_count else "")
    return _fitting(Text.assemble(f"batch {batch}  {records:,} records  {rows:,} rows  ", dead_letters))


def _bars(rates: Sequence[float]) -> str:
    most = max(rates, default=0.0)
    return "".join(_BARS[round(rate / most * (len(_BARS) - 1)) if most else 0] for rate in rates)


def _times(view: StatusView) -> Text:
    """The share of each step in the time of all batches of this run, as a bar and in words."""
    totals = {step: view.durations[step].total_s if step in view.durations else 0.0 for step, _ in _STEPS}
    whole = sum(totals.values())
    parts: list[str | tuple[str, str]] = [("time      ", "dim")]
    words = []
    for step, style in _STEPS:
        share = totals[step] / whole if whole else 0.0
        parts.append(("█" * round(share * _BAR_WIDTH), style))
        words.append((f"  {step} {share:.0%}", style))
    return _fitting(Text.assemble(*parts, *words))


def _partitions(positions: Sequence[PartitionPosition]) -> Table | Text:
    if not positions:
        return Text("lag       not known", "dim")
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("partition", no_wrap=True, overflow="ellipsis", max_width=_NAME_MAX, style="dim")
    for head in ("unread", "seconds", "next offset"):
        table.add_column(head, justify="right", no_wrap=True)
    furthest = sorted(positions, key=lambda position: -(position.lag or 0))
    for position in furthest[:_PARTITIONS_SHOWN_MAX]:
        table.add_row(Text(_name(position)), *map(_shown, (position.lag, position.lag_seconds, position.current)))
    left = furthest[_PARTITIONS_SHOWN_MAX:]
    if left:
        table.add_row(Text(f"{len(left):,} more"), _shown(sum(position.lag or 0 for position in left)), "", "")
    return table


def _name(position: PartitionPosition) -> str:
    """Topic and partition. A long name is cut in the middle, so that the partition's number stays."""
    name = one_line(f"{position.topic}-{position.partition}")
    return name if len(name) <= _NAME_MAX else f"{name[:8]}…{name[9 - _NAME_MAX :]}"


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _retries(view: StatusView) -> Text:
    if not view.retry_counts:
        return Text("")
    told = ", ".join(f"{name} {count:,} times" for name, count in view.retry_counts.items())
    return _fitting(Text(f"tried again: {told}", "yellow"))


@contextmanager
def live_view(status: PipelineStatus) -> Iterator[None]:
    """Draw the pipeline while the block runs. Of log lines only warnings and errors are printed, above the view."""
    from directkafka.monitoring.lag import LagReader

    reader = LagReader(status)

    def positions() -> tuple[PartitionPosition, ...]:
        reader.begin()
        return tuple(position for view in reader.finish(0) for position in view.aged(time.monotonic()))

    view = LiveView(status, positions)
    with (
        warnings_alone(),
        Live(get_renderable=view.__rich__, console=messages, refresh_per_second=_DRAWN_PER_S, redirect_stdout=False),
    ):
        yield
