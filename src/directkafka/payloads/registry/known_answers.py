"""Answers of a registry that never change: known to this process, and to the others of Spark's JVM on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from directkafka import jvm_files

#: Of what is written. Processes of one JVM may have two releases of this library, which do not read one another's.
_FORMAT: Final = 1

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class KnownAnswers(Generic[Key, Answer]):
    """Answers by what was asked for.

    Args:
        asked: who was asked, and for what kind of answers: others see those with the same text.
        dump: an answer as JSON has it.
        load: the answer again.
    """

    def __init__(self, asked: str, *, dump: Callable[[Answer], object], load: Callable[[Any], Answer]) -> None:
        self._asked = asked
        self._dump, self._load = dump, load
        self._answers: dict[Key, Answer] = {}

    def __contains__(self, key: object) -> bool:
        """Whether this process knows the answer."""
        return key in self._answers

    def get(self, key: Key) -> Answer | None:
        """The answer, if it is known."""
        if key not in self._answers and (content := jvm_files.read(self._name(key))) is not None:
            # A machine that lost its power may have left a part of a file.
            with suppress(ValueError, LookupError, TypeError):
                self._answers[key] = self._load(json.loads(content))
        return self._answers.get(key)

    def put(self, key: Key, answer: Answer) -> None:
        """Know an answer from now on."""
        if key in self._answers:
            return
        self._answers[key] = answer
        jvm_files.write(self._name(key), json.dumps(self._dump(answer)).encode())

    def _name(self, key: Key) -> str:
        return f"{_FORMAT} {self._asked} {key}"
