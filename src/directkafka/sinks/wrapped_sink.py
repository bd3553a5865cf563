"""Base classes of sinks: one for sinks that can be cloned, and one for a sink that wraps another sink.

A clone has the same settings, and a store object of its own.

A store object belongs to one driver: it holds a fence, connections and an open transaction, and closing it ends all of
them. Code that only looks (``check``, ``verify``), perhaps while the pipeline runs in this very process, must do so
through a clone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from directkafka.sinks.api import Sink


class _Inner:
    """An attribute that is the inner sink's."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, sink: WrappedSink | None, owner: type) -> Any:
        return self if sink is None else getattr(sink._inner, self._name)


class WrappedSink(Sink):
    """A sink that passes all calls on to an inner sink: those of :class:`Sink`, and those that its store adds.

    It cannot be cloned: the inner sink's clone would not be wrapped.

    Args:
        inner: the sink.
    """

    name: Any = _Inner()
    store: Any = _Inner()
    capabilities: Any = _Inner()
    target: Any = _Inner()
    dead_letters: Any = _Inner()
    json_columns: Any = _Inner()
    leave_alone: Any = _Inner()
    check: Any = _Inner()
    prepare: Any = _Inner()
    task_writer: Any = _Inner()
    apply: Any = _Inner()
    recount: Any = _Inner()
    needs_second_phase: Any = _Inner()
    second_phase: Any = _Inner()

    def __init__(self, inner: Sink) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)


class Clonable(Sink):
    """A sink that remembers the arguments it was made with; subclasses need no code for this."""

    _made_from: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """As always, and the arguments are kept."""
        made = super().__new__(cls)
        made._made_from = (arguments, options)
        return made

    def clone(self) -> Self:
        """Another sink, made with the same arguments, which has opened nothing yet."""
        arguments, options = self._made_from
        return type(self)(*arguments, **options)
