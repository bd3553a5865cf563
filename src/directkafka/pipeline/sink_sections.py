"""``[[sink]]`` and ``[dead_letters]`` in the pipeline file: a type of sinks, an output, and the sink's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from directkafka.sinks.api import Sink
from directkafka.sinks.registry import sink_type

__all__ = ["OUTPUT", "TYPE", "SinkSection"]

#: Names of a section that are not the sink's.
TYPE, OUTPUT = "type", "from"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSection:
    """One output into one table, topic or folder.

    Attributes:
        type: the kind of sink.
        source_output: which of the transform's named outputs it takes.
        arguments: the sink's.
    """

    type: str
    source_output: str
    arguments: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> SinkSection:
        """A section that is known to be right."""
        rest = {name: value for name, value in section.items() if name not in (TYPE, OUTPUT)}
        found: Any = sink_type(section[TYPE])
        return cls(type=section[TYPE], source_output=section.get(OUTPUT, "default"), arguments=found.arguments(rest))

    def build(self) -> Sink:
        """The sink.

        Raises:
            OptionError: its arguments make no sense together.
        """
        return sink_type(self.type)(**self.arguments)
