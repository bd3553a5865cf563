from __future__ import annotations

from collections.abc import Mapping

import pytest

from directkafka.errors import OptionError
from directkafka.offsets import TopicPartition
from directkafka.options.source import AssignedPartitions, ChosenPartitions, Strategy, TopicNames, TopicPattern
from directkafka.planning.subscription import Selection, reads, select

CLUSTER = {"flights": 2, "flights_late": 1, "routes": 1, "__consumer_offsets": 50}
INTERNAL = {"__consumer_offsets"}


def tps(*names: str) -> tuple[TopicPartition, ...]:
    split = (name.rsplit("-", 1) for name in names)
    return tuple(TopicPartition(topic, int(partition)) for topic, partition in split)


def test_all_partitions_of_subscribed_topics_are_read() -> None:
    selection = select(TopicNames(("routes", "flights")), CLUSTER, INTERNAL)
    assert selection == Selection(tps("flights-0", "flights-1", "routes-0"))


def test_a_subscribed_topic_that_does_not_exist_is_named_as_missing() -> None:
    selection = select(TopicNames(("routes", "rails", "boats")), CLUSTER, INTERNAL)
    assert selection == Selection(tps("routes-0"), missing=("boats", "rails"))


def test_an_internal_topic_is_read_when_it_is_named() -> None:
    assert len(select(TopicNames(("__consumer_offsets",)), CLUSTER, INTERNAL).partitions) == 50


def test_a_pattern_is_searched_for_anywhere_in_the_name() -> None:
    assert select(TopicPattern("light"), CLUSTER, INTERNAL) == Selection(
        tps("flights-0", "flights-1", "flights_late-0")
    )
    assert select(TopicPattern("^flights$"), CLUSTER, INTERNAL) == Selection(tps("flights-0", "flights-1"))


def test_a_pattern_never_reads_internal_topics() -> None:
    assert {topic_partition.topic for topic_partition in select(TopicPattern("."), CLUSTER, INTERNAL).partitions} == {
        "flights",
        "flights_late",
        "routes",
    }


def test_what_a_function_chooses_is_read_as_far_as_it_is_there() -> None:
    asked: list[Mapping[str, int]] = []

    def choose(topics: Mapping[str, int]) -> list[TopicPartition]:
        asked.append(topics)
        return list(tps("routes-0", "flights-1", "flights-1", "flights-7", "rails-0"))

    assert select(ChosenPartitions(choose), CLUSTER, INTERNAL) == Selection(tps("flights-1", "routes-0"))
    assert asked == [{"flights": 2, "flights_late": 1, "routes": 1}]


def test_a_choice_that_is_no_list_of_partitions_is_refused() -> None:
    with pytest.raises(OptionError, match="choose"):
        select(ChosenPartitions(lambda _: ["flights"]), CLUSTER, INTERNAL)  # type: ignore[list-item]


LEDGERS = {"directkafka.ledger.flights": 1, "directkafka.ledger.other": 1}


def test_a_pattern_never_reads_ledgers_of_pipelines_and_a_name_does() -> None:
    assert select(TopicPattern("flights"), CLUSTER | LEDGERS, INTERNAL) == select(
        TopicPattern("flights"), CLUSTER, INTERNAL
    )
    assert select(TopicNames(tuple(LEDGERS)), CLUSTER | LEDGERS, INTERNAL).partitions == tps(
        "directkafka.ledger.flights-0", "directkafka.ledger.other-0"
    )


@pytest.mark.parametrize(
    ("strategy", "read"),
    [
        (TopicNames(("flights", "rails")), {"flights", "rails"}),
        (TopicPattern("^f"), {"flights", "flights_late"}),
        (TopicPattern("."), {"flights", "flights_late", "routes", "rails"}),
        (AssignedPartitions(tps("flights-1", "rails-9")), {"flights", "rails"}),
    ],
)
def test_whether_a_topic_is_read_is_a_matter_of_its_name_be_it_there_or_not(strategy: Strategy, read: set[str]) -> None:
    names = {"flights", "flights_late", "routes", "rails", *LEDGERS}
    assert {topic for topic in names if reads(strategy, topic)} == read


def test_a_pattern_that_is_found_nowhere_reads_nothing_and_misses_nothing() -> None:
    assert select(TopicPattern("nothing"), CLUSTER, INTERNAL) == Selection(())


def test_assigned_partitions_that_do_not_exist_are_passed_over() -> None:
    strategy = AssignedPartitions(tps("flights-1", "flights-2", "rails-0"))
    assert select(strategy, CLUSTER, INTERNAL) == Selection(tps("flights-1"))


def test_assigned_partitions_of_which_none_exists_have_missing_topics() -> None:
    strategy = AssignedPartitions(tps("flights-7", "rails-0", "rails-1"))
    assert select(strategy, CLUSTER, INTERNAL) == Selection((), missing=("flights", "rails"))
