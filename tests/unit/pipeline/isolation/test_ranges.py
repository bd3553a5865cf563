"""Cuts of a batch's ranges: nothing is left out, and nothing is in two parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.isolation.tasks import offsets_of, range_tasks

from directkafka.pipeline.isolation.ranges import RecordPlace, alone, halved, offset_count, within, without

RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=4)
BAD_RECORDS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 90)), max_size=12)


@given(RANGES)
def test_halves_have_all_offsets_once_and_in_order(sizes: list[tuple[int, int]]) -> None:
    tasks = range_tasks(*sizes)
    if offset_count(tasks) < 2:
        return
    left, right = halved(tasks)
    assert offsets_of(left) + offsets_of(right) == offsets_of(tasks)
    assert offset_count(left) - offset_count(right) in (0, 1)
    assert all(task.range.count() for task in (*left, *right))


@given(RANGES, BAD_RECORDS)
def test_records_that_are_taken_out_are_alone_and_the_rest_is_all_else(
    sizes: list[tuple[int, int]], places: set[tuple[int, int]]
) -> None:
    tasks = range_tasks(*sizes)
    wanted = [RecordPlace(f"t{topic}", 0, offset) for topic, offset in places]
    there = [record_place for record_place in offsets_of(tasks) if record_place in set(wanted)]
    assert within(tasks, wanted) == there
    assert offsets_of(alone(tasks, wanted)) == there
    assert all(task.range.count() == 1 for task in alone(tasks, wanted))
    assert offsets_of(without(tasks, wanted)) == [
        record_place for record_place in offsets_of(tasks) if record_place not in there
    ]


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_a_place_is_a_text_and_back(topic: str, partition: int, offset: int) -> None:
    record_place = RecordPlace(topic, partition, offset)
    assert RecordPlace.parse(str(record_place)) == record_place
