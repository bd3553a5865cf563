import json
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.error_types import errors_of

from directkafka.errors import DataLossError, DirectKafkaError, OptionError
from directkafka.errors import data_loss as conditions
from directkafka.errors.data_loss import (
    CouldNotReadOffsetRangeError,
    PartitionOffsetChangedError,
    PartitionsDeletedAndGroupIdConfigPresentError,
    PartitionsDeletedError,
    loss_of_available_now,
)
from directkafka.errors.transport import Notes

#: The conditions of Spark's connector, the sub-classes of ``KAFKA_DATA_LOSS`` without their prefix.
SPARK_S: list[str] = json.loads((Path(__file__).parents[1] / "spark_connector.json").read_text())["conditions"]

#: Losses that Spark cannot see.
OURS = {"TOPIC_RECREATED", "LEADER_EPOCH_WENT_BACK", "LOG_TRUNCATED"}

#: Those that a plan or a fetch can find.
LOSSES = [error for error in errors_of(conditions) if error.__base__ is DataLossError]

OPTION_CONDITIONS = [error for error in errors_of(conditions) if issubclass(error, OptionError)]


def type_name(condition: str) -> str:
    return "".join(word.capitalize() for word in condition.split("_")) + "Error"


def loss(error_type: type[DataLossError]) -> DataLossError:
    return error_type(topic="t", partition=3, lost_from=5, lost_until=9, detail="gone")


@pytest.mark.parametrize("error_type", LOSSES)
def test_a_loss_has_the_type_that_is_named_after_its_condition(error_type: type[DataLossError]) -> None:
    error = loss(error_type)
    assert error_type.__name__ == type_name(error.condition)
    assert str(error).startswith(f"[KAFKA_DATA_LOSS.{error.condition}] topic t, partition 3, offsets [5, 9): gone.")


@pytest.mark.parametrize("error_type", LOSSES)
def test_a_loss_keeps_its_type_between_processes(error_type: type[DataLossError]) -> None:
    error = loss(error_type)
    text = "\n".join(["Traceback", str(error), *Notes.of_this_process().on(error).__notes__])
    for again in (pickle.loads(pickle.dumps(error)), Notes.of_this_process().read(text)):
        assert type(again) is type(error)
        assert [getattr(again, field.name) for field in fields(error)] == [
            getattr(error, field.name) for field in fields(error)
        ]


@pytest.mark.parametrize("error_type", OPTION_CONDITIONS)
def test_an_option_s_error_has_the_condition_in_its_name_and_its_text(error_type: type[OptionError]) -> None:
    error = error_type(option="startingOffsets", reason="is wrong")
    condition = error.condition  # type: ignore[attr-defined]
    assert error_type.__name__ == type_name(condition)
    assert str(error) == f"[{condition}] option 'startingOffsets': is wrong."
    assert type(pickle.loads(pickle.dumps(error))) is error_type


def types_of_conditions() -> dict[str, type[DirectKafkaError]]:
    """Every type of the module, by its condition, which is a class attribute also where it is a field's default."""
    types: list[Any] = errors_of(conditions)
    return {error_type.condition: error_type for error_type in types}


def test_there_is_a_type_for_each_condition_of_spark_s_connector_and_for_none_besides_but_ours() -> None:
    error_types = types_of_conditions()
    assert error_types.keys() == set(SPARK_S) | OURS
    assert all(error_types[condition].__name__ == type_name(condition) for condition in error_types)


@pytest.mark.parametrize(
    ("error_type", "run_end", "named"),
    [
        (PartitionsDeletedError, None, "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED"),
        (PartitionsDeletedError, 9, "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW"),
        (
            PartitionsDeletedAndGroupIdConfigPresentError,
            9,
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
        ),
        (PartitionOffsetChangedError, None, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED"),
        (PartitionOffsetChangedError, 8, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED"),
        (
            PartitionOffsetChangedError,
            9,
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
        ),
    ],
)
def test_a_loss_in_an_available_now_run_has_the_name_that_spark_gives_it_there(
    error_type: type[DataLossError], run_end: int | None, named: str
) -> None:
    error = loss_of_available_now(loss(error_type), run_end)
    assert type(error).__name__ == type_name(named)
    assert str(error).startswith(f"[{named}] topic t, partition 3, offsets [5, 9): gone.")


def test_other_losses_in_an_available_now_run_keep_their_names() -> None:
    error = loss(CouldNotReadOffsetRangeError)
    assert loss_of_available_now(error, 9) is error
