"""Leaders that a program knows already."""

from __future__ import annotations

from typing import Any

import pytest

from directkafka.errors import OptionError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.spark.rdd.rdd import _led

CLIENT = ClientOptions(bootstrap_servers=("b:9092",))
TASK = RangeTask(range=OffsetRange("t", 0, 0, 1), topic_id="", host="found", port=1, client=CLIENT)


@pytest.mark.parametrize(
    ("leaders", "expected"),
    [
        ({}, ("found", 1)),
        ({TopicPartition("t", 1): "other:9092"}, ("found", 1)),
        ({TopicPartition("t", 0): "given:9092"}, ("given", 9092)),
        ({TopicPartition("t", 0): "[::1]:65535"}, ("[::1]", 65535)),
    ],
)
def test_a_task_asks_the_leader_that_is_given(leaders: dict[TopicPartition, str], expected: tuple[str, int]) -> None:
    task = _led(TASK, leaders)
    assert (task.host, task.port) == expected


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":9092", "host:x", "host:0", "host:65536", "host:\u0663", "h:" + "9" * 5000, 9092]
)
def test_what_is_no_address_is_refused(address: Any) -> None:
    with pytest.raises(OptionError, match="expected host:port") as caught:
        _led(TASK, {TopicPartition("t", 0): address})
    assert len(str(caught.value)) < 500
