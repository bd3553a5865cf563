"""Where a read starts and ends: precedence, JSON forms, what a kind of read cannot have."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from directkafka.errors import OptionError
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
from directkafka.options.source import SourceOptions

BASE = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def starting(options: Mapping[str, str], *, streaming: bool = True) -> Positions:
    return SourceOptions.parse({**BASE, **options}, streaming=streaming).starting


def ending(options: Mapping[str, str]) -> Positions:
    positions = SourceOptions.parse({**BASE, **options}, streaming=False).ending
    assert positions is not None
    return positions


def refused(options: Mapping[str, str], *, streaming: bool) -> OptionError:
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse({**BASE, **options}, streaming=streaming)
    return caught.value


def test_a_stream_starts_at_latest_and_has_no_end() -> None:
    options = SourceOptions.parse(BASE, streaming=True)
    assert options.starting.default == Latest()
    assert options.ending is None


def test_a_batch_goes_from_earliest_to_latest() -> None:
    assert starting({}, streaming=False).default == Earliest()
    assert ending({}).default == Latest()


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("-1000", BeforeLatest(1000)),
        ("- 1", BeforeLatest(1)),
        ("-10 minutes", Ago(600_000)),
        ("-2H", Ago(7_200_000)),
        ("-0.5s", Ago(500)),
        ("committed", Committed("g")),
        ("Committed-or-Earliest", Committed("g", Earliest())),
        ("committed-or-latest", Committed("g", Latest())),
    ],
)
def test_a_start_may_be_relative_or_a_group_s(text: str, position: Position) -> None:
    assert starting({"startingOffsets": text, "kafka.group.id": "g"}).default == position
    by_topic = starting({"startingOffsets": json.dumps({"t": text}), "kafka.group.id": "g"})
    assert by_topic.topics == {"t": position}


@pytest.mark.parametrize(
    "text", ["1000", "10 minutes", "-10 parsecs", "committed-or", "committed-or-nothing", "-", "", "-1.5"]
)
def test_what_is_no_position_is_refused_with_all_forms(text: str) -> None:
    error = refused({"startingOffsets": text, "kafka.group.id": "g"}, streaming=True)
    assert error.option == "startingOffsets"
    assert "-10 minutes" in error.reason


def test_a_group_s_offsets_need_the_group() -> None:
    assert "needs kafka.group.id" in refused({"startingOffsets": "committed"}, streaming=True).reason


def test_a_group_that_is_started_from_is_no_reason_for_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    starting({"startingOffsets": "committed", "kafka.group.id": "g"})
    assert caplog.text == ""


@pytest.mark.parametrize(("word", "position"), [("earLiEst", Earliest()), (" laTest ", Latest())])
def test_words_are_taken_in_any_case(word: str, position: Position) -> None:
    assert starting({"startingOffsets": word}).default == position


def test_offsets_by_partition_keep_the_topics_case() -> None:
    positions = starting({"startingOffsets": '{"Topic-A":{"0":23,"1":-2,"2":-1}}'})
    assert positions.partitions == {
        TopicPartition("Topic-A", 0): Exact(23),
        TopicPartition("Topic-A", 1): Earliest(),
        TopicPartition("Topic-A", 2): Latest(),
    }
    assert (positions.default, positions.option) == (None, "startingOffsets")


def test_topics_can_have_a_position_as_a_whole() -> None:
    positions = starting({"startingOffsets": '{"t":"Earliest","u":{"0":5}}'})
    assert positions.topics == {"t": Earliest()}
    assert positions.partitions == {TopicPartition("u", 0): Exact(5)}


def test_timestamps_by_partition_count_before_offsets() -> None:
    positions = starting({"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"t":{"0":1000}}'})
    assert positions.partitions == {T0: AtTimestamp(1000)}
    assert positions.default is None


def test_the_global_timestamp_counts_before_everything_else() -> None:
    positions = starting(
        {
            "startingOffsets": "earliest",
            "startingOffsetsByTimestamp": '{"t":{"0":1000}}',
            "startingTimestamp": "7",
        }
    )
    assert positions == Positions(default=AtTimestamp(7), option="startingTimestamp")


def test_the_end_has_the_same_precedence() -> None:
    everything = {
        "endingOffsets": '{"t":{"0":9}}',
        "endingOffsetsByTimestamp": '{"t":{"0":1000}}',
        "endingTimestamp": "7",
    }
    assert ending(everything).default == AtTimestamp(7)
    del everything["endingTimestamp"]
    assert ending(everything).partitions == {T0: AtTimestamp(1000)}
    del everything["endingOffsetsByTimestamp"]
    assert ending(everything).partitions == {T0: Exact(9)}


@pytest.mark.parametrize(("strategy", "falls_back"), [("error", False), ("LATEST", True)])
def test_the_strategy_says_what_no_match_at_the_start_means(strategy: str, falls_back: bool) -> None:
    options = {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": strategy}
    assert starting(options).latest_if_no_match is falls_back


def test_no_match_at_the_end_is_always_latest() -> None:
    assert ending({"endingTimestamp": "7"}).latest_if_no_match


def test_an_unknown_strategy_is_refused() -> None:
    error = refused({"startingOffsetsByTimestampStrategy": "earliest"}, streaming=True)
    assert error.reason == "expected one of error, latest, found 'earliest'"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "earliestish",
        "[]",
        "{}",
        "5",
        "{",
        '{"t":{}}',
        '{"t":[0]}',
        '{"t":"first"}',
        '{"t":5}',
        '{"t":null}',
        '{"t":{"0":"23"}}',
        '{"t":{"0":true}}',
        '{"t":{"0":1.5}}',
        '{"t":{"a":1}}',
        '{"t":{"-1":1}}',
        '{"t":{"0":-3}}',
        '{"t":{"0":9223372036854775808}}',
        '{"t":{"\u0663":1}}',
        pytest.param('{"t":{"' + "9" * 5000 + '":1}}', id="a partition of 5000 digits"),
        pytest.param('{"t":{"0":' + "9" * 5000 + "}}", id="an offset of 5000 digits"),
    ],
)
def test_a_malformed_start_is_refused_under_its_name(text: str) -> None:
    assert refused({"startingOffsets": text}, streaming=True).option == "startingOffsets"


@pytest.mark.parametrize("text", ["latest", "{}", '{"t":"earliest"}', '{"t":{"0":-1}}', '{"t":{"0":"5"}}'])
def test_malformed_timestamps_are_refused_under_their_name(text: str) -> None:
    error = refused({"startingOffsetsByTimestamp": text}, streaming=True)
    assert error.option == "startingOffsetsByTimestamp"


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_refuses_an_end(name: str) -> None:
    assert refused({name: "latest"}, streaming=True).option == name


@pytest.mark.parametrize("text", ["latest", '{"t":{"0":-1}}', '{"t":"latest"}'])
def test_a_batch_cannot_start_at_latest(text: str) -> None:
    error = refused({"startingOffsets": text}, streaming=False)
    assert (error.option, "start at latest" in error.reason) == ("startingOffsets", True)


@pytest.mark.parametrize("text", ["earliest", '{"t":{"0":-2}}', '{"t":"earliest"}'])
def test_a_batch_cannot_end_at_earliest(text: str) -> None:
    error = refused({"endingOffsets": text}, streaming=False)
    assert (error.option, "end at earliest" in error.reason) == ("endingOffsets", True)


def test_a_start_that_is_overruled_by_a_timestamp_may_be_latest() -> None:
    options = {"startingOffsets": "latest", "startingTimestamp": "1"}
    assert starting(options, streaming=False).default == AtTimestamp(1)


@pytest.mark.parametrize(
    "end", [{"endingOffsets": '{"t":{"0":9}}'}, {"endingOffsetsByTimestamp": '{"t":{"0":9,"2":1}}'}]
)
def test_start_and_end_must_name_the_same_partitions(end: dict[str, str]) -> None:
    error = refused({"startingOffsets": '{"t":{"0":1,"1":1}}', **end}, streaming=False)
    assert {error.option} == set(end)
    assert "startingOffsets" in error.reason
    assert str(T1) in error.reason


def test_a_start_behind_its_end_is_refused_before_anything_is_asked() -> None:
    error = refused({"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":8}}'}, streaming=False)
    assert "t-0 would start at 9 and end before 8" in error.reason


def test_a_start_and_an_end_that_agree_are_taken() -> None:
    options = {"startingOffsets": '{"t":{"0":-2,"1":5}}', "endingOffsets": '{"t":{"0":8,"1":-1}}'}
    assert ending(options).partitions == {T0: Exact(8), T1: Latest()}
