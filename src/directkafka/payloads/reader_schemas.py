"""The schemas that records are read with, where a registry has them: looked up once, when a run begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from directkafka.errors import OptionError
from directkafka.options.payloads import Payload, Payloads
from directkafka.options.source import AssignedPartitions, Strategy, TopicNames

if TYPE_CHECKING:
    from directkafka.payloads.registry.client import RegisteredSchema, RegistryClient


def with_reader_schemas(payloads: Payloads, topics: Iterable[str]) -> Payloads:
    """The same, with the schemas of those that name a subject of a registry.

    Args:
        payloads: what values and keys are.
        topics: that are read, where they are known; a subject that is not named is that of the only one.

    Raises:
        OptionError: several topics are read, and no subject is named; or no column is for the schema.
        RegistryError: the registry does not answer, refuses, or does not have it.
    """
    topic_names = set(topics)
    return tuple(_of_version(payload, topic_names) if asks_registry(payload) else payload for payload in payloads)


def with_schemas_of(payloads: Payloads, ids: Mapping[str, int]) -> Payloads:
    """The same, with the registry's schemas of these ids.

    Args:
        payloads: what values and keys are.
        ids: by column; other columns keep their schemas.

    Raises:
        RegistryError: the registry does not answer, refuses, or does not have one.
    """
    return tuple(
        _with_id(payload, number)
        if payload.registry is not None and (number := ids.get(payload.column)) not in (None, payload.schema_id)
        else payload
        for payload in payloads
    )


def reader_schema_ids(payloads: Payloads) -> dict[str, int]:
    """The ids of the schemas that are read with, by column, where the registry was asked for them."""
    return {payload.column: payload.schema_id for payload in payloads if payload.schema_id is not None}


def asks_registry(payload: Payload) -> bool:
    """Whether a registry has the schema that records are read with, and not the options."""
    return payload.registry is not None and payload.schema is None


def subject_of(payload: Payload, topics: set[str]) -> str:
    """The subject whose schema records are read with.

    Args:
        payload: what a column is.
        topics: that are read, where they are known.

    Raises:
        OptionError: none is named, and not one topic is read.
    """
    if payload.subject is not None:
        return payload.subject
    if len(topics) != 1:
        reason = f"must be given, since not one topic is read: the subject of one is its name and -{payload.column}"
        raise OptionError(option=f"{payload.column}.registry.subject", reason=reason)
    return f"{next(iter(topics))}-{payload.column}"


def topics_of(strategy: Strategy) -> Iterable[str]:
    """The topics that are read, where they are known.

    Args:
        strategy: which partitions are read.
    """
    if isinstance(strategy, TopicNames):
        return strategy.topics
    return (partition.topic for partition in strategy.partitions) if isinstance(strategy, AssignedPartitions) else ()


def _of_version(payload: Payload, topics: set[str]) -> Payload:
    subject = subject_of(payload, topics)
    schema_description = f"version {payload.version} of the subject {subject}"
    return _read_with(payload, lambda client: client.version(subject, payload.version), schema_description)


def _with_id(payload: Payload, number: int) -> Payload:
    return _read_with(payload, lambda client: client.schema(number), f"schema {number} of the registry")


def _read_with(payload: Payload, ask: Callable[[RegistryClient], RegisteredSchema], schema_description: str) -> Payload:
    # Not above: who reads no registry loads no client.
    from directkafka.payloads.registry.client import client_of
    from directkafka.payloads.registry.formats import reader_schema_of

    assert payload.registry is not None
    registered = ask(client_of(payload.registry))
    try:
        schema, text = reader_schema_of(payload, registered)
    except (ValueError, RecursionError) as error:
        raise OptionError(
            option=f"{payload.column}.registry.subject", reason=f"{schema_description}: {error}"
        ) from None
    return replace(payload, schema=schema, reader_schema=text, schema_id=registered.id)
