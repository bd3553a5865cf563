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

_lock: Final = threading.Lock()

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
        with _lock:
            for one in wanted:
                other = _taken.get(id(one), self)
                if other is not self:
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
        with _lock:
            for one in self._objects:
                if _taken.get(id(one)) is self:
                    del _taken[id(one)]
            self._objects.clear()
