"""Plots of pipelines with matplotlib, which an extra brings."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from directkafka.operations.offsets import look_at_offsets
from directkafka.operations.target import unique_stores
from directkafka.options.texts import check_installed
from directkafka.plain_text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from directkafka.pipeline.pipeline import Pipeline

#: Bars of a plot; the other partitions are one bar together.
_BARS_MAX: Final = 30


def plot_lag(pipeline: Pipeline, axes: Axes | None = None) -> Axes:
    """Draw how many records of each partition a pipeline has not read yet, the furthest behind at the top.

    It may run meanwhile, here or elsewhere: the ledgers and Kafka are asked.

    Args:
        pipeline: which.
        axes: where to draw; new ones by default.

    Returns:
        The axes. A bar's label says how old the first unread record is, in seconds.

    Raises:
        OptionError: the extra ``plot`` is not installed.
        DirectKafkaError: Kafka or a store does not answer.
    """
    check_installed("matplotlib", extra="plot", option="plot_lag")
    from matplotlib import pyplot

    with ExitStack() as ending:
        stores = [route.sink.store for route in pipeline.routes_to_look_at()]
        for store in stores:
            ending.callback(store.close)
        positions = look_at_offsets(pipeline.name, pipeline.source_options, unique_stores(stores))
    furthest = sorted(positions, key=lambda position: -(position.lag or 0))
    bars = [
        (one_line(f"{position.topic}-{position.partition}"), position.lag or 0, position.lag_seconds)
        for position in furthest[:_BARS_MAX]
    ]
    if left := furthest[_BARS_MAX:]:
        bars.append((f"{len(left):,} more", sum(position.lag or 0 for position in left), None))
    drawn = pyplot.subplots(figsize=(8, 1 + 0.3 * len(bars)))[1] if axes is None else axes
    container = drawn.barh([name for name, _, _ in bars], [lag for _, lag, _ in bars])
    drawn.bar_label(container, ["" if age is None else f" {age:,.0f} s" for _, _, age in bars])
    drawn.invert_yaxis()
    drawn.set_xlabel("unread offsets")
    drawn.set_title(f"Lag of {pipeline.name}: {sum(position.lag or 0 for position in positions):,}")
    return drawn
