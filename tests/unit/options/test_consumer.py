"""Consumer strategies: what is refused before a stream exists."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from directkafka.errors import OptionError
from directkafka.offsets import TopicPartition
from directkafka.options.consumer import Assign, ConsumerOptions, ConsumerStrategy, Subscribe, SubscribePattern
from directkafka.options.source import AssignedPartitions, Strategy, TopicNames, TopicPattern

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
def test_a_start_in_what_is_not_read_is_refused_by_name(strategy: ConsumerStrategy, named: str) -> None:
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
    strategy: ConsumerStrategy, read: Strategy, offsets: dict[TopicPartition, int] | None
) -> None:
    options = ConsumerOptions.read(replace(strategy, offsets=offsets))
    assert (options.strategy, dict(options.offsets)) == (read, offsets or {})


def test_starts_in_what_is_read_are_taken() -> None:
    assert ConsumerOptions.read(Assign([FIRST, SECOND], PARAMS, {SECOND: 7})).offsets == {SECOND: 7}
    assert ConsumerOptions.read(Subscribe("flights", PARAMS, {FIRST: 3})).offsets == {FIRST: 3}
    assert ConsumerOptions.read(SubscribePattern("fl.*", PARAMS, {FIRST: 3})).offsets == {FIRST: 3}


def test_an_offset_below_zero_is_refused() -> None:
    with pytest.raises(OptionError, match="expected an offset from 0, found -2 for flights-0"):
        ConsumerOptions.read(Assign([FIRST], PARAMS, {FIRST: -2}))
