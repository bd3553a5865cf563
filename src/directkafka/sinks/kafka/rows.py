"""Rows for Kafka: what a DataFrame's columns must be, where its rows go, and how a task reports that to the driver.

A row's target is a topic and a partition. The topic is the sink's, or else the one that a column names. The
partition is the one in the column ``partition``, or else the one that Java's default partitioner gives the key; rows
with neither are spread over the topic's partitions round robin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.arrow_columns import column_of
from directkafka.errors import RowRejectedError, StoreUnavailableError
from directkafka.kafka.producer.partitioner import partitions_of
from directkafka.offsets import TopicPartition
from directkafka.sinks.api import TARGET

Int32s = np.ndarray[Any, np.dtype[np.int32]]

#: Where rows are to go, by topic: the partitions that they name, or None when some name none.
Destinations = Mapping[str, frozenset[int] | None]

#: The column that names each row's topic, unless the sink says that it is another one.
TOPIC: Final = "topic"
#: What a record is made of.
RECORD_COLUMNS: Final = ("key", "value", "headers", "timestamp", "topic", "partition")


def problems_of(schema: pa.Schema, *, topic: str | None, topic_from: str = TOPIC) -> list[str]:
    """What keeps a DataFrame's columns from being Kafka records, one sentence each.

    Args:
        schema: the columns.
        topic: the sink's topic, if it has one.
        topic_from: the column that names each row's topic, if it has none.
    """
    if topic_from != TOPIC and topic_from not in schema.names:
        return [f"there is no column {topic_from!r} (topic_from)"]
    # Parts of a record by the columns that they come from. Where another column names the topics, `topic` says nothing.
    parts = {name: name for name in RECORD_COLUMNS if name != TOPIC} | {topic_from: TOPIC}
    fields = [field for field in schema if field.name != TOPIC or topic_from == TOPIC]
    names = ", ".join(RECORD_COLUMNS)
    problems = [
        f"column {field.name!r} is none of {names}: put it into the value, for example with to_json"
        for field in fields
        if field.name not in parts
    ]
    if "value" not in schema.names:
        problems.append("there is no column 'value', which a record is made of")
    if topic is None and topic_from not in schema.names:
        problems.append("there is neither an option topic nor a column 'topic'")
    for field in fields:
        part = parts.get(field.name)
        if part is not None and not _fits(part, field.type):
            problems.append(f"column {field.name!r} of type {field.type} must be {_EXPECTED[part]}")
    return problems


_EXPECTED: Final = {
    "key": "binary or string",
    "value": "binary or string",
    "headers": "array<struct<key: string, value: binary>>",
    "timestamp": "timestamp",
    "topic": "string",
    "partition": "int",
}


def _fits(part: str, kind: pa.DataType) -> bool:
    match part:
        case "key" | "value":
            return pa.types.is_null(kind) or _is_bytes(kind) or _is_text(kind)
        case "topic":
            return _is_text(kind)
        case "partition":
            return bool(pa.types.is_int32(kind))
        case "timestamp":
            return bool(pa.types.is_timestamp(kind))
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    inner = {field.name: field.type for field in kind.value_type}
    return set(inner) == {"key", "value"} and _is_text(inner["key"]) and _is_bytes(inner["value"])


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def destinations_of(batch: pa.RecordBatch, topic: str | None, topic_from: str = TOPIC) -> Destinations:
    """Where the rows of a batch are to go; a null topic is kept as the empty name, which no topic has."""
    if batch.num_rows == 0:
        return {}
    if topic is not None:
        return {topic: _partitions_named(batch)}
    topics = pc.fill_null(batch.column(topic_from), "")
    return {
        name: _partitions_named(batch.filter(pc.equal(topics, pa.scalar(name, topics.type))))
        for name in pc.unique(topics).to_pylist()
    }


def _partitions_named(batch: pa.RecordBatch) -> frozenset[int] | None:
    if "partition" not in batch.schema.names or batch.column("partition").null_count:
        return None
    return frozenset(pc.unique(batch.column("partition")).to_pylist())


def merge_destinations(several: Iterable[Destinations]) -> Destinations:
    """The union of several destinations."""
    merged: dict[str, frozenset[int] | None] = {}
    for destinations in several:
        for topic, partitions in destinations.items():
            known = merged.get(topic, frozenset())
            merged[topic] = None if known is None or partitions is None else known | partitions
    return merged


def destinations_to_payload(destinations: Destinations) -> bytes:
    """Destinations as a report's payload, in JSON."""
    return json.dumps(
        {topic: None if partitions is None else sorted(partitions) for topic, partitions in destinations.items()}
    ).encode()


