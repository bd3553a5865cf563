"""Answers of a registry that never change: known to this process, and to the others of Spark's JVM on this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from directkafka import jvm_files

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class KnownAnswers(Generic[Key, Answer]):
    """Answers by what was asked for.

    Args:
        registry: its addresses, in one text.
        kind: what the answers are, for who looks for others of the same registry.
        dump: an answer as JSON has it.
        load: the answer again.
    """

    def __init__(
        self, registry: str, kind: str, *, dump: Callable[[Answer], object], load: Callable[[Any], Answer]
    ) -> None:
        self._place = f"{registry} {kind}"
        self._dump, self._load = dump, load
        self._answers: dict[Key, Answer] = {}

    def __contains__(self, key: object) -> bool:
        """Whether this process knows the answer."""
        return key in self._answers

    def get(self, key: Key) -> Answer | None:
        """The answer, if it is known."""
        if key not in self._answers and (content := jvm_files.kept(self._name(key))) is not None:
            digest, _, text = content.partition(b"\n")
            # A machine that lost its power may have left a part of a file.
            if digest == _digest(text):
                self._answers[key] = self._load(json.loads(text))
        return self._answers.get(key)

    def put(self, key: Key, answer: Answer) -> None:
        """Know an answer from now on."""
        if key in self._answers:
            return
        self._answers[key] = answer
        text = json.dumps(self._dump(answer)).encode()
        jvm_files.keep(self._name(key), _digest(text) + b"\n" + text)

    def _name(self, key: Key) -> str:
        return f"{self._place} {key}"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
