"""A section of the pipeline file that names a sink: its type, its arguments, and what stands beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from directkafka.errors import OptionError
from directkafka.pipeline.isolation.policy import POLICY_NAMES, DeadLetterPolicy
from directkafka.pipeline.toml_file import OUTPUT, TABLE_FROM, TABLES, TYPE, own_names
from directkafka.sinks.api import Sink
from directkafka.sinks.registry import sink_type
from directkafka.sinks.routing import Routing, routed_sinks


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSection:
    """One output into one table, topic or folder.

    Attributes:
        type: the kind of sink.
        source_output: which of the transform's named outputs it takes.
        arguments: the sink's.
        routing: which column says which table a row goes into; None: they name one table.
    """

    type: str
    source_output: str
    arguments: Mapping[str, Any] = field(repr=False)
    routing: Routing | None = None

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> SinkSection:
        """A section that is known to be right."""
        is_routed = not {TABLE_FROM, TABLES}.isdisjoint(section)
        routing = Routing.parse(section.get(TABLE_FROM), section.get(TABLES)) if is_routed else None
        rest = {name: value for name, value in section.items() if name not in own_names(is_routed=is_routed)}
        sink_class: Any = sink_type(section[TYPE])
        return cls(
            type=section[TYPE],
            source_output=section.get(OUTPUT, "default"),
            arguments=sink_class.arguments(rest),
            routing=routing,
        )

    def sinks(self) -> list[Sink]:
        """The sinks: one, or one for each table that rows may name.

        Raises:
            OptionError: its arguments make no sense together.
        """
        make: Any = sink_type(self.type)
        if self.routing is None:
            return [make(**self.arguments)]
        return routed_sinks(lambda table: make(**self.arguments, table=table), self.routing)


def without_policy(section: Mapping[str, Any]) -> dict[str, Any]:
    """What the section ``[dead_letters]`` says of its sink alone."""
    return {name: value for name, value in section.items() if name not in POLICY_NAMES}


def dead_letter_policy(section: Mapping[str, Any]) -> DeadLetterPolicy:
    """What the section ``[dead_letters]`` stands for.

    Raises:
        OptionError: what it says makes no sense together.
    """
    sink = SinkSection.of(without_policy(section))
    if sink.routing is not None:
        raise OptionError(option=TABLE_FROM, reason="letters go into one table: name it in table")
    [made] = sink.sinks()
    return DeadLetterPolicy(made, **{name: section[name] for name in POLICY_NAMES if name in section})
