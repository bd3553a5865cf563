"""Positions where a read starts and ends: Spark's six options made into two
:class:`~directkafka.offsets.Positions`.

Of the three options of one side the global timestamp counts before timestamps per partition, and
these before offsets. In Spark's JSON -2 stands for earliest and -1 for latest; the numbers do not
leave this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from directkafka.errors import OptionError
from directkafka.errors.data_loss import (
    MismatchedTopicPartitionsBetweenStartOffsetAndEndOffsetError,
    UnresolvedStartOffsetGreaterThanEndOffsetError,
)
from directkafka.offsets import (
    Ago,
    AtTimestamp,
    BeforeLatest,
    Committed,
    Earliest,
    Exact,
    Latest,
    Position,
    Positions,
    TopicPartition,
)
from directkafka.options.spec import INT_MAX, LONG_MAX, OptionSpec, RawOptions, read_json, shown
from directkafka.options.texts import duration_ms, fault_of_topic, whole_number

_ENDS: Final[dict[str, Earliest | Latest]] = {"earliest": Earliest(), "latest": Latest()}
_COMMITTED: Final = "committed"
_GROUP_ID: Final = "kafka.group.id"
_EARLIEST_CODE: Final = -2
_LATEST_CODE: Final = -1
_WORDS: Final = (
    "earliest, latest, a number of offsets or a time back from now (-1000, -10 minutes), committed, "
    "committed-or-earliest, committed-or-latest"
)
_OFFSET_FORMS: Final = (
    f'one of {_WORDS}; or JSON by topic: {{"flights": {{"0": 23, "1": -2}}, "routes": "latest"}}, '
    "where -2 is earliest and -1 latest"
)
_OFFSETS_BACK: Final = re.compile(r"-\s*(\d+)")
_TIMESTAMP_FORM: Final = 'JSON of milliseconds since 1970 by topic and partition: {"flights": {"0": 1700000000000}}'

STARTING_OFFSETS: Final = OptionSpec(
    name="startingOffsets",
    kind="json",
    default="latest (streaming), earliest (batch)",
    doc=f"Where a new query starts: {_OFFSET_FORMS}. Offsets by partition must name all partitions "
    "of their topic. committed is what the group kafka.group.id has committed. A query that has a "
    "checkpoint or a ledger goes on from there. A batch cannot start at latest.",
)
STARTING_TIMESTAMPS: Final = OptionSpec(
    name="startingOffsetsByTimestamp",
    kind="json",
    doc=f"Start at the first record at or after a time: {_TIMESTAMP_FORM}. Counts before startingOffsets.",
)
STARTING_TIMESTAMP: Final = OptionSpec(
    name="startingTimestamp",
    kind="integer",
    doc="The same with one time for all partitions. Counts before the other starting options.",
)
STARTING_STRATEGY: Final = OptionSpec(
    name="startingOffsetsByTimestampStrategy",
    kind="choice",
    choices=("error", "latest"),
    default="error",
    doc="What to do in a partition without a record at or after the time: fail, or start at latest.",
)
ENDING_OFFSETS: Final = OptionSpec(
    name="endingOffsets",
    kind="json",
    default="latest",
    doc=f"Where a batch ends, exclusive: {_OFFSET_FORMS}. A batch cannot end at earliest.",
    scope="batch",
)
ENDING_TIMESTAMPS: Final = OptionSpec(
    name="endingOffsetsByTimestamp",
    kind="json",
    doc=f"End before the first record at or after a time, or at latest: {_TIMESTAMP_FORM}. Counts "
    "before endingOffsets.",
    scope="batch",
)
ENDING_TIMESTAMP: Final = OptionSpec(
    name="endingTimestamp",
    kind="integer",
    doc="The same with one time for all partitions. Counts before the other ending options.",
    scope="batch",
)

POSITION_SPECS: Final = (
    STARTING_OFFSETS,
    STARTING_TIMESTAMPS,
    STARTING_TIMESTAMP,
    STARTING_STRATEGY,
    ENDING_OFFSETS,
    ENDING_TIMESTAMPS,
    ENDING_TIMESTAMP,
)


def read_positions(given: RawOptions, *, streaming: bool) -> tuple[Positions, Positions | None]:
    """Where to start, and where to end: the latter None for a stream.

    Raises:
        OptionError: a text that is no position, a position that the kind of read cannot have, or a
            start and an end that name different partitions or contradict each other.
    """
    starting = _read_side(
        given,
        (STARTING_TIMESTAMP, STARTING_TIMESTAMPS, STARTING_OFFSETS),
        default=Latest() if streaming else Earliest(),
        latest_if_no_match=given.value(STARTING_STRATEGY) == "latest",
    )
    if streaming:
        for spec in (ENDING_OFFSETS, ENDING_TIMESTAMPS, ENDING_TIMESTAMP):
            if given.has(spec):
                raise given.error(spec.name, "a stream has no end; leave it out, or use spark.read")
        return starting, None
    ending = _read_side(
        given,
        (ENDING_TIMESTAMP, ENDING_TIMESTAMPS, ENDING_OFFSETS),
        default=Latest(),
        latest_if_no_match=True,
    )
    _refuse(given, starting, Latest(), "a batch cannot start at latest (-1): it would be empty")
    _refuse(given, ending, Earliest(), "a batch cannot end at earliest (-2): it would be empty")
    _check_pair(given, starting, ending)
    return starting, ending


def read_position(value: str | int | datetime, *, option: str) -> Position:
    """A position as a program says it: a word, an offset, or an instant.

    Args:
        value: ``"earliest"``, ``"latest"``, ``"-1000"``, ``"-10 minutes"``; an offset; or the time of the first
            record, with a time zone.
        option: the argument's name, for messages.

    Raises:
        OptionError: anything else, or a time without a zone.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            reason = f"{value} has no time zone; write datetime(..., tzinfo=UTC), or value.astimezone()"
            raise OptionError(option=option, reason=reason)
        return AtTimestamp(math.ceil(value.timestamp() * 1000))
    position: Position | None = None
    if isinstance(value, str):
        position = _word_alone(value.strip().lower())
    elif type(value) is int and 0 <= value <= LONG_MAX:
        position = Exact(value)
    if position is None:
        reason = f"expected earliest, latest, -1000, -10 minutes, an offset or a datetime, found {shown(value)}"
        raise OptionError(option=option, reason=reason)
    return position


