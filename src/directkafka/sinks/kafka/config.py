"""The configuration of a Kafka sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field

from directkafka.options.producer import NAME_PREFIX
from directkafka.options.written_payloads import is_written_option
from directkafka.sinks.config import SinkConfig, sink_config

_Name = Annotated[str, Field(min_length=1)]

#: What the names of Kafka's own settings begin with in a section.
_CLIENT = "kafka."


@sink_config
class KafkaConfig(SinkConfig):
    """Topics of a cluster, and how records get there."""

    SECTION_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({"kafka_params": "kafka"})

    kafka_params: Annotated[
        Mapping[str, object],
        Field(
            repr=False,
            description="Kafka's own client settings, those of producers included, by their names: bootstrap.servers, "
            "compression.type, transaction.timeout.ms... In a file each stands beside the other names, in quotes: "
            '"kafka.bootstrap.servers" = "...".',
        ),
    ]
    topic: Annotated[
        _Name | None,
        Field(
            description="Where all rows go; without it each row's column topic says, or that of topic_from. Topics "
            "must exist."
        ),
    ] = None
    _: KW_ONLY
    payloads: Annotated[
        Mapping[str, object] | None,
        Field(
            repr=False,
            description="What becomes of structs in the columns value and key, by the names of the options: "
            "value.format (json, avro or protobuf), value.schema, value.registry.url... In a file each stands beside "
            'the other names, in quotes: "value.format" = "avro".',
        ),
    ] = None
    topic_from: Annotated[
        _Name | None, Field(description="A column that names each row's topic, in place of the column topic.")
    ] = None
    topics: Annotated[
        Sequence[str] | None,
        Field(description="The topics that rows may name; a row that names another one is refused with its batch."),
    ] = None
    inline_bytes_max: Annotated[
        int,
        Field(
            description="Up to about this many bytes of Arrow data of a batch are written by the driver, in one Spark "
            "job; the tasks share it. A larger batch is written by the executors, in a second job.",
        ),
    ] = 64 * 1024 * 1024
    tasks_max: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Field(description="How many tasks write a larger batch; as many as Spark can run at a time by default."),
    ] = None
    offsets_group: Annotated[
        _Name | None,
        Field(
            description="A consumer group to which the source's offsets are committed inside the transaction, so that "
            "lag tools see exactly what is committed. The source must be of the same cluster."
        ),
    ] = None
    name_prefix: Annotated[
        str,
        Field(min_length=1, description="What the names of the ledger's topic and of the transactional id begin with."),
    ] = NAME_PREFIX
    ledger_replicas: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Field(
            description="Replicas of the ledger's topic when it is made; as many as the cluster's own log of "
            "transactions has by default."
        ),
    ] = None
    accept_empty_ledger: Annotated[
        _Name | None,
        Field(
            description="Id of the ledger's topic, where it is empty although the pipeline has run before, and the "
            "pipeline is to begin anew; the error that refuses it names the id."
        ),
    ] = None

    @classmethod
    def arguments(cls, section: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that stand under names of their own, gathered.

        Raises:
            ValueError: they are written in two ways.
        """
        settings = {name.removeprefix(_CLIENT): value for name, value in section.items() if name.startswith(_CLIENT)}
        payloads = {name: value for name, value in section.items() if is_written_option(name)}
        rest = {name: value for name, value in section.items() if not (name.startswith(_CLIENT) or name in payloads)}
        if settings and "kafka" in rest:
            raise ValueError('settings are written as "kafka.NAME" = ..., in quotes, or as a table, and not as both')
        if payloads and "payloads" in rest:
            raise ValueError('payloads are written as "value.format" = ..., in quotes, or as a table, and not as both')
        gathered = ({"kafka": settings} if settings else {}) | ({"payloads": payloads} if payloads else {})
        return super().arguments(rest | gathered)
