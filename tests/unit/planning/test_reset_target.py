"""Where a reset goes: which partitions, and which positions they get."""

from __future__ import annotations

import pytest

from directkafka.errors import OptionError
from directkafka.offsets import Ago, Earliest, Exact, TopicPartition
from directkafka.planning.reset_target import (
    Listed,
    ShiftBy,
    TopicChoice,
    chosen_partitions,
    only,
    parse_moment,
    reset_positions,
)
from directkafka.snapshot import ClusterSnapshot, PartitionSnapshot


def topic_partition(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, partition)


AIR, SEA = [topic_partition("air", 0), topic_partition("air", 1)], [topic_partition("sea", 0)]

SNAPSHOT = ClusterSnapshot(
    cluster_id="c",
    partitions={
        partition: PartitionSnapshot(
            topic_id="id", leader=1, leader_host="one", leader_port=9092, leader_epoch=0, earliest=5, latest=20
        )
        for partition in [*AIR, *SEA]
    },
    taken_at_ms=1_700_000_000_000,
)


@pytest.mark.parametrize(
    ("choices", "chosen"),
    [
        ([], [*AIR, *SEA]),
        (["air"], AIR),
        (["sea", "air:1"], [topic_partition("air", 1), topic_partition("sea", 0)]),
        (["air:1,0,1"], AIR),
    ],
)
def test_all_that_is_read_is_reset_or_what_is_chosen(choices: list[str], chosen: list[TopicPartition]) -> None:
    partitions = chosen_partitions([TopicChoice.parse(text) for text in choices], Earliest(), SNAPSHOT)
    assert list(partitions) == chosen


def test_of_a_list_those_that_are_listed_and_chosen() -> None:
    listed = Listed({topic_partition("air", 0): 7, topic_partition("sea", 0): 8})
    assert chosen_partitions([], listed, SNAPSHOT) == (topic_partition("air", 0), topic_partition("sea", 0))
    assert chosen_partitions([TopicChoice("sea")], listed, SNAPSHOT) == (topic_partition("sea", 0),)


@pytest.mark.parametrize(
    ("choices", "to", "message"),
    [
        ([TopicChoice("rail")], Earliest(), "does not read rail-0; it reads air, sea"),
        ([TopicChoice("air", (0, 7))], Earliest(), "does not read air-7; it reads air, sea"),
        ([], Listed({topic_partition("air", 9): 1}), "does not read air-9; it reads air, sea"),
        ([TopicChoice("sea")], Listed({topic_partition("air", 0): 1}), "have no partition that could be reset"),
    ],
)
def test_what_is_not_read_cannot_be_reset(choices: list[TopicChoice], to: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        chosen_partitions(choices, to, SNAPSHOT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", ":1", "air:", "air:one", "air:1,", "air:-1", "air:1:2", "air:٣", "air:" + "9" * 10]
)
def test_a_choice_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"expected topic or topic:0,1"):
        TopicChoice.parse(text)


def test_a_shift_counts_from_where_the_pipeline_is_or_would_begin_and_never_goes_below_zero() -> None:
    current = {topic_partition("air", 0): 12, topic_partition("sea", 0): 3}
    assert reset_positions(ShiftBy(-5), [*AIR, *SEA], current, SNAPSHOT).partitions == {
        topic_partition("air", 0): Exact(7), topic_partition("air", 1): Exact(0), topic_partition("sea", 0): Exact(0),
    }  # fmt: skip


def test_other_positions_are_those_of_a_start_and_nothing_recent_is_the_end() -> None:
    positions = reset_positions(Ago(1000), AIR, {}, SNAPSHOT)
    assert (positions.default, dict(positions.partitions), positions.latest_if_no_match) == (Ago(1000), {}, True)


def test_a_snapshot_is_narrowed_to_what_is_chosen() -> None:
    assert list(only(SNAPSHOT, SEA).partitions) == SEA


@pytest.mark.parametrize("text", ["1712010112345", "1969-12-31T23:59:59"])
def test_a_time_before_1970_is_refused_and_so_is_a_number_that_looks_like_one(text: str) -> None:
    """It would be the beginning of everything."""
    with pytest.raises(OptionError, match=f"expected a time in ISO 8601.*{text}"):
        parse_moment(text, option="--to-datetime")
