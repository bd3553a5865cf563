"""Consumer strategies: what is refused before a stream exists."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from directkafka.errors import OptionError
from directkafka.offsets import (
    Ago,
    AtTimestamp,
    BeforeLatest,
    Committed,
    Earliest,
    Exact,
    Latest,
    Position,
    TopicPartition,
)
from directkafka.options.consumer import (
    Assign,
    ConsumerOptions,
    ConsumerStrategy,
    GivenStrategy,
    Subscribe,
    SubscribePattern,
)
from directkafka.options.source import AssignedPartitions, ChosenPartitions, Strategy, TopicNames, TopicPattern

PARAMS = {"bootstrap.servers": "h:1"}
FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)


@pytest.mark.parametrize(
    ("strategy", "named"),
    [
        (Assign([FIRST], PARAMS, {SECOND: 7}), "flights-1"),
        (Subscribe("flights", PARAMS, {TopicPartition("fligths", 0): 7, FIRST: 3}), "fligths-0"),
        (Subscribe(["flights", "delays"], PARAMS, {TopicPartition("other", 1): 7}), "other-1"),
    ],
)
def test_a_start_in_what_is_not_read_is_refused_by_name(strategy: GivenStrategy, named: str) -> None:
    with pytest.raises(OptionError, match=f"names what is not read: {re.escape(named)}\\.$"):
        ConsumerOptions.read(strategy)


@pytest.mark.parametrize(
    ("strategy", "read"),
    [
        (Subscribe("flights", PARAMS), TopicNames(("flights",))),
        (Subscribe(["flights", "delays"], PARAMS), TopicNames(("flights", "delays"))),
        (Subscribe(("flights",), PARAMS), TopicNames(("flights",))),
        (SubscribePattern("fl.*", PARAMS), TopicPattern("fl.*")),
        (Assign([FIRST, SECOND], PARAMS), AssignedPartitions((FIRST, SECOND))),
        (Assign({FIRST}, PARAMS), AssignedPartitions((FIRST,))),
    ],
)
@pytest.mark.parametrize("offsets", [None, {}, {FIRST: 3}])
def test_a_strategy_takes_topics_partitions_and_offsets_in_every_form(
    strategy: Subscribe | SubscribePattern | Assign, read: Strategy, offsets: dict[TopicPartition, int] | None
) -> None:
    options = ConsumerOptions.read(replace(strategy, offsets=offsets))
    expected = {partition: Exact(offset) for partition, offset in (offsets or {}).items()}
    assert (options.strategy, dict(options.offsets)) == (read, expected)


def test_starts_in_what_is_read_are_taken() -> None:
    assert ConsumerOptions.read(Assign([FIRST, SECOND], PARAMS, {SECOND: 7})).offsets == {SECOND: Exact(7)}
    assert ConsumerOptions.read(Subscribe("flights", PARAMS, {FIRST: 3})).offsets == {FIRST: Exact(3)}
    assert ConsumerOptions.read(SubscribePattern("fl.*", PARAMS, {FIRST: 3})).offsets == {FIRST: Exact(3)}


def test_an_offset_below_zero_is_refused() -> None:
    with pytest.raises(OptionError, match="expected an offset from 0, found -2 for flights-0"):
        ConsumerOptions.read(Assign([FIRST], PARAMS, {FIRST: -2}))


@pytest.mark.parametrize(
    ("where", "position"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("-1000", BeforeLatest(1000)),
        ("-10 minutes", Ago(600_000)),
        (datetime(2026, 1, 1, tzinfo=UTC), AtTimestamp(1_767_225_600_000)),
    ],
)
def test_a_start_may_be_relative_or_a_time(where: str | datetime, position: Position) -> None:
    assert ConsumerOptions.read(Assign([FIRST], PARAMS, {FIRST: where})).offsets == {FIRST: position}


def test_a_start_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="option 'offsets': expected earliest, latest"):
        ConsumerOptions.read(Assign([FIRST], PARAMS, {FIRST: "tomorrow"}))


@pytest.mark.parametrize(
    ("reset", "position"),
    [
        ("earliest", Earliest()),
        ("LATEST", Latest()),
        ("none", None),
        ("by_duration:PT10M", Ago(600_000)),
        ("by_duration:P1DT2H", Ago(93_600_000)),
        ("by_duration:PT0.5S", Ago(500)),
        ("by_duration:PT0S", Ago(0)),
    ],
)
def test_a_reset_is_a_word_or_a_duration_back_from_now(reset: str, position: Position | None) -> None:
    params = {**PARAMS, "auto.offset.reset": reset}
    assert ConsumerOptions.read(Assign([FIRST], params)).otherwise == position
    with_group = ConsumerOptions.read(Assign([FIRST], {**params, "group.id": "g"})).otherwise
    assert with_group == Committed("g", position)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "reset",
    ["newest", "by_duration", "by_duration:", "by_duration:10 minutes", "by_duration:P", "by_duration:PT",
     "by_duration:-PT1M", "by_duration:PT-1M", "by_duration:P1Y", "by_duration:PT1M1H", "by_duration:PT\u0663S",
     "by_duration:PT" + "9" * 400 + "S"],
)  # fmt: skip
def test_any_other_reset_is_refused(reset: str) -> None:
    with pytest.raises(OptionError, match=r"option 'auto.offset.reset' in kafka_params: expected earliest"):
        ConsumerOptions.read(Assign([FIRST], {**PARAMS, "auto.offset.reset": reset}))


class EvenPartitions(ConsumerStrategy):
    """Every other partition of the topics that are not somebody else's."""

    kafka_params = PARAMS

    def choose(self, topics: Mapping[str, int]) -> Iterable[TopicPartition]:
        return [
            TopicPartition(topic, partition)
            for topic, count in topics.items()
            for partition in range(0, count, 2)
            if not topic.startswith("other")
        ]


def test_a_strategy_of_one_s_own_chooses_and_can_be_kept_in_a_checkpoint() -> None:
    read = pickle.loads(pickle.dumps(ConsumerOptions.read(EvenPartitions())))
    assert isinstance(read.strategy, ChosenPartitions)
    assert read.strategy.choose({"flights": 3, "others": 1}) == [FIRST, TopicPartition("flights", 2)]
