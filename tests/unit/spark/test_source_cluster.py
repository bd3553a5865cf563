"""What is done about a loss that may pass."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.planning.snapshots import seen, snapshot

from directkafka.errors import DataLossError, TopicNotFoundError
from directkafka.errors.data_loss import (
    CouldNotReadOffsetRangeError,
    PartitionOffsetChangedError,
    PartitionsDeletedError,
    TopicRecreatedError,
)
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.planning.loss import STANDING_STILL, Loss
from directkafka.planning.plan import BatchPlan
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark import source_cluster
from directkafka.spark.cluster import Cluster
from directkafka.spark.source_cluster import CONFIRM_LOSS_S, confirm_loss

FIRST: Any = "first view"
SECOND: Any = "second view"


class Looks:
    """Decides, and says which views have a loss."""

    def __init__(self, *losses: object) -> None:
        self.losses = losses
        self.events: list[object] = []

    def decide(self, snapshot: Any) -> str:
        self.events.append(snapshot)
        if snapshot in self.losses:
            raise CouldNotReadOffsetRangeError(topic="flights", partition=0, lost_from=1, lost_until=2, detail="gone")
        return f"from the {snapshot}"

    def look_again(self) -> Any:
        self.events.append("look")
        return SECOND

    def __call__(self) -> tuple[Any, str]:
        return confirm_loss(self.decide, FIRST, look_again=self.look_again, wait=self.events.append)


def test_a_decision_without_a_loss_needs_one_look() -> None:
    looks = Looks()
    assert looks() == (FIRST, "from the first view")
    assert looks.events == [FIRST]


def test_a_loss_is_looked_at_again_after_a_while_and_the_second_view_counts() -> None:
    looks = Looks(FIRST)
    assert looks() == (SECOND, "from the second view")
    assert looks.events == [FIRST, CONFIRM_LOSS_S, "look", SECOND]


def test_a_loss_that_stands_is_believed() -> None:
    with pytest.raises(DataLossError):
        Looks(FIRST, SECOND)()


def test_a_range_that_a_program_gives_is_lost_only_if_it_is_at_the_second_look_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic_partition = TopicPartition("flights", 0)
    there = snapshot({topic_partition: seen(0, 100)})
    looks = [snapshot({}), there]

    class Stale(Cluster):
        def snapshot(self, partitions: Any) -> ClusterSnapshot:
            return looks.pop(0)

    monkeypatch.setattr(source_cluster, "Cluster", Stale)
    (task,), cluster_snapshot = source_cluster.tasks_of_ranges(
        {"bootstrap.servers": "h:1"}, [OffsetRange("flights", 0, 5, 9)], columns=("value",)
    )
    assert (cluster_snapshot, looks, task.range.until_offset) == (there, [], 9)


def losing(*error_types: type[DataLossError]) -> BatchPlan:
    losses = tuple(Loss(error_type, TopicPartition("flights", 0), 1, 2, "gone") for error_type in error_types)
    return BatchPlan(ranges=(), progress=(), losses=losses, behind={})


@pytest.mark.parametrize(
    ("conditions", "harmless", "looks"),
    [
        ((), STANDING_STILL, 1),
        ((TopicRecreatedError,), STANDING_STILL, 2),
        ((PartitionsDeletedError, PartitionOffsetChangedError), STANDING_STILL, 1),
        ((PartitionsDeletedError, CouldNotReadOffsetRangeError), STANDING_STILL, 2),
        ((PartitionsDeletedError,), (), 2),
    ],
)
def test_a_loss_that_is_accepted_is_looked_at_again_too_unless_nothing_is_passed_over_for_it(
    conditions: tuple[type[DataLossError], ...], harmless: frozenset[type[DataLossError]], looks: int
) -> None:
    seen: list[Any] = []

    def decide(snapshot: Any) -> BatchPlan:
        seen.append(snapshot)
        return losing(*conditions)

    confirm_loss(decide, FIRST, look_again=lambda: SECOND, wait=lambda _: None, harmless=harmless)
    assert seen == [FIRST, SECOND][:looks]


def test_other_errors_are_not_looked_at_again() -> None:
    def decide(snapshot: Any) -> str:
        raise TopicNotFoundError(topics=("flights",), addresses=("h:1",))

    with pytest.raises(TopicNotFoundError):
        confirm_loss(decide, FIRST, look_again=lambda: pytest.fail("it looked again"))
