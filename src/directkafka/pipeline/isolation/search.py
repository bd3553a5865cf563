"""The search for records that make their batch fail: the batch is halved until each of them is alone.

Level by level, every part that fails is cut in two. If its first half does not fail, the second one must, and is not
tried. Of the whole batch the second half is not tried where the first one fails: the rest of the batch is written
afterwards, and that shows whether it fails. So a record costs at most ``2 ceil(log2(offsets))`` tries, with the one
that writes the rest, in a batch of four offsets or more. Parts that fail are counted at every level: a batch of which
nearly everything fails is given up long before its records are found.

Nothing is read or written here: the caller tries the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from directkafka.errors import DirectKafkaError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.pipeline.isolation.ranges import RecordPlace, first_place, halved, offset_count

#: What a part of a batch fails with; None where it does not.
FailureOf = Callable[[Sequence[RangeTask]], DirectKafkaError | None]


class TooManyError(Exception):
    """More records than may be set apart make their batch fail."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the batch that fails.

    Attributes:
        tasks: its ranges.
        error: what it failed with; None where that was not tried.
    """

    tasks: Sequence[RangeTask]
    error: DirectKafkaError | None


def failing_records(
    tasks: Sequence[RangeTask], error: DirectKafkaError, fails_with: FailureOf, *, max_count: int
) -> dict[RecordPlace, DirectKafkaError]:
    """The records that fail alone, and what with.

    Empty where no record does: two rows that cannot be together, say, or a failure that has passed. Where the first
    half of the batch has some, those of the second half are left to the next search.

    Args:
        tasks: the ranges of a batch that has failed.
        error: what with.
        fails_with: tries a part of it.
        max_count: how many records may be set apart.

    Raises:
        TooManyError: there are more of them.
    """
    failures: dict[RecordPlace, DirectKafkaError] = {}
    # A batch of one offset is tried again: its failure may have passed.
    parts = [_Part(tasks, error if offset_count(tasks) > 1 else None)] if offset_count(tasks) else []
    is_whole = True
    while parts:
        failing: list[_Part] = []
        for part in parts:
            if offset_count(part.tasks) == 1:
                if (alone := part.error or fails_with(part.tasks)) is not None:
                    failures[first_place(part.tasks)] = alone
            else:
                failing += _failing_halves(part, fails_with, is_whole=is_whole)
            if len(failures) + len(failing) > max_count:
                raise TooManyError
        parts, is_whole = failing, False
    return failures


def _failing_halves(part: _Part, fails_with: FailureOf, *, is_whole: bool) -> list[_Part]:
    left, right = halved(part.tasks)
    left_error = fails_with(left)
    if left_error is None:
        return [_Part(right, None)]
    failing = [_Part(left, left_error)]
    if not is_whole and (right_error := fails_with(right)) is not None:
        failing.append(_Part(right, right_error))
    return failing