def _read_side(
    given: RawOptions,
    specs: tuple[OptionSpec, OptionSpec, OptionSpec],
    *,
    default: Position,
    latest_if_no_match: bool,
) -> Positions:
    timestamp, timestamps, offsets = specs
    if given.has(timestamp):
        return Positions(
            default=AtTimestamp(given.value(timestamp)),
            latest_if_no_match=latest_if_no_match,
            option=timestamp.name,
        )
    if given.has(timestamps):
        return Positions(
            partitions=_read_timestamps(given, timestamps),
            latest_if_no_match=latest_if_no_match,
            option=timestamps.name,
        )
    if not given.has(offsets):
        return Positions(default=default, option=offsets.name)
    if given.text(offsets).startswith("{"):
        return _read_offsets(given, offsets)
    return Positions(default=_word(given, offsets, given.text(offsets)), option=offsets.name)


def _word(given: RawOptions, spec: OptionSpec, text: str) -> Position:
    """A position that is no offset, for all partitions or for a topic's."""
    word = text.strip().lower()
    otherwise = _ENDS.get(word.removeprefix(f"{_COMMITTED}-or-"))
    if word == _COMMITTED or (word.startswith(_COMMITTED) and otherwise is not None):
        return Committed(_group(given, spec, word), otherwise)
    position = _word_alone(word)
    if position is None:
        raise given.error(spec.name, f"expected {_OFFSET_FORMS}, found {shown(text)}")
    return position


def _word_alone(word: str) -> Position | None:
    if back := _OFFSETS_BACK.fullmatch(word):
        offsets = whole_number(back[1])
        return None if offsets is None or offsets > LONG_MAX else BeforeLatest(offsets)
    duration = duration_ms(word[1:]) if word.startswith("-") else None
    return _ENDS.get(word) if duration is None else Ago(duration)


