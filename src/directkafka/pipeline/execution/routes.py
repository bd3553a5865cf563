"""Routes from a transform's outputs to sinks: which output goes where, and never into a topic that the pipeline reads.

A pipeline must not read what it writes: each row would come back as a record, without end.

With a topic pattern, that can happen unnoticed, even with a topic that is made long after the pipeline has started. So
sinks are told which topics are read. A topic that is read is refused before the first batch (``check`` and every start)
if it is the sink's own, and in each batch if rows name it. It need not exist: names and clusters are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from directkafka.errors import OptionError
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.native.arrow_transform import DEFAULT_OUTPUT
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.planning.subscription import reads
from directkafka.sinks.api import Sink
from directkafka.spark.source_cluster import SourceCluster

#: One sink or several for the only output, or a dict of them for named ones.
Sinks = Sink | Sequence[Sink] | Mapping[str, Sink | Sequence[Sink]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One of the transform's outputs, by name, into one sink."""

    output: str
    sink: Sink


def route_outputs(sinks: Sinks, dead_letters: Sink | None = None) -> tuple[Route, ...]:
    """The routes, in the order given; the one of rejected records comes last.

    Raises:
        OptionError: there is no sink, or ``sinks`` names the output of rejected records.
    """
    named = sinks if isinstance(sinks, Mapping) else {DEFAULT_OUTPUT: sinks}
    routes = tuple(
        Route(output=output, sink=sink) for output, output_sinks in named.items() for sink in _as_sequence(output_sinks)
    )
    if not routes:
        raise OptionError(option="sinks", reason="a pipeline needs at least one sink")
    if any(route.output == DEAD_LETTERS for route in routes):
        raise OptionError(option="sinks", reason=f"the sink of {DEAD_LETTERS!r} is given by itself: dead_letters = ...")
    return routes if dead_letters is None else (*routes, Route(output=DEAD_LETTERS, sink=dead_letters))


def cloned(routes: Sequence[Route]) -> tuple[Route, ...] | None:
    """The same routes with new sinks and stores, to look at them while the pipeline may run.

    Returns:
        None when a sink cannot be cloned, such as one of a user's own class.
    """
    made = [Route(output=route.output, sink=sink) for route in routes if (sink := route.sink.clone()) is not None]
    return tuple(made) if len(made) == len(routes) else None


def _as_sequence(sinks: Sink | Sequence[Sink]) -> Sequence[Sink]:
    """The sinks of an output; a list in the list is one that :meth:`SinkConfig.routed` has made."""
    if not isinstance(sinks, Sequence):
        return (sinks,)
    return [sink for sink_or_sinks in sinks for sink in _as_sequence(sink_or_sinks)]


class ReadTopics:
    """A function that says whether the pipeline reads a topic that a sink writes to.

    Args:
        options: of the pipeline's source.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __call__(self, topic: str, cluster_id: Callable[[], str]) -> bool:
        """Whether the pipeline reads the topic.

        Args:
            topic: a topic's name.
            cluster_id: returns Kafka's id of the topic's cluster; called only if a topic of this name is read.

        Raises:
            DirectKafkaError: one of the two clusters does not answer.
        """
        return reads(self._options.strategy, topic) and cluster_id() == self._cluster_id

    @cached_property
    def _cluster_id(self) -> str:
        with closing(SourceCluster(self._options)) as cluster:
            return cluster.cluster_id()


def tell_sinks_what_is_read(routes: Sequence[Route], options: SourceOptions, *, pipeline: str) -> None:
    """Tell the sinks that write into topics what their pipeline reads.

    Args:
        routes: the pipeline's sinks.
        options: of its source.
        pipeline: its name.

    """
    for route in routes:
        route.sink.leave_alone(ReadTopics(options), pipeline=pipeline)
