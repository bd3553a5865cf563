"""Options: names and texts on the outside, typed and bounded values on the inside, parsed in one
place."""

from directkafka.options.client import ClientOptions
from directkafka.options.client import client_specs as _client_specs
from directkafka.options.limits import NO_LIMITS, NO_WAIT, MinOffsets, OffsetLimits
from directkafka.options.producer import ProducerOptions, SinkOptions
from directkafka.options.source import (
    AssignedPartitions,
    ChosenPartitions,
    SourceOptions,
    Strategy,
    TopicNames,
    TopicPattern,
)
from directkafka.options.source import source_specs as _source_specs
from directkafka.options.spec import OptionSpec, Secret

__all__ = [
    "NO_LIMITS",
    "NO_WAIT",
    "AssignedPartitions",
    "ChosenPartitions",
    "ClientOptions",
    "MinOffsets",
    "OffsetLimits",
    "OptionSpec",
    "ProducerOptions",
    "Secret",
    "SinkOptions",
    "SourceOptions",
    "Strategy",
    "TopicNames",
    "TopicPattern",
    "option_table",
]


def option_table() -> tuple[OptionSpec, ...]:
    """Every option that the source knows: its own first, then the client's without their prefix
    ``kafka.``."""
    return (*_source_specs(), *_client_specs())
