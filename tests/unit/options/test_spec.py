"""Several mistakes at once."""

from __future__ import annotations

import pickle

import pytest

from directkafka.errors import OptionError
from directkafka.options.source import SourceOptions
from directkafka.options.spec import Mistakes


def test_nothing_is_raised_where_nothing_is_wrong() -> None:
    mistakes = Mistakes()
    with mistakes.kept():
        pass
    mistakes.raise_if_any()
    assert not mistakes


def test_the_first_is_raised_with_the_others_in_its_message() -> None:
    mistakes = Mistakes()
    for option in ("a", "b", "a"):
        with mistakes.kept():
            raise OptionError(option=option, reason="is wrong")
    with pytest.raises(OptionError) as caught:
        mistakes.raise_if_any()
    assert str(caught.value) == "option 'a': is wrong.\noption 'b': is wrong."
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_what_was_several_already_stays_so_and_a_place_comes_first() -> None:
    inner, outer = Mistakes(), Mistakes()
    for option in ("a", "b"):
        inner.add(OptionError(option=option, reason="is wrong"))
    with outer.kept("file"):
        inner.raise_if_any()
    outer.add(OptionError(option="c", reason="too"))
    assert str(outer.together()).splitlines() == [
        "option 'a' in file: is wrong.",
        "option 'b': is wrong.",
        "option 'c': too.",
    ]


def test_a_list_of_mistakes_ends_somewhere() -> None:
    mistakes = Mistakes()
    for number in range(100):
        mistakes.add(OptionError(option=str(number), reason="is wrong"))
    lines = str(mistakes.together()).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 80 more."


def test_all_mistakes_of_a_source_are_told() -> None:
    options = {
        "kafka.bootstrap.servers": "nowhere",
        "kafka.fetch.min.bites": "1",
        "subscribe": "a b",
        "startingOffset": "earliest",
        "minPartitions": "9" * 5_000,
        "failOnDataLoss": "perhaps",
        "kafka.security.protocol": "TLS",
    }
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse(options, streaming=True)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(options)
    assert all(any(name.lower() in line.lower() for line in lines) for name in options)
    assert "the nearest one is 'startingOffsets'" in str(caught.value)
    assert len(str(caught.value)) < 3_000
