"""Every error of the tree, found by walking it: a new one is tested when it is written."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import string
import traceback
import typing
from collections.abc import Iterator

import pytest
from tests.error_types import errors_of

from directkafka import errors
from directkafka.errors import (
    BrokerResponseError,
    DirectKafkaError,
    FencedError,
    KafkaError,
    OptionError,
    StoreError,
    streams,
)
from directkafka.errors import kafka as kafka_errors
from directkafka.errors.data_loss import CouldNotReadOffsetRangeError
from directkafka.errors.transport import Notes


def subclasses(of: type[DirectKafkaError]) -> Iterator[type[DirectKafkaError]]:
    for subclass in of.__subclasses__():
        # A dataclass with slots is made twice; only the class that its module knows is the real one.
        if subclass.__module__ == errors.__name__ and getattr(errors, subclass.__name__) is subclass:
            yield subclass
        yield from subclasses(subclass)


TREE = sorted(set(subclasses(DirectKafkaError)), key=lambda error_type: error_type.__name__)
LEAVES = [error_type for error_type in TREE if dataclasses.fields(error_type)]
#: Leaves that are drawn in a module of their own.
WRITING = errors_of(kafka_errors)
STREAMING = errors_of(streams)
LEAVES += WRITING + STREAMING
SAMPLES = {str: "some text", int: 4711, bool: True, tuple[str, ...]: ("one", "two")}


def sample(error_type: type[DirectKafkaError]) -> DirectKafkaError:
    hints = typing.get_type_hints(error_type)
    values = {field.name: SAMPLES[hints[field.name]] for field in dataclasses.fields(error_type)}
    return error_type(**values)


def test_the_tree_at_the_top_of_the_module_names_every_error_under_its_parent() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        name = next((word for word in line.split() if word.endswith("Error")), None)
        if name is not None and line.startswith("    "):
            depth = line.index(name) // 4 - 1
            path[depth:] = [name]
            drawn[name] = path[depth - 1] if depth else ""
    assert drawn.pop("DirectKafkaError") == ""
    assert drawn == {error_type.__name__: error_type.__base__.__name__ for error_type in TREE if error_type.__base__}


def test_the_tree_of_writing_names_every_error_of_its_module() -> None:
    words = (kafka_errors.__doc__ or "").partition("A refusal")[0].split()
    drawn = {word for word in words if word.endswith("Error")}
    assert drawn == {error_type.__name__ for error_type in WRITING} | {"KafkaError"}
    assert {error_type.__base__ for error_type in WRITING} == {KafkaError, BrokerResponseError}


def test_the_tree_of_streams_names_every_error_of_its_module_under_its_parent() -> None:
    names = re.findall(r"^(.*)\b(\w+Error)\b", streams.__doc__ or "", re.MULTILINE)
    drawn = {name for branch, name in names if "──" in branch}
    parents = {error_type.__base__.__name__ for error_type in STREAMING} - {"DirectKafkaError"}
    assert drawn == {error_type.__name__ for error_type in STREAMING} | parents | {"StoreError"}


@pytest.mark.parametrize("error_type", LEAVES)
def test_an_error_arrives_from_an_executor_with_its_fields(error_type: type[DirectKafkaError]) -> None:
    error = sample(error_type)
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is error_type
        assert dataclasses.asdict(copied) == dataclasses.asdict(error)
        assert str(copied) == str(error)


@pytest.mark.parametrize("error_type", LEAVES)
def test_a_message_shows_what_the_fields_hold(error_type: type[DirectKafkaError]) -> None:
    error = sample(error_type)
    message = str(error)
    assert error.args == (message,)
    assert "{" not in message
    named = {field for _, field, _, _ in string.Formatter().parse(error_type.template) if field}
    assert named <= {declared_field.name for declared_field in dataclasses.fields(error_type)}


@pytest.mark.parametrize("error_type", LEAVES)
def test_an_error_is_made_again_from_the_traceback_that_shows_its_note(error_type: type[DirectKafkaError]) -> None:
    error = sample(error_type)
    with pytest.raises(error_type) as caught:
        raise Notes.of_this_process().on(error)
    told = "org.apache.spark.SparkException: ...\n" + "".join(traceback.format_exception(caught.value)) + "\tat java"
    again = Notes.of_this_process().read(told)
    assert type(again) is error_type
    assert dataclasses.asdict(again) == dataclasses.asdict(error)


@pytest.mark.parametrize("text", ["", "a traceback", "[directkafka OptionError]", '[directkafka fields {"a": 1}]'])
def test_a_text_without_a_note_is_no_error_of_ours(text: str) -> None:
    assert Notes.of_this_process().read(text) is None


@pytest.mark.parametrize("error_type", LEAVES)
def test_an_error_takes_its_fields_by_name_only(error_type: type[DirectKafkaError]) -> None:
    with pytest.raises(TypeError):
        error_type("some text")


def test_an_error_is_caught_by_its_branch() -> None:
    with pytest.raises(StoreError):
        raise FencedError(store="s", pipeline="p", held=1, found=2)
    with pytest.raises(KafkaError):
        raise BrokerResponseError(api="Fetch", code=6, name="NOT_LEADER", retriable=True, subject="t-0")


def test_an_option_error_names_its_place_only_when_there_is_one() -> None:
    assert str(OptionError(option="a", reason="is wrong")) == "option 'a': is wrong."
    assert str(OptionError(option="a", reason="is wrong", where="f.toml")) == "option 'a' in f.toml: is wrong."


def test_a_data_loss_reads_like_sparks() -> None:
    error = CouldNotReadOffsetRangeError(topic="t", partition=3, lost_from=5, lost_until=9, detail="aged out")
    assert str(error) == (
        "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] topic t, partition 3, offsets [5, 9): aged out. Some data "
        "may have been lost because it is no longer available in Kafka. To go on without it, set the source's "
        "failOnDataLoss to false; an RDD or a direct stream is given offsets that are still there."
    )


def test_two_errors_with_equal_fields_are_two_errors() -> None:
    # contextlib and logging put errors into sets: equality by fields would fold or break them.
    first, second = sample(OptionError), sample(OptionError)
    assert first != second
    assert len({first, second}) == 2
