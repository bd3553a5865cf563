"""Spark's error conditions as types: one class for each condition that Spark's Kafka source and sink raise and ours do.

A class is named after its condition, ``KAFKA_DATA_LOSS.START_OFFSET_RESET`` is :class:`StartOffsetResetError`, and the
condition stands in the message. They are leaves of the tree in :mod:`directkafka.errors`.

Source: ``kafka-error-conditions.json`` and ``KafkaExceptions`` of Spark's connector. Three losses are ours, because
Spark cannot see them: :class:`TopicRecreatedError`, :class:`LeaderEpochWentBackError` and :class:`LogTruncatedError`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar

from directkafka.errors import DataLossError, MalformedBatchError, OptionError, SparkCondition


class InitialOffsetNotFoundForPartitionsError(DataLossError):
    """A new partition has no earliest offset that could be found."""


class AddedPartitionDoesNotStartFromOffsetZeroError(DataLossError):
    """A new partition has lost records before it was first read."""


class PartitionsDeletedError(DataLossError):
    """A partition that was read is gone."""


class PartitionsDeletedAndGroupIdConfigPresentError(DataLossError):
    """The same, and ``kafka.group.id`` is given, of which Spark thinks that it may be the cause."""


class PartitionOffsetChangedError(DataLossError):
    """The log ends before an offset that it had reached: it was truncated, or the topic was made again."""


class CouldNotReadOffsetRangeError(DataLossError):
    """Records were deleted before they were read."""


class StartOffsetResetError(DataLossError):
    """The offset to start at is not in the log."""


class TopicRecreatedError(DataLossError):
    """The topic was deleted and made again: its id is another one."""


class LeaderEpochWentBackError(DataLossError):
    """A partition's leader epoch is lower than it was: this is another cluster, or one restored from a copy."""


class LogTruncatedError(DataLossError):
    """The log was cut before an offset that was read already, and written again from there."""


class _AvailableNowError(SparkCondition):
    """These conditions stand by themselves, and not below ``KAFKA_DATA_LOSS``."""

    condition_class = ""


class MismatchedTopicPartitionsBetweenEndOffsetAndPrefetchedError(_AvailableNowError, PartitionsDeletedError):
    """A partition that a query has read was gone when its available-now run began."""


class LostTopicPartitionsInEndOffsetWithTriggerAvailablenowError(_AvailableNowError, PartitionsDeletedError):
    """A partition went while an available-now run read it."""


class EndOffsetHasGreaterOffsetForTopicPartitionThanPrefetchedError(_AvailableNowError, PartitionOffsetChangedError):
    """A log ended before what a query has read of it when the query's available-now run began."""


class EndOffsetHasGreaterOffsetForTopicPartitionThanLatestWithTriggerAvailablenowError(
    _AvailableNowError, PartitionOffsetChangedError
):
    """A log became shorter than what an available-now run has read of it."""


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
    renamed = kind(**{field.name: getattr(error, field.name) for field in fields(error)})
    for note in getattr(error, "__notes__", ()):
        renamed.add_note(note)
    return renamed


class KafkaMalformedRecordTimestampError(MalformedBatchError):
    """A record's timestamp does not fit into microseconds of 64 bits, in which Spark counts them."""

    condition: ClassVar[str] = "KAFKA_MALFORMED_RECORD_TIMESTAMP"


class _OptionConditionError(SparkCondition, OptionError): ...


class KafkaNullTopicInDataError(_OptionConditionError):
    """A row that is to be written has no topic, and the options name none."""


class KafkaStartOffsetDoesNotMatchAssignedError(_OptionConditionError):
    """Offsets by partition do not name exactly the partitions that are read."""


class KafkaTimestampOffsetDoesNotMatchAssignedError(_OptionConditionError):
    """Timestamps by partition do not name exactly the partitions that are read."""


class KafkaTopicOffsetDoesNotMatchAssignedError(_OptionConditionError):
    """A position is given for a topic that is not read."""


class MismatchedTopicPartitionsBetweenStartOffsetAndEndOffsetError(_OptionConditionError):
    """Start and end name different partitions."""


class UnresolvedStartOffsetGreaterThanEndOffsetError(_OptionConditionError):
    """The start that is given lies behind the end that is given."""


class ResolvedStartOffsetGreaterThanEndOffsetError(_OptionConditionError):
    """The start lies behind the end once the cluster has said where both are."""