def destinations_from_payload(payload: bytes) -> Destinations:
    """The reverse of :func:`destinations_to_payload`."""
    return {
        topic: None if partitions is None else frozenset(partitions)
        for topic, partitions in json.loads(payload).items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRouter:
    """Finds each row's target; it is pickled and sent to executors.

    Attributes:
        store, sink: label and name, for messages.
        topic: the sink's topic; None: the column ``topic`` names it.
        partition_counts: number of partitions, by topic that rows may go to.
        targets: partitions that rows may go to, sorted; a target's number is its index here.
        topic_from: the column that names each row's topic.
    """

    store: str
    sink: str
    topic: str | None
    partition_counts: Mapping[str, int]
    targets: Sequence[TopicPartition]
    topic_from: str = TOPIC

    @classmethod
    def of(
        cls,
        destinations: Destinations,
        partition_counts: Mapping[str, int],
        *,
        store: str,
        sink: str,
        topic: str | None,
        topic_from: str = TOPIC,
    ) -> TargetRouter:
        """A router to all destinations of the rows.

        Raises:
            RowRejectedError: a row has no topic, or names a partition that its topic does not have.
        """
        targets = []
        for name, partitions in sorted(destinations.items()):
            if not name:
                raise RowRejectedError(store=store, sink=sink, detail=f"its column {topic_from!r} is null")
            count = partition_counts[name]
            for partition in range(count) if partitions is None else sorted(partitions):
                if not 0 <= partition < count:
                    raise _no_such_partition(store, sink, name, partition, count)
                targets.append(TopicPartition(name, partition))
        return cls(
            store=store,
            sink=sink,
            topic=topic,
            partition_counts=partition_counts,
            targets=tuple(targets),
            topic_from=topic_from,
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows with the column :data:`~directkafka.sinks.api.TARGET`."""
        rows_before = 0
        for batch in batches:
            target_of = self.target_of(batch, first=rows_before)
            rows_before += batch.num_rows
            yield batch.append_column(TARGET, column_of(target_of, pa.int32()))

    def target_of(self, batch: pa.RecordBatch, *, first: int = 0) -> Int32s:
        """For each row, the index of its target in :attr:`targets`.

        Args:
            batch: rows.
            first: number of rows before this batch, where the round robin of rows without key goes on.

        Raises:
            RowRejectedError: a row names a partition that its topic does not have.
            StoreUnavailableError: a row's target is none of :attr:`targets`, so the rows have changed since they were
                counted.
        """
        if self.topic is not None:
            return self._targets_in(self.topic, batch, first)
        topics = pc.fill_null(batch.column(self.topic_from), "")
        target_of = np.empty(batch.num_rows, np.int32)
        for name in pc.unique(topics).to_pylist():
            is_of = np.asarray(pc.equal(topics, pa.scalar(name, topics.type)))
            target_of[is_of] = self._targets_in(name, batch.filter(pa.array(is_of)), first)
        return target_of

    def _targets_in(self, topic: str, batch: pa.RecordBatch, first: int) -> Int32s:
        count = self.partition_counts.get(topic, 0)
        numbers = np.full(count, -1, np.int32)
        for number, target in enumerate(self.targets):
            if target.topic == topic:
                numbers[target.partition] = number
        partitions, _ = partitions_of(batch, max(count, 1), first)
        is_known = (partitions >= 0) & (partitions < count)
        if count and not is_known.all():
            raise _no_such_partition(self.store, self.sink, topic, int(partitions[~is_known][0]), count)
        target_of = np.where(is_known, numbers[np.where(is_known, partitions, 0)], -1) if count else partitions * 0 - 1
        if batch.num_rows and target_of.min() < 0:
            cause = (
                f"a row for topic {topic!r} goes to a partition that no row went to when they were counted: the "
                "transform's output was lost and computed again, and differs"
            )
            raise StoreUnavailableError(store=self.store, cause=cause)
        return target_of.astype(np.int32, copy=False)


def _no_such_partition(store: str, sink: str, topic: str, partition: int, count: int) -> RowRejectedError:
    detail = f"it names partition {partition} of topic {topic}, which has the partitions 0 to {count - 1}"
    return RowRejectedError(store=store, sink=sink, detail=detail)
