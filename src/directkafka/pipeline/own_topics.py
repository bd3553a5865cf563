"""A pipeline must not read what it writes: each row would come back as a record, without end.

Under a pattern that happens unnoticed, perhaps with a topic that is made long after the pipeline was started. So the
sinks are told which topics are read: they refuse their own topic before the first batch (``check`` and every start),
and in each batch the topics that rows name. No topic has to exist for that: the names are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

from directkafka.options import SourceOptions
from directkafka.pipeline.execution.routes import Binding
from directkafka.planning.subscription import reads
from directkafka.spark.source_cluster import SourceCluster

__all__ = ["ReadTopics", "TopicSink", "tell_sinks_what_is_read"]


class ReadTopics:
    """Says of a topic of a sink's cluster whether the pipeline reads it.

    Args:
        options: the source's.
        sink: whose cluster counts; it is asked when names are the same.
    """

    def __init__(self, options: SourceOptions, sink: TopicSink) -> None:
        self._options = options
        self._sink = sink

    def __call__(self, topic: str) -> bool:
        """Whether it is read.

        Raises:
            DirectKafkaError: one of the two clusters does not answer.
        """
        return reads(self._options.strategy, topic) and self._is_one_cluster

    @cached_property
    def _is_one_cluster(self) -> bool:
        cluster = SourceCluster(self._options)
        try:
            return cluster.cluster_id() == self._sink.cluster_id()
        finally:
            cluster.close()


@runtime_checkable
class TopicSink(Protocol):
    """A sink that writes into topics of a Kafka cluster."""

    def cluster_id(self) -> str:
        """Kafka's id of the cluster. (No property: to look for one is to ask for it.)"""
        ...

    def leave_alone(self, is_read: ReadTopics, *, pipeline: str) -> None:
        """Refuse to write to topics that the pipeline of this name reads."""
        ...


def tell_sinks_what_is_read(bindings: Sequence[Binding], options: SourceOptions, *, pipeline: str) -> None:
    """Tell the sinks that write into topics what their pipeline reads.

    Args:
        bindings: the pipeline's sinks.
        options: of its source.
        pipeline: its name.
    """
    for binding in bindings:
        sink = binding.sink
        if isinstance(sink, TopicSink):
            sink.leave_alone(ReadTopics(options, sink), pipeline=pipeline)