def _group(given: RawOptions, spec: OptionSpec, word: str) -> str:
    group = given.texts.get(_GROUP_ID, "").strip()
    if not group:
        raise given.error(spec.name, f"{word} needs {_GROUP_ID}, the consumer group that has committed")
    return group


def _read_timestamps(given: RawOptions, spec: OptionSpec) -> dict[TopicPartition, Position]:
    nested = read_json(given, spec, _TIMESTAMP_FORM)
    timestamps = dict(_numbers(given, spec, nested, _TIMESTAMP_FORM))
    for topic_partition, timestamp_ms in timestamps.items():
        if timestamp_ms < 0:
            reason = f"{topic_partition} has {timestamp_ms}; a time is at least 0"
            raise given.error(spec.name, reason)
    if not timestamps:
        raise given.error(spec.name, "names no partition")
    return {partition: AtTimestamp(timestamp_ms) for partition, timestamp_ms in timestamps.items()}


def _read_offsets(given: RawOptions, spec: OptionSpec) -> Positions:
    nested = read_json(given, spec, _OFFSET_FORMS)
    topics = {topic: _word(given, spec, value) for topic, value in nested.items() if isinstance(value, str)}
    numbered = {topic: value for topic, value in nested.items() if topic not in topics}
    partitions = {
        topic_partition: _decode(given, spec, topic_partition, offset)
        for topic_partition, offset in _numbers(given, spec, numbered, _OFFSET_FORMS)
    }
    if not (topics or partitions):
        raise given.error(spec.name, "names no partition")
    return Positions(topics=topics, partitions=partitions, option=spec.name)


def _numbers(
    given: RawOptions, spec: OptionSpec, nested: Mapping[str, Any], form: str
) -> Iterator[tuple[TopicPartition, int]]:
    """The numbers of ``{"topic": {"partition": number}}``, one by one."""
    for topic, numbers in nested.items():
        if fault := fault_of_topic(topic):
            raise given.error(spec.name, fault)
        if not isinstance(numbers, dict):
            raise given.error(spec.name, f"expected {form}; {topic!r} has {shown(numbers)}")
        for partition, number in numbers.items():
            # bool is a subclass of int, and JSON's true is not a number.
            whole = type(number) is int and abs(number) <= LONG_MAX
            index = whole_number(partition)
            if not whole or index is None or not 0 <= index <= INT_MAX:
                raise given.error(spec.name, f"expected {form}; {topic!r} has {shown(numbers)}")
            yield TopicPartition(topic, index), number


def _decode(given: RawOptions, spec: OptionSpec, topic_partition: TopicPartition, offset: int) -> Position:
    if offset == _EARLIEST_CODE:
        return Earliest()
    if offset == _LATEST_CODE:
        return Latest()
    if offset < 0:
        reason = f"{topic_partition} has {offset}; only -2 (earliest) and -1 (latest) are negative"
        raise given.error(spec.name, reason)
    return Exact(offset)


def _refuse(given: RawOptions, positions: Positions, refused: Position, reason: str) -> None:
    everywhere = (positions.default, *positions.topics.values(), *positions.partitions.values())
    if refused in everywhere:
        raise given.error(positions.option, reason)


def _check_pair(given: RawOptions, starting: Positions, ending: Positions) -> None:
    """Refuse a start and an end that name different partitions, or a start behind its end."""
    if starting.topics or ending.topics or not (starting.partitions and ending.partitions):
        return
    unmatched = sorted(starting.partitions.keys() ^ ending.partitions.keys())
    if unmatched:
        names = ", ".join(map(str, unmatched))
        raise given.error(
            ending.option,
            f"must name the same partitions as {starting.option}; only one of them names {names}",
            MismatchedTopicPartitionsBetweenStartOffsetAndEndOffsetError,
        )
    for topic_partition, start in starting.partitions.items():
        end = ending.partitions[topic_partition]
        if isinstance(start, Exact) and isinstance(end, Exact) and start.offset > end.offset:
            reason = f"{topic_partition} would start at {start.offset} and end before {end.offset}"
            raise given.error(starting.option, reason, UnresolvedStartOffsetGreaterThanEndOffsetError)
