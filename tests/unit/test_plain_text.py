"""What is shown of text of unknown origin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile import HOSTILE, assert_harmless

from directkafka.plain_text import LINE_CHARACTERS_MAX, TEXT_CHARACTERS_MAX, cut, message, one_line

#: Lone surrogates too, which hypothesis leaves out unless told otherwise.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_value_is_shown_and_does_nothing(value: str) -> None:
    assert_harmless(message(value))
    assert_harmless(one_line(value))
    assert "\n" not in one_line(value)


@given(ANY_TEXT)
def test_any_text_becomes_one_that_can_be_seen_and_encoded(text: str) -> None:
    for shown in (message(text), one_line(text)):
        assert_harmless(shown)
        shown.encode()


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S"])))
def test_letters_of_all_scripts_stay_as_they_are(text: str) -> None:
    assert one_line(text) == text
    assert message(text) == text


def test_what_cannot_be_seen_is_spelt_out() -> None:
    assert one_line("\x1b[31m\u202e\0\x9b\ud800\n") == r"\x1b[31m\u202e\x00\x9b\ud800\n"


def test_no_line_of_a_message_but_the_first_begins_like_a_message() -> None:
    shown = message("refused: a\n2026-01-01 INFO all is well\r\nerror no\rthing")
    assert shown.split("\n") == ["refused: a", "    2026-01-01 INFO all is well", "    error no\\rthing"]


def test_a_long_text_keeps_its_beginning_and_its_end_and_says_how_long_it_was() -> None:
    shown = cut("a" * 5_000 + "what to do", 1_000)
    assert shown.startswith("a" * 750 + " ... (cut, 5,010 characters) ... ")
    assert shown.endswith("what to do")
    assert cut("short", 5) == "short"


def test_a_line_and_a_text_have_a_longest_length() -> None:
    # Each character may become up to ten.
    assert len(one_line("\U000e0041" * 10_000_000)) < 10 * LINE_CHARACTERS_MAX + 100
    assert len(message("\n" * 10_000_000)) < 6 * TEXT_CHARACTERS_MAX
