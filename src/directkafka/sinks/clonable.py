"""Sinks that can be made once more: the same settings, and a store object of its own.

A store object is one driver's: it holds a fence, connections, an open transaction, and closing it ends all of them.
Whoever only looks (``check``, ``verify``), perhaps while the pipeline runs in this very process, must do so through
another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from directkafka.sinks.api import Sink

__all__ = ["Clonable"]


class Clonable(Sink):
    """Remembers what it was made from; a subclass with other arguments needs nothing for it."""

    _made_from: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """As always, and the arguments are kept."""
        made = super().__new__(cls)
        made._made_from = (arguments, options)
        return made

    def clone(self) -> Self:
        """Another sink like this one, as it was when it was made, which has opened nothing yet."""
        arguments, options = self._made_from
        return type(self)(*arguments, **options)
