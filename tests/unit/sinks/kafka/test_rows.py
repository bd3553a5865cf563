"""What a DataFrame's columns must be, and where its rows go."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import RowRejectedError, StoreUnavailableError
from directkafka.kafka.producer.partitioner import key_hashes
from directkafka.kafka.records.arrow import HEADERS_TYPE
from directkafka.offsets import TopicPartition
from directkafka.sinks.api import TARGET
from directkafka.sinks.kafka.rows import (
    Destinations,
    TargetRouter,
    destinations_from_payload,
    destinations_of,
    destinations_to_payload,
    merge_destinations,
    problems_of,
)

VALUE = ("value", pa.binary())


def rows(**columns: tuple[Any, pa.DataType]) -> pa.RecordBatch:
    arrays = {name: pa.array(values, kind) for name, (values, kind) in columns.items()}
    count = len(next(iter(arrays.values())))
    return pa.record_batch({"value": pa.array([b"x"] * count, pa.binary()), **arrays})


def router(destinations: Destinations, counts: dict[str, int], topic: str | None = None) -> TargetRouter:
    return TargetRouter.of(destinations, counts, store="kafka", sink="flights", topic=topic)


@pytest.mark.parametrize(
    ("fields", "topic", "messages"),
    [
        ([VALUE], "flights", []),
        ([VALUE, ("topic", pa.string())], None, []),
        ([VALUE, ("key", pa.string()), ("headers", HEADERS_TYPE), ("partition", pa.int32())], "flights", []),
        ([VALUE, ("timestamp", pa.timestamp("us", tz="UTC"))], "flights", []),
        ([VALUE], None, ["neither an option topic"]),
        ([("key", pa.binary())], "flights", ["no column 'value'"]),
        ([VALUE, ("offset", pa.int64())], "flights", ["column 'offset' is none of key, value"]),
        ([("value", pa.int64()), ("partition", pa.int64())], "a", ["must be binary or string", "must be int"]),
        ([VALUE, ("headers", pa.list_(pa.string()))], "a", ["array<struct<key: string, value: binary>>"]),
    ],
)
def test_columns_that_make_no_record_are_named(fields: list[Any], topic: str | None, messages: list[str]) -> None:
    problems = problems_of(pa.schema(fields), topic=topic)
    assert len(problems) == len(messages)
    assert all(part in problem for part, problem in zip(messages, problems, strict=True))


def test_another_column_may_name_the_topic() -> None:
    fields = [VALUE, ("kind", pa.string()), ("topic", pa.int64())]
    assert problems_of(pa.schema(fields), topic=None, topic_from="kind") == []
    assert problems_of(pa.schema(fields[:1]), topic=None, topic_from="kind") == [
        "there is no column 'kind' (topic_from)"
    ]
    [problem] = problems_of(pa.schema([VALUE, ("kind", pa.int64())]), topic=None, topic_from="kind")
    assert problem == "column 'kind' of type int64 must be string"
    batch = rows(kind=(["a", "b", None], pa.string()), topic=([1, 2, 3], pa.int64()))
    assert destinations_of(batch, None, "kind") == {"a": None, "b": None, "": None}
    target_router = TargetRouter.of(
        {"a": None, "b": None}, {"a": 1, "b": 1}, store="k", sink="s", topic=None, topic_from="kind"
    )
    assert target_router.target_of(batch.slice(0, 2)).tolist() == [0, 1]
    with pytest.raises(RowRejectedError, match="its column 'kind' is null"):
        TargetRouter.of({"": None}, {}, store="k", sink="s", topic=None, topic_from="kind")


def test_rows_that_name_no_partition_aim_at_all_of_them() -> None:
    topics = (["a", "a", "b"], pa.string())
    batch = rows(topic=topics, partition=([1, 1, None], pa.int32()))
    assert destinations_of(batch, None) == {"a": frozenset({1}), "b": None}
    assert destinations_of(batch, "c") == {"c": None}
    merged = merge_destinations([{"a": frozenset({1})}, {"a": frozenset({2}), "b": frozenset()}, {"b": None}])
    assert merged == {"a": frozenset({1, 2}), "b": None}
    assert destinations_from_payload(destinations_to_payload(merged)) == merged


def test_a_partition_that_is_named_wins_over_the_key() -> None:
    keys = pa.array([b"k0", b"k1", b"k2"], pa.binary())
    batch = rows(key=(keys, pa.binary()), partition=([2, None, 0], pa.int32()))
    by_key = int(key_hashes(keys)[1]) % 3
    targets = router({"a": None}, {"a": 3}, "a").target_of(batch)
    assert targets.tolist() == [2, by_key, 0]


def test_each_topic_has_targets_of_its_own() -> None:
    target_router = router({"a": None, "b": frozenset({4})}, {"a": 2, "b": 5})
    assert target_router.targets == (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 4))
    batch = rows(topic=(["b", "a", "b"], pa.string()), partition=([4, 1, 4], pa.int32()))
    (routed,) = target_router(iter([batch]))
    assert routed.column(TARGET).to_pylist() == [2, 1, 2]


def test_rows_without_key_are_dealt_on_from_batch_to_batch() -> None:
    target_router = router({"a": None}, {"a": 3}, "a")
    routed = pa.Table.from_batches(target_router(iter([rows(key=([None] * 2, pa.binary()))] * 3)))
    assert sorted(routed.column(TARGET).to_pylist()) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("destinations", "message"),
    [({"a": frozenset({3})}, "names partition 3 of topic a"), ({"": None}, "'topic' is null")],
)
def test_a_row_that_has_nowhere_to_go_is_refused(destinations: Destinations, message: str) -> None:
    with pytest.raises(RowRejectedError, match=message):
        router(destinations, {"a": 3, "": 0})


def test_a_row_for_a_target_that_was_not_found_before_redoes_the_batch() -> None:
    """Lost blocks were computed again, from a transform that does not give the same twice."""
    target_router = router({"a": frozenset({0})}, {"a": 3})
    with pytest.raises(StoreUnavailableError, match="differs"):
        target_router.target_of(rows(topic=(["a"], pa.string()), partition=([1], pa.int32())))
    with pytest.raises(StoreUnavailableError, match="'b'"):
        target_router.target_of(rows(topic=(["b"], pa.string()), partition=([0], pa.int32())))


def test_a_partition_that_is_not_there_is_refused_beside_a_row_that_names_none() -> None:
    batch = rows(topic=(["a", "a"], pa.string()), partition=([None, 99], pa.int32()))
    with pytest.raises(RowRejectedError, match="names partition 99 of topic a, which has the partitions 0 to 2"):
        router({"a": None}, {"a": 3}).target_of(batch)
