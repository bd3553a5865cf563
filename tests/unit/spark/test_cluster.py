"""A progress report's offsets as numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from directkafka import TopicPartition, lag

LATEST, END = {"t": {"0": 100, "1": 50}}, {"t": {"0": 70, "1": 50}}


def report(*sources: tuple[Any, Any]) -> dict[str, Any]:
    return {"sources": [{"latestOffset": latest, "endOffset": end} for latest, end in sources]}


@pytest.mark.parametrize("form", [lambda offsets: offsets, json.dumps], ids=["objects", "texts"])
def test_a_partition_s_lag_is_what_the_log_has_beyond_the_batch(form: Any) -> None:
    assert lag(report((form(LATEST), form(END)))) == {TopicPartition("t", 0): 30, TopicPartition("t", 1): 0}


def test_of_two_sources_of_one_partition_the_one_behind_counts() -> None:
    assert lag(report((LATEST, END), (LATEST, LATEST)))[TopicPartition("t", 0)] == 30


def test_what_is_no_kafka_source_is_passed_over() -> None:
    assert lag(report((None, None), ("12", "7"), (17, 17), ("not JSON", "{}"), ([1], [2]))) == {}


def test_a_partition_that_no_batch_has_reached_and_one_that_shrank_have_no_negative_lag() -> None:
    assert lag(report(({"t": {"0": 5, "1": 9}}, {"t": {"0": 7}}))) == {TopicPartition("t", 0): 0}
