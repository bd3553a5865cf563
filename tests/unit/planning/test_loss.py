from __future__ import annotations

import pytest
from tests.unit.planning.snapshots import T0, T1, U0, at, known, seen, snapshot

from directkafka.errors import DataLossError
from directkafka.errors.data_loss import (
    AddedPartitionDoesNotStartFromOffsetZeroError,
    CouldNotReadOffsetRangeError,
    InitialOffsetNotFoundForPartitionsError,
    LeaderEpochWentBackError,
    LogTruncatedError,
    PartitionOffsetChangedError,
    TopicRecreatedError,
)
from directkafka.offsets import PartitionProgress
from directkafka.planning.loss import Loss, classify, raise_for, resume_at
from directkafka.snapshot import PartitionSnapshot


def only(progress: PartitionProgress | None, partition: PartitionSnapshot | None) -> Loss | None:
    previous = known() if progress is None else known(progress)
    losses = classify(previous, snapshot({} if partition is None else {T0: partition}))
    assert len(losses) <= 1
    return losses[0] if losses else None


@pytest.mark.parametrize(
    ("progress", "partition"),
    [
        pytest.param(at(T0, 50), seen(10, 100), id="within the log"),
        pytest.param(at(T0, 50), seen(50, 100), id="at its start"),
        pytest.param(at(T0, 50), seen(10, 50), id="at its end"),
        pytest.param(None, seen(0, 100), id="new and whole"),
        pytest.param(at(T0, 50, topic_id=""), seen(10, 100), id="a checkpoint without topic ids"),
        pytest.param(at(T0, 50), seen(10, 100, topic_id=""), id="a broker without topic ids"),
        pytest.param(at(T0, 50, leader_epoch=4), seen(10, 100), id="a new leader"),
        pytest.param(at(T0, 50), seen(10, 100, leader_epoch=-1), id="a broker without epochs"),
        pytest.param(at(T0, 50, leader_epoch=4), seen(10, 100, ended=(4, 50)), id="a leader that had it all"),
        pytest.param(at(T0, 50, leader_epoch=5), seen(10, 100, ended=(4, 40)), id="read under the new leader"),
        pytest.param(at(T0, 50, leader_epoch=4), seen(10, 100), id="a leader that does not know"),
    ],
)
def test_nothing_is_lost_while_the_position_is_in_the_log(
    progress: PartitionProgress | None, partition: PartitionSnapshot
) -> None:
    assert only(progress, partition) is None


@pytest.mark.parametrize(
    ("progress", "partition", "error_type", "lost", "resume"),
    [
        pytest.param(at(T0, 50), seen(60, 90), CouldNotReadOffsetRangeError, (50, 60), 60, id="aged out"),
        pytest.param(at(T0, 50), seen(0, 40), PartitionOffsetChangedError, (40, 50), 50, id="truncated"),
        pytest.param(at(T0, 50), seen(3, 90, topic_id="id-2"), TopicRecreatedError, (50, 50), 3, id="made again"),
        pytest.param(
            at(T0, 50), seen(3, 20, topic_id="id-2"), TopicRecreatedError, (50, 50), 3, id="made again, shorter"
        ),
        pytest.param(at(T0, 50), seen(0, 90, leader_epoch=4), LeaderEpochWentBackError, (50, 50), 50, id="epoch back"),
        pytest.param(
            at(T0, 50, leader_epoch=4),
            seen(0, 90, ended=(4, 40)),
            LogTruncatedError,
            (40, 50),
            50,
            id="cut and grown again",
        ),
        pytest.param(
            None, seen(7, 90), AddedPartitionDoesNotStartFromOffsetZeroError, (0, 7), 7, id="new, starts late"
        ),
        pytest.param(
            None, seen(-1, 90), InitialOffsetNotFoundForPartitionsError, (0, 0), None, id="new, start not known"
        ),
    ],
)
def test_a_loss_names_its_range_and_the_next_batch_goes_on_after_it(
    progress: PartitionProgress | None,
    partition: PartitionSnapshot,
    error_type: type[DataLossError],
    lost: tuple[int, int],
    resume: int | None,
) -> None:
    loss = only(progress, partition)
    assert loss is not None
    assert (loss.error_type, loss.topic_partition) == (error_type, T0)
    assert (loss.lost_from, loss.lost_until) == lost
    assert resume_at(progress, partition) == resume


@pytest.mark.parametrize(
    ("group_id_given", "condition"),
    [(False, "PARTITIONS_DELETED"), (True, "PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT")],
)
def test_a_deleted_partition_is_worded_as_spark_words_it(group_id_given: bool, condition: str) -> None:
    losses = classify(known(at(T0, 50)), snapshot({}), group_id_given=group_id_given)
    assert [loss.error_type.condition for loss in losses] == [condition]
    assert (losses[0].lost_from, losses[0].lost_until) == (50, 50)


def test_losses_come_one_per_partition_and_sorted() -> None:
    losses = classify(known(at(U0, 9), at(T1, 50)), snapshot({T0: seen(1, 2), T1: seen(60, 70)}))
    assert [loss.topic_partition for loss in losses] == [T0, T1, U0]


def loss_of_kind(error_type: type[DataLossError]) -> Loss:
    return Loss(error_type, T0, 5, 8, "gone")


def test_a_loss_becomes_an_error_with_the_same_numbers() -> None:
    error = loss_of_kind(CouldNotReadOffsetRangeError).to_error()
    assert (error.topic, error.partition, error.lost_from, error.lost_until) == ("t", 0, 5, 8)
    assert str(error).startswith("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] topic t, partition 0, offsets [5, 8): ")
    assert "failOnDataLoss" in str(error)


def test_several_losses_are_raised_as_one_error_that_tells_of_the_others() -> None:
    losses = (loss_of_kind(CouldNotReadOffsetRangeError), loss_of_kind(PartitionOffsetChangedError))
    with pytest.raises(DataLossError) as caught:
        raise_for(losses)
    assert caught.value.condition == "COULD_NOT_READ_OFFSET_RANGE"
    assert caught.value.__notes__ == ["PARTITION_OFFSET_CHANGED: t-0 [5, 8): gone"]


def test_only_a_loss_is_raised() -> None:
    raise_for(())
    with pytest.raises(DataLossError):
        raise_for((loss_of_kind(CouldNotReadOffsetRangeError),))
