"""The schemas that records are read with, where a registry has them: looked up once, when a run begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from directkafka.errors import OptionError
from directkafka.options.payloads import Payload, Payloads
from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.avro_texts import schema_text
from directkafka.options.schemas.avro_types import spark_type
from directkafka.options.source import AssignedPartitions, Strategy, TopicNames


def with_reader_schemas(payloads: Payloads, topics: Iterable[str]) -> Payloads:
    """The same, with the schemas of those that name a subject of a registry.

    Args:
        payloads: what values and keys are.
        topics: that are read, where they are known; a subject that is not named is that of the only one.

    Raises:
        OptionError: several topics are read, and no subject is named; or no column is for the schema.
        RegistryError: the registry does not answer, refuses, or does not have it.
    """
    found = set(topics)
    return tuple(
        payload if payload.registry is None or payload.avro_schema else _looked_up(payload, found)
        for payload in payloads
    )


def topics_of(strategy: Strategy) -> Iterable[str]:
    """The topics that are read, where they are known.

    Args:
        strategy: which partitions are read.
    """
    if isinstance(strategy, TopicNames):
        return strategy.topics
    return (partition.topic for partition in strategy.partitions) if isinstance(strategy, AssignedPartitions) else ()


def _looked_up(payload: Payload, topics: set[str]) -> Payload:
    # Not above: who reads no registry loads no client.
    from directkafka.payloads.registry.avro import avro_of
    from directkafka.payloads.registry.client import client_of

    assert payload.registry is not None
    subject = payload.subject
    if subject is None:
        if len(topics) != 1:
            reason = f"must be given, since not one topic is read: the subject of one is its name and -{payload.column}"
            raise OptionError(option=f"{payload.column}.registry.subject", reason=reason)
        subject = f"{next(iter(topics))}-{payload.column}"
    registered = client_of(payload.registry).version(subject, payload.version)
    try:
        # As the tasks read it: one text may have more types in one another than its parts.
        schema = parse_schema(schema_text(avro_of(registered)))
        return replace(payload, schema=spark_type(schema), avro_schema=schema_text(schema))
    except ValueError as error:
        reason = f"version {payload.version} of the subject {subject}: {error}"
        raise OptionError(option=f"{payload.column}.registry.subject", reason=reason) from None
