"""Texts before they are numbers and names."""

from __future__ import annotations

import pytest

from directkafka.options.texts import (
    DURATION_MS_MAX,
    decimal_number,
    duration_ms,
    fault_of_pattern,
    fault_of_text,
    fault_of_topic,
    whole_number,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-1", -1), ("+5", 5), ("0" * 5000 + "7", 7), ("9" * 20, int("9" * 20))],
)
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-", "1_000", "٣", "\uff19", "1.0", "1e3", " 1", "9" * 21, "9" * 5000, "0x10"])
def test_other_texts_are_none(text: str) -> None:
    assert whole_number(text) is None


def test_a_decimal_number_is_finite_and_of_ascii_digits() -> None:
    assert (decimal_number("0.2"), decimal_number("12")) == (0.2, 12.0)
    assert [
        decimal_number(text) for text in ("9" * 400, "1" + "0" * 299 + "0" * 99, "inf", "nan", "٣", "-1", "1.")
    ] == [None] * 7


@pytest.mark.parametrize(
    "text", ["9" * 400 + "s", "9" * 5000 + "ms", "٣s", "1.5.5s", "101 years", "36501d", "1e5s", "s"]
)
def test_what_is_no_duration_of_a_life_s_length_is_none(text: str) -> None:
    assert duration_ms(text) is None


def test_a_duration_may_be_a_hundred_years() -> None:
    assert duration_ms("36500 days") == DURATION_MS_MAX


def test_a_nul_and_half_a_character_are_told_with_their_position() -> None:
    assert fault_of_text("flights é 航") == ""
    assert fault_of_text("ab\0c").startswith("has a NUL character (U+0000) at position 3")
    assert "U+DC80) at position 2" in fault_of_text("a\udc80")
    assert fault_of_text("éé", bytes_max=3) == "has 4 bytes; 3 is the most"


@pytest.mark.parametrize("name", ["flights", "a.b-c_D", "0" * 249, "..."])
def test_a_topic_s_name_is_one_by_kafka_s_rule(name: str) -> None:
    assert fault_of_topic(name) == ""


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "a\0", "0" * 250, "a\n"])
def test_what_kafka_takes_for_no_topic_is_told(name: str) -> None:
    assert "cannot be a topic's name" in fault_of_topic(name)


@pytest.mark.parametrize("pattern", ["(", "(" * 5_000 + ")" * 5_000, "a{" + "9" * 25 + "}", "(?P<x>a)(?P<x>b)"])
def test_what_python_takes_for_no_pattern_is_told(pattern: str) -> None:
    assert fault_of_pattern(pattern)


@pytest.mark.parametrize("pattern", ["^air-.*$", "[[a]", "a|b"])
def test_a_pattern_is_taken_without_a_warning(pattern: str) -> None:
    assert fault_of_pattern(pattern) == ""
