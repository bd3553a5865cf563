"""The lag of a pipeline that has several sources."""

from __future__ import annotations

from directkafka.monitoring.lag import LagView, by_cluster
from directkafka.operations.positions import PartitionPosition


def position(partition: int, lag: int) -> PartitionPosition:
    return PartitionPosition(
        topic="air", partition=partition, earliest=0, current=10, end=10 + lag, lag=lag, lag_seconds=1.0
    )


def test_a_partition_that_two_sources_read_counts_once_and_one_of_another_cluster_for_itself() -> None:
    views = [
        LagView(cluster_id="c", taken_s=1.0, positions=(position(0, 90), position(1, 5))),
        LagView(cluster_id="c", taken_s=1.5, positions=(position(0, 90), position(2, 7))),
        LagView(cluster_id="other", taken_s=1.5, positions=(position(0, 3),)),
    ]
    merged = by_cluster(views)
    assert [(view.cluster_id, view.taken_s) for view in merged] == [("c", 1.0), ("other", 1.5)]
    assert [[(each.partition, each.lag) for each in view.positions] for view in merged] == [
        [(0, 90), (1, 5), (2, 7)], [(0, 3)],
    ]  # fmt: skip
