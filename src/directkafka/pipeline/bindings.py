"""Which output goes into which sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from directkafka.errors import OptionError
from directkafka.pipeline.batch import Binding
from directkafka.pipeline.transform import DEFAULT_OUTPUT
from directkafka.stores.base import Sink

__all__ = ["Sinks", "bind"]

#: One sink or several for the only output, or a dict of them for named ones.
Sinks = Sink | Sequence[Sink] | Mapping[str, Sink | Sequence[Sink]]


def bind(sinks: Sinks) -> tuple[Binding, ...]:
    """Outputs and sinks, in the order given.

    Raises:
        OptionError: there is none.
    """
    named = sinks if isinstance(sinks, Mapping) else {DEFAULT_OUTPUT: sinks}
    bindings = tuple(Binding(output=output, sink=sink) for output, some in named.items() for sink in _as_sequence(some))
    if not bindings:
        raise OptionError(option="sinks", reason="a pipeline needs at least one sink")
    return bindings


def _as_sequence(sinks: Sink | Sequence[Sink]) -> Sequence[Sink]:
    return sinks if isinstance(sinks, Sequence) else (sinks,)
