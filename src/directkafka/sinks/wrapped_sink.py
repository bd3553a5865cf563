"""Bases of sinks: one that can be made once more, and one around another sink.

Sinks that can be made once more: the same settings, and a store object of its own.

A store object is one driver's: it holds a fence, connections, an open transaction, and closing it ends all of them.
Whoever only looks (``check``, ``verify``), perhaps while the pipeline runs in this very process, must do so through
another one.
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
    """All of :class:`Sink`, and what the inner sink's store asks of it beside, as the inner sink does it.

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
