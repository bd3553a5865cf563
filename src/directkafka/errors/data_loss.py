"""Spark's error conditions as types: one class for each condition that Spark's Kafka source and sink raise and ours do.

A class is named after its condition, ``KAFKA_DATA_LOSS.START_OFFSET_RESET`` is :class:`StartOffsetResetError`, and the
condition stands in the message. They are leaves of the tree in :mod:`directkafka.errors`.

Source: ``kafka-error-conditions.json`` and ``KafkaExceptions`` of Spark's connector. Three losses are ours, because
Spark cannot see them: :class:`TopicRecreatedError`, :class:`LeaderEpochWentBackError` and :class:`LogTruncatedError`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from directkafka.errors import DataLossError, MalformedBatchError, OptionError

__all__ = [
    "AddedPartitionDoesNotStartFromOffsetZeroError",
    "CouldNotReadOffsetRangeError",
    "EndOffsetHasGreaterOffsetForTopicPartitionThanLatestWithTriggerAvailablenowError",
    "EndOffsetHasGreaterOffsetForTopicPartitionThanPrefetchedError",
    "InitialOffsetNotFoundForPartitionsError",
    "KafkaMalformedRecordTimestampError",
    "KafkaNullTopicInDataError",
    "KafkaStartOffsetDoesNotMatchAssignedError",
    "KafkaTimestampOffsetDoesNotMatchAssignedError",
    "KafkaTopicOffsetDoesNotMatchAssignedError",
    "LeaderEpochWentBackError",
    "LogTruncatedError",
    "LostTopicPartitionsInEndOffsetWithTriggerAvailablenowError",
    "MismatchedTopicPartitionsBetweenEndOffsetAndPrefetchedError",
    "MismatchedTopicPartitionsBetweenStartOffsetAndEndOffsetError",
    "PartitionOffsetChangedError",
    "PartitionsDeletedAndGroupIdConfigPresentError",
    "PartitionsDeletedError",
    "ResolvedStartOffsetGreaterThanEndOffsetError",
    "StartOffsetResetError",
    "TopicRecreatedError",
    "UnresolvedStartOffsetGreaterThanEndOffsetError",
    "data_loss",
    "loss_of_available_now",
]


@dataclass(kw_only=True, eq=False)
class InitialOffsetNotFoundForPartitionsError(DataLossError):
    """A new partition has no earliest offset that could be found."""

    condition: str = "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"


@dataclass(kw_only=True, eq=False)
class AddedPartitionDoesNotStartFromOffsetZeroError(DataLossError):
    """A new partition has lost records before it was first read."""

    condition: str = "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"


@dataclass(kw_only=True, eq=False)
class PartitionsDeletedError(DataLossError):
    """A partition that was read is gone."""

    condition: str = "PARTITIONS_DELETED"


@dataclass(kw_only=True, eq=False)
class PartitionsDeletedAndGroupIdConfigPresentError(DataLossError):
    """The same, and ``kafka.group.id`` is given, of which Spark thinks that it may be the cause."""

    condition: str = "PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT"


@dataclass(kw_only=True, eq=False)
class PartitionOffsetChangedError(DataLossError):
    """The log ends before an offset that it had reached: it was truncated, or the topic was made again."""

    condition: str = "PARTITION_OFFSET_CHANGED"


@dataclass(kw_only=True, eq=False)
class CouldNotReadOffsetRangeError(DataLossError):
    """Records were deleted before they were read."""

    condition: str = "COULD_NOT_READ_OFFSET_RANGE"


@dataclass(kw_only=True, eq=False)
class StartOffsetResetError(DataLossError):
    """The offset to start at is not in the log."""

    condition: str = "START_OFFSET_RESET"


@dataclass(kw_only=True, eq=False)
class TopicRecreatedError(DataLossError):
    """The topic was deleted and made again: its id is another one."""

    condition: str = "TOPIC_RECREATED"


@dataclass(kw_only=True, eq=False)
class LeaderEpochWentBackError(DataLossError):
    """A partition's leader epoch is lower than it was: this is another cluster, or one restored from a copy."""

    condition: str = "LEADER_EPOCH_WENT_BACK"


@dataclass(kw_only=True, eq=False)
class LogTruncatedError(DataLossError):
    """The log was cut before an offset that was read already, and written again from there."""

    condition: str = "LOG_TRUNCATED"


class _AvailableNowError:
    """These conditions stand by themselves, and not below ``KAFKA_DATA_LOSS``."""

    template = DataLossError.template.replace("[KAFKA_DATA_LOSS.{condition}]", "[{condition}]")


@dataclass(kw_only=True, eq=False)
class MismatchedTopicPartitionsBetweenEndOffsetAndPrefetchedError(_AvailableNowError, PartitionsDeletedError):
    """A partition that a query has read was gone when its available-now run began."""

    condition: str = "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED"


@dataclass(kw_only=True, eq=False)
class LostTopicPartitionsInEndOffsetWithTriggerAvailablenowError(_AvailableNowError, PartitionsDeletedError):
    """A partition went while an available-now run read it."""

    condition: str = "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW"


