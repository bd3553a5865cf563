"""``directkafka adopt`` and ``directkafka restart``: the ways out of a LineageError, for a pipeline with a file."""

from __future__ import annotations

from contextlib import closing

from directkafka.errors import OptionError
from directkafka.offsets import TopicPartition
from directkafka.pipeline.pipeline import Pipeline
from directkafka.pipeline.structured import restart
from directkafka.pipeline.structured.restart import LedgerChange, Origin
from directkafka.planning.plan import PlanPolicy, plan_origin
from directkafka.sinks.api import Sink
from directkafka.spark.source_cluster import SourceCluster


def adopt_pipeline(pipeline: Pipeline, *, confirm: bool) -> tuple[LedgerChange, ...]:
    """Let a pipeline's ledger follow its checkpoint, which must stand where the ledger ends.

    Raises:
        OptionError: the pipeline has no checkpoint.
        DirectKafkaError: as :func:`directkafka.adopt`.
    """
    checkpoint = _checkpoint_of(pipeline)
    return restart.adopt(
        pipeline.name, _sinks_of(pipeline), checkpoint=checkpoint, confirm=confirm, spark=pipeline.session()
    )


def restart_pipeline(pipeline: Pipeline, *, origin: Origin, confirm: bool) -> tuple[LedgerChange, ...]:
    """Let a pipeline go on with another checkpoint.

    Where the checkpoint is new and believed, the numbers are those of the source's start as of now.

    Raises:
        OptionError: the pipeline has no checkpoint.
        DirectKafkaError: as :func:`directkafka.restart`; Kafka cannot be asked.
    """
    checkpoint = _checkpoint_of(pipeline)
    return restart.restart(
        pipeline.name,
        _sinks_of(pipeline),
        checkpoint=checkpoint,
        origin=origin,
        starts=_starts(pipeline) if origin == "checkpoint" else None,
        confirm=confirm,
        spark=pipeline.session(),
    )


def _checkpoint_of(pipeline: Pipeline) -> str:
    if pipeline.checkpoint is None:
        raise OptionError(
            option="engine",
            where=f"pipeline {pipeline.name!r}",
            reason="under the direct engine the ledger is the checkpoint; there is nothing to compare it with",
        )
    return pipeline.checkpoint


def _sinks_of(pipeline: Pipeline) -> list[Sink]:
    return [route.sink for route in pipeline.routes]


def _starts(pipeline: Pipeline) -> dict[TopicPartition, int]:
    """Where the source would start now."""
    options = pipeline.source_options
    with closing(SourceCluster(options)) as cluster:
        snapshot = cluster.snapshot(must_exist=True)
        policy = PlanPolicy(fail_on_data_loss=options.fail_on_data_loss)
        return plan_origin(options.starting, snapshot, cluster.lookups(options.starting, snapshot), policy).ends()
