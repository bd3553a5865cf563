"""Large functions leave no broadcast behind."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from directkafka.spark.large_functions import batch_broadcasts, carried, lasting_functions


class FakeBroadcast:
    def __init__(self, value: bytes) -> None:
        self.value = value
        self.is_destroyed = False

    def destroy(self) -> None:
        self.is_destroyed = True


class FakeContext:
    def __init__(self) -> None:
        self.broadcasts: list[FakeBroadcast] = []

    def broadcast(self, value: bytes) -> FakeBroadcast:
        self.broadcasts.append(FakeBroadcast(value))
        return self.broadcasts[-1]


def plus(number: int, model: bytes, rows: Iterator[int]) -> Iterator[int]:
    return (row + number + len(model) % 2 for row in rows)


def failing_batch(context: Any, *, is_spark_gone: bool = False) -> None:
    with batch_broadcasts():
        carried(function(1 << 20), context)
        if is_spark_gone:
            context.broadcasts[-1].destroy = None
        raise ZeroDivisionError


def function(size: int) -> Callable[..., Any]:
    return partial(plus, 1, b"\0" * size)


@pytest.mark.parametrize(("size", "count"), [(10, 0), (1 << 20, 1)])
def test_a_large_function_is_broadcast_until_its_batch_is_written_and_does_the_same(size: int, count: int) -> None:
    context: Any = FakeContext()
    with batch_broadcasts():
        sent = pickle.loads(pickle.dumps(carried(function(size), context)))
        assert list(sent(iter([1, 2]))) == [2, 3]
        assert [broadcast.is_destroyed for broadcast in context.broadcasts] == [False] * count
    assert [broadcast.is_destroyed for broadcast in context.broadcasts] == [True] * count


def test_a_batch_within_another_ends_what_is_its_own() -> None:
    context: Any = FakeContext()
    with batch_broadcasts():
        carried(function(1 << 20), context)
        with pytest.raises(ZeroDivisionError):
            failing_batch(context)
        assert [broadcast.is_destroyed for broadcast in context.broadcasts] == [False, True]
        carried(function(1 << 20), context)
    assert [broadcast.is_destroyed for broadcast in context.broadcasts] == [True] * 3


def test_a_spark_that_is_gone_hides_no_other_error() -> None:
    with pytest.raises(ZeroDivisionError):
        failing_batch(FakeContext(), is_spark_gone=True)


def test_where_nobody_says_when_it_ends_spark_sends_the_function_in_its_own_way() -> None:
    context: Any = FakeContext()
    large = function(1 << 20)
    assert carried(large, context) is large
    with batch_broadcasts(), lasting_functions():
        assert carried(large, context) is large
    assert context.broadcasts == []


def test_spark_s_plans_name_the_function() -> None:
    context: Any = FakeContext()

    class Task:
        def __call__(self, rows: Iterator[int]) -> Iterator[int]:
            return rows

        def reports(self, rows: Iterator[int]) -> Iterator[int]:
            return rows

    with batch_broadcasts():
        names = [carried(each, context).__name__ for each in (Task(), Task().reports, plus)]
    assert names == ["Task", "reports", "plus"]