@dataclass(kw_only=True, eq=False)
class EndOffsetHasGreaterOffsetForTopicPartitionThanPrefetchedError(_AvailableNowError, PartitionOffsetChangedError):
    """A log ended before what a query has read of it when the query's available-now run began."""

    condition: str = "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED"


@dataclass(kw_only=True, eq=False)
class EndOffsetHasGreaterOffsetForTopicPartitionThanLatestWithTriggerAvailablenowError(
    _AvailableNowError, PartitionOffsetChangedError
):
    """A log became shorter than what an available-now run has read of it."""

    condition: str = "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW"


_LOSSES: tuple[type[DataLossError], ...] = (
    InitialOffsetNotFoundForPartitionsError,
    AddedPartitionDoesNotStartFromOffsetZeroError,
    PartitionsDeletedError,
    PartitionsDeletedAndGroupIdConfigPresentError,
    PartitionOffsetChangedError,
    CouldNotReadOffsetRangeError,
    StartOffsetResetError,
    TopicRecreatedError,
    LeaderEpochWentBackError,
    LogTruncatedError,
)
_BY_CONDITION = {loss.__dataclass_fields__["condition"].default: loss for loss in _LOSSES}


def data_loss(
    *, condition: str, topic: str, partition: int, lost_from: int, lost_until: int, detail: str
) -> DataLossError:
    """The error of this condition; its fields are those of :class:`~directkafka.errors.DataLossError`."""
    return _BY_CONDITION[condition](
        condition=condition,
        topic=topic,
        partition=partition,
        lost_from=lost_from,
        lost_until=lost_until,
        detail=detail,
    )


def loss_of_available_now(error: DataLossError, run_end: int | None) -> DataLossError:
    """What Spark calls this loss in a query with ``Trigger.AvailableNow``; another loss is given back as it is.

    Args:
        error: of a partition.
        run_end: where the log ended when the run began; None where there was no such partition.
    """
    kind: type[DataLossError]
    if isinstance(error, PartitionsDeletedError | PartitionsDeletedAndGroupIdConfigPresentError):
        kind = (
            MismatchedTopicPartitionsBetweenEndOffsetAndPrefetchedError
            if run_end is None
            else LostTopicPartitionsInEndOffsetWithTriggerAvailablenowError
        )
    elif isinstance(error, PartitionOffsetChangedError):
        kind = (
            EndOffsetHasGreaterOffsetForTopicPartitionThanPrefetchedError
            if run_end is None or run_end < error.lost_until
            else EndOffsetHasGreaterOffsetForTopicPartitionThanLatestWithTriggerAvailablenowError
        )
    else:
        return error
    named = {field.name: getattr(error, field.name) for field in fields(error) if field.name != "condition"}
    renamed = kind(**named)
    for note in getattr(error, "__notes__", ()):
        renamed.add_note(note)
    return renamed


@dataclass(kw_only=True, eq=False)
class KafkaMalformedRecordTimestampError(MalformedBatchError):
    """A record's timestamp does not fit into microseconds of 64 bits, in which Spark counts them."""

    condition: ClassVar[str] = "KAFKA_MALFORMED_RECORD_TIMESTAMP"


@dataclass(kw_only=True, eq=False)
class _OptionConditionError(OptionError):
    condition: ClassVar[str]

    def __str__(self) -> str:
        return f"[{self.condition}] {super().__str__()}"


@dataclass(kw_only=True, eq=False)
class KafkaNullTopicInDataError(_OptionConditionError):
    """A row that is to be written has no topic, and the options name none."""

    condition = "KAFKA_NULL_TOPIC_IN_DATA"


@dataclass(kw_only=True, eq=False)
class KafkaStartOffsetDoesNotMatchAssignedError(_OptionConditionError):
    """Offsets by partition do not name exactly the partitions that are read."""

    condition = "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"


@dataclass(kw_only=True, eq=False)
class KafkaTimestampOffsetDoesNotMatchAssignedError(_OptionConditionError):
    """Timestamps by partition do not name exactly the partitions that are read."""

    condition = "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"


@dataclass(kw_only=True, eq=False)
class KafkaTopicOffsetDoesNotMatchAssignedError(_OptionConditionError):
    """A position is given for a topic that is not read."""

    condition = "KAFKA_TOPIC_OFFSET_DOES_NOT_MATCH_ASSIGNED"


@dataclass(kw_only=True, eq=False)
class MismatchedTopicPartitionsBetweenStartOffsetAndEndOffsetError(_OptionConditionError):
    """Start and end name different partitions."""

    condition = "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET"


@dataclass(kw_only=True, eq=False)
class UnresolvedStartOffsetGreaterThanEndOffsetError(_OptionConditionError):
    """The start that is given lies behind the end that is given."""

    condition = "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"


@dataclass(kw_only=True, eq=False)
class ResolvedStartOffsetGreaterThanEndOffsetError(_OptionConditionError):
    """The start lies behind the end once the cluster has said where both are."""

    condition = "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"
