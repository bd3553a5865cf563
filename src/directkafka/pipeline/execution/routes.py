"""Which output goes into which sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from directkafka.errors import OptionError
from directkafka.pipeline.execution.dead_letters import DEAD_LETTERS
from directkafka.pipeline.execution.transform import DEFAULT_OUTPUT
from directkafka.sinks.api import Sink

__all__ = ["Binding", "Sinks", "bind", "cloned"]

#: One sink or several for the only output, or a dict of them for named ones.
Sinks = Sink | Sequence[Sink] | Mapping[str, Sink | Sequence[Sink]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One of the transform's outputs, by name, into one sink."""

    output: str
    sink: Sink


def bind(sinks: Sinks, dead_letters: Sink | None = None) -> tuple[Binding, ...]:
    """Outputs and sinks, in the order given; rejected records come last.

    Raises:
        OptionError: there is none.
    """
    named = sinks if isinstance(sinks, Mapping) else {DEFAULT_OUTPUT: sinks}
    bindings = tuple(Binding(output=output, sink=sink) for output, some in named.items() for sink in _as_sequence(some))
    if not bindings:
        raise OptionError(option="sinks", reason="a pipeline needs at least one sink")
    if any(binding.output == DEAD_LETTERS for binding in bindings):
        raise OptionError(option="sinks", reason=f"the sink of {DEAD_LETTERS!r} is given by itself: dead_letters = ...")
    return bindings if dead_letters is None else (*bindings, Binding(output=DEAD_LETTERS, sink=dead_letters))


def cloned(bindings: Sequence[Binding]) -> tuple[Binding, ...] | None:
    """The same with sinks and stores of their own, for a look beside a running pipeline.

    Returns:
        None when a sink is of a user's own kind, which cannot be made again.
    """
    made = [Binding(output=one.output, sink=sink) for one in bindings if (sink := one.sink.clone()) is not None]
    return tuple(made) if len(made) == len(bindings) else None


def _as_sequence(sinks: Sink | Sequence[Sink]) -> Sequence[Sink]:
    return sinks if isinstance(sinks, Sequence) else (sinks,)
