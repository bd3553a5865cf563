"""A pipeline must not read what it writes: each row would come back as a record, without end.

Under a pattern that happens unnoticed, perhaps with a topic that is made long after the pipeline was started. So the
sinks are told which topics are read: they refuse their own topic before the first batch (``check`` and every start),
and in each batch the topics that rows name. No topic has to exist for that: the names are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from directkafka.options import SourceOptions
from directkafka.pipeline.execution.routes import Binding
from directkafka.planning.subscription import reads
from directkafka.spark.source_cluster import SourceCluster

__all__ = ["ReadTopics", "tell_sinks_what_is_read"]


class ReadTopics:
    """Says of a topic of a sink's cluster whether the pipeline reads it.

    Args:
        options: the source's.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __call__(self, topic: str, cluster_id: Callable[[], str]) -> bool:
        """Whether it is read.

        Args:
            topic: a topic's name.
            cluster_id: finds Kafka's id of the topic's cluster; it is asked when the name is one of those read.

        Raises:
            DirectKafkaError: one of the two clusters does not answer.
        """
        return reads(self._options.strategy, topic) and cluster_id() == self._cluster_id

    @cached_property
    def _cluster_id(self) -> str:
        cluster = SourceCluster(self._options)
        try:
            return cluster.cluster_id()
        finally:
            cluster.close()


def tell_sinks_what_is_read(bindings: Sequence[Binding], options: SourceOptions, *, pipeline: str) -> None:
    """Tell the sinks that write into topics what their pipeline reads.

    Args:
        bindings: the pipeline's sinks.
        options: of its source.
        pipeline: its name.
    """
    for binding in bindings:
        binding.sink.leave_alone(ReadTopics(options), pipeline=pipeline)
