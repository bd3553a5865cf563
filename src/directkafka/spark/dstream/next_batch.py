"""What the next batch of a direct stream reads: asked of the cluster, decided by :mod:`directkafka.planning.direct`."""

from __future__ import annotations

from dataclasses import replace

from directkafka.errors import OptionError
from directkafka.planning.direct import DirectBatch, added_partitions, plan_direct, start_positions
from directkafka.spark.dstream.state import StreamPlan, StreamState, rates_of
from directkafka.spark.second_look import believed
from directkafka.spark.source_cluster import SourceCluster
from directkafka.view import ClusterView

__all__ = ["next_batch"]


def next_batch(
    plan: StreamPlan, state: StreamState, cluster: SourceCluster, view: ClusterView
) -> tuple[ClusterView, DirectBatch]:
    """Decide on the next batch; what looks like a loss is looked at again.

    Args:
        plan: what the program decides.
        state: where the stream is.
        cluster: to look up where new partitions start.
        view: the partitions as the cluster has just shown them.

    Returns:
        The view that it was decided on, and the batch.

    Raises:
        OptionError: offsets are given for partitions that are not there.
        DataLossError: records that should be read are gone.
    """

    def decide(view: ClusterView) -> DirectBatch:
        if not state.ranges and (strange := plan.options.offsets.keys() - view.partitions.keys()):
            shown = ", ".join(map(str, sorted(strange)))
            raise OptionError(option="offsets", reason=f"names partitions that are not there: {shown}")
        starts = start_positions(plan.options, added_partitions(state.progress, view))
        new = replace(view, partitions={one: view.partitions[one] for one in starts.partitions})
        return plan_direct(
            state.progress,
            view,
            starts=starts,
            found=cluster.lookups(starts, new),
            rates=plan.rates,
            interval_ms=plan.interval_ms,
            rate=state.feedback.rate,
            partition_rates=rates_of(plan.partition_config, view.partitions),
        )

    return believed(decide, view, look_again=lambda: cluster.view(fresh=True, known=state.progress))
