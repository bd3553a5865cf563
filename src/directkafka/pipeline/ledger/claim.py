"""A sink belongs to one run at a time.

A sink and its store are a driver's: they hold a fence, connections and perhaps an open transaction. Sequence of events
where two pipelines of a process have one sink object between them: the first begins its transaction, the second begins
its own on the same connection, which makes it a part of the first; the first commits, the second rolls back, and a
batch that was told to be committed has rows missing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Final

from directkafka.errors import OptionError

__all__ = ["Claim"]

_given_back: Final = threading.Condition()

#: How long a pipeline waits for its own last run to end, in seconds. A query that has ended is told to its user before
#: its connections are given back, and he may start it again at once.
_OWN_RUN_S: Final = 10.0

#: Who has which object, by its address. A claim that nobody holds any more is none; one that is held keeps its objects
#: alive, so that no other object gets their address.
_taken: Final[weakref.WeakValueDictionary[int, Claim]] = weakref.WeakValueDictionary()


class Claim:
    """What one run of a pipeline has for itself.

    Args:
        pipeline: its name.
    """

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._objects: list[object] = []

    def take(self, objects: Iterable[object]) -> None:
        """Claim all of them, or none. What this claim has already, it keeps.

        Raises:
            OptionError: another run has one of them.
        """
        wanted = list(objects)
        with _given_back:
            _given_back.wait_for(lambda: not self._own_run_has(wanted), timeout=_OWN_RUN_S)
            for one in wanted:
                other = self._other(one)
                if other is not None:
                    raise OptionError(
                        option="sinks",
                        where=f"pipeline {self._pipeline!r}",
                        reason=f"{one!r} is in use by pipeline {other._pipeline!r} of this process, and a sink belongs "
                        "to one pipeline; make another one with the same arguments, or stop that pipeline first",
                    )
            for one in wanted:
                _taken[id(one)] = self
            self._objects += wanted

    def give_back(self) -> None:
        """Let others have them."""
        with _given_back:
            for one in self._objects:
                if _taken.get(id(one)) is self:
                    del _taken[id(one)]
            self._objects.clear()
            _given_back.notify_all()

    def _other(self, one: object) -> Claim | None:
        """The run that has it, if it is not this one."""
        other = _taken.get(id(one))
        return None if other is self else other

    def _own_run_has(self, wanted: Iterable[object]) -> bool:
        """Whether what is wanted is with another run of the same pipeline."""
        others = [self._other(one) for one in wanted]
        return any(other is not None and other._pipeline == self._pipeline for other in others)
