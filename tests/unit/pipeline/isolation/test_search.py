"""The search for records that make a batch fail: which ones it finds, and with how many tries."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.isolation.tasks import offsets_of, range_tasks

from directkafka.errors import DirectKafkaError, TransformError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.pipeline.isolation.ranges import RecordPlace, first_place, within, without
from directkafka.pipeline.isolation.search import TooManyError, failing_records


@dataclass
class Batch:
    """A batch that fails where one of some records is in it; None: where any is."""

    bad: Collection[RecordPlace] | None
    tries: int = 0

    def __call__(self, tasks: Sequence[RangeTask]) -> DirectKafkaError | None:
        self.tries += 1
        bad_places = [first_place(tasks)] if self.bad is None else within(tasks, self.bad)
        return TransformError(source="sql", cause=str(bad_places[0])) if bad_places else None


def isolated(tasks: list[RangeTask], batch: Batch, *, max_count: int = 100) -> dict[RecordPlace, DirectKafkaError]:
    """What the writer does: until the rest goes through."""
    errors: dict[RecordPlace, DirectKafkaError] = {}
    while (error := batch(without(tasks, errors))) is not None:
        more = failing_records(without(tasks, errors), error, batch, max_count=max_count - len(errors))
        if not more:
            raise error
        errors |= more
    return errors


@given(st.lists(st.integers(0, 299), min_size=1, max_size=20, unique=True))
def test_all_of_them_are_found_each_with_its_own_error(numbers: list[int]) -> None:
    tasks = range_tasks((7, 100), (0, 200))
    places = [offsets_of(tasks)[number] for number in numbers]
    errors = isolated(tasks, Batch(places))
    assert set(errors) == set(places)
    assert {str(record_place) for record_place in places} == {
        error.cause for error in errors.values() if isinstance(error, TransformError)
    }


@pytest.mark.parametrize("count", [4, 5, 64, 1_000, 250_000])
def test_a_record_costs_at_most_twice_the_logarithm_of_the_batch(count: int) -> None:
    """The try that failed is none of them, and the rest that goes through in the end is one."""
    tasks = range_tasks((0, count))
    for number in {0, 1, count // 2, count - 2, count - 1, *random.Random(count).sample(range(count), 3)}:
        batch = Batch([RecordPlace("t0", 0, number)])
        assert list(isolated(tasks, batch)) == [RecordPlace("t0", 0, number)]
        assert batch.tries - 1 <= 2 * math.ceil(math.log2(count))


@pytest.mark.parametrize("seed", range(5))
def test_so_do_many(seed: int) -> None:
    tasks = range_tasks((0, 4_096))
    bad = {RecordPlace("t0", 0, offset) for offset in random.Random(seed).sample(range(4_096), 40)}
    batch = Batch(bad)
    assert set(isolated(tasks, batch)) == bad
    assert batch.tries - 1 <= 40 * 2 * math.log2(4_096)


def test_a_batch_of_which_everything_fails_is_given_up_soon() -> None:
    tasks = range_tasks((0, 100_000))
    batch = Batch(None)
    with pytest.raises(TooManyError):
        isolated(tasks, batch, max_count=100)
    assert batch.tries < 300


def test_one_more_than_may_be_set_apart_is_too_many() -> None:
    tasks = range_tasks((0, 1_000))
    bad = {RecordPlace("t0", 0, offset) for offset in range(0, 1_000, 100)}
    assert len(isolated(tasks, Batch(bad), max_count=10)) == 10
    with pytest.raises(TooManyError):
        isolated(tasks, Batch(bad), max_count=9)


def test_two_records_that_only_fail_together_are_not_found() -> None:
    tasks = range_tasks((0, 64))
    pair = {RecordPlace("t0", 0, 3), RecordPlace("t0", 0, 60)}

    def fails_together(part: Sequence[RangeTask]) -> DirectKafkaError | None:
        return TransformError(source="sql", cause="both") if pair <= set(offsets_of(part)) else None

    error = TransformError(source="sql", cause="both")
    assert failing_records(tasks, error, fails_together, max_count=100) == {}


def test_a_failure_that_has_passed_is_no_record() -> None:
    error = TransformError(source="sql", cause="once")
    assert failing_records(range_tasks((0, 64)), error, lambda part: None, max_count=100) == {}


def test_a_record_that_is_alone_in_its_batch_is_tried_once_more() -> None:
    error = TransformError(source="sql", cause="bad")
    record_place = RecordPlace("t0", 0, 5)
    assert list(failing_records(range_tasks((5, 1)), error, Batch([record_place]), max_count=1)) == [record_place]
    assert failing_records(range_tasks((5, 1)), error, Batch([]), max_count=1) == {}


def test_of_no_records_none_fails() -> None:
    error = TransformError(source="sql", cause="bad")
    assert failing_records([], error, Batch([]), max_count=1) == {}
