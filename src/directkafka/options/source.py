"""The options of the Kafka source: the names of Spark's own ``kafka`` format, parsed once, at the
edge."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from directkafka.errors import OptionError
from directkafka.offsets import Positions, TopicPartition
from directkafka.options.client import ClientOptions, client_specs
from directkafka.options.names import LATER_SOURCE_NAMES, REFUSED_SOURCE_CLIENT_NAMES, hint
from directkafka.options.positions import POSITION_SPECS, read_json, read_positions
from directkafka.options.spec import INT_MAX, Given, OptionSpec, option, specs_of

__all__ = [
    "AssignedPartitions",
    "SourceOptions",
    "Strategy",
    "TopicNames",
    "TopicPattern",
    "source_specs",
]

logger = logging.getLogger("directkafka.options")

CLIENT_PREFIX: Final = "kafka."

SUBSCRIBE: Final = OptionSpec(
    name="subscribe",
    kind="list",
    doc="Topics to read, separated by commas. All of them must exist.",
)
SUBSCRIBE_PATTERN: Final = OptionSpec(
    name="subscribePattern",
    kind="text",
    doc="A Python regular expression; topics in whose name it is found anywhere are read, also "
    "those that come later. Anchor it with ^ and $ for whole names. Internal topics are not read.",
)
ASSIGN: Final = OptionSpec(
    name="assign",
    kind="json",
    doc='Partitions to read: {"flights": [0, 1]}. Partitions that do not exist are passed over.',
)
GROUP_ID: Final = OptionSpec(
    name="kafka.group.id",
    kind="text",
    doc="Accepted with a warning: records are read without a consumer group.",
)
GROUP_ID_PREFIX: Final = OptionSpec(
    name="groupIdPrefix",
    kind="text",
    doc="Accepted with a warning: records are read without a consumer group.",
)
STRATEGY_SPECS: Final = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)


@dataclass(frozen=True, slots=True)
class TopicNames:
    """All partitions of these topics, and those they get later."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """All partitions of the topics in whose name this regular expression is found."""

    pattern: str


@dataclass(frozen=True, slots=True)
class AssignedPartitions:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]


Strategy = TopicNames | TopicPattern | AssignedPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a read is asked for. Stays on the driver; only :attr:`client` travels.

    Attributes:
        strategy: which partitions are read.
        starting: where a new query starts; a ledger or a checkpoint counts before it.
        ending: where a batch ends; None for a stream.
        client: the connection.
        group_id: ``kafka.group.id`` if the user gave one; nothing is read with it, but Spark names
            it when partitions are deleted.

    The other fields are named, bounded and explained by their :class:`OptionSpec`.
    """

    strategy: Strategy
    starting: Positions
    ending: Positions | None
    client: ClientOptions
    group_id: str | None = None
    max_offsets_per_trigger: int | None = option(
        None,
        name="maxOffsetsPerTrigger",
        kind="integer",
        minimum=1,
        doc="Most offsets of a batch, shared among partitions by their backlog.",
        scope="streaming",
    )
    fail_on_data_loss: bool = option(
        True,
        name="failOnDataLoss",
        kind="boolean",
        doc="Whether to stop when records that should be read are gone from Kafka; else they are "
        "passed over with a warning.",
    )
    include_headers: bool = option(
        False,
        name="includeHeaders",
        kind="boolean",
        doc="Whether there is a column headers.",
    )
    min_partitions: int | None = option(
        None,
        name="minPartitions",
        kind="integer",
        minimum=1,
        maximum=INT_MAX,
        doc="About how many tasks a batch has at least: large ranges are split. One task for each "
        "Kafka partition when not given.",
    )
    max_records_per_partition: int | None = option(
        None,
        name="maxRecordsPerPartition",
        kind="integer",
        minimum=1,
        doc="Most offsets of one task: larger ranges are split.",
    )
    poll_timeout_ms: int = option(
        120_000,
        name="kafkaConsumer.pollTimeoutMs",
        kind="integer",
        minimum=1,
        doc="How long a task waits without progress before it fails.",
    )
    fetch_offset_num_retries: int = option(
        3,
        name="fetchOffset.numRetries",
        kind="integer",
        minimum=1,
        maximum=INT_MAX,
        doc="How often the driver tries to ask for offsets and partitions.",
    )
    fetch_offset_retry_interval_ms: int = option(
        1_000,
        name="fetchOffset.retryIntervalMs",
        kind="integer",
        doc="Wait between two tries of the driver.",
    )

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str],
        *,
        streaming: bool,
        defaults: Mapping[str, str] | None = None,
        where: str = "",
    ) -> SourceOptions:
        """Parse the options of a read.

        Args:
            options: texts by name; the names' case does not matter.
            streaming: whether they are a stream's; else a batch read's.
            defaults: texts that count where the options give none.
            where: the file or call the options stand in, for messages.

        Raises:
            OptionError: a name that nobody knows or that is not supported, a value out of bounds,
                none or several of the three strategies, or positions that contradict each other.
        """
        fallback = Given.read(defaults or {}, where=where).texts
        texts = {**fallback, **Given.read(options, where=where).texts}
        given = Given(texts=texts, where=where)
        _check_names(given)
        starting, ending = read_positions(given, streaming=streaming)
        values = given.values(specs_of(cls))
        _warn(given, streaming=streaming)
        if not streaming:
            values.pop("max_offsets_per_trigger", None)
        return cls(
            strategy=_read_strategy(given),
            starting=starting,
            ending=ending,
            client=_read_client(given),
            group_id=given.text(GROUP_ID) or None,
            **values,
        )


def source_specs() -> tuple[OptionSpec, ...]:
    """Every option of the source but the client's, in the order of the reference page."""
    groups = (GROUP_ID, GROUP_ID_PREFIX)
    return (*STRATEGY_SPECS, *POSITION_SPECS, *specs_of(SourceOptions).values(), *groups)


def _read_client(given: Given) -> ClientOptions:
    params = {
        name.removeprefix(CLIENT_PREFIX): text
        for name, text in given.texts.items()
        if name.startswith(CLIENT_PREFIX) and name != GROUP_ID.name
    }
    for name, reason in REFUSED_SOURCE_CLIENT_NAMES.items():
        if name in params:
            raise given.error(CLIENT_PREFIX + name, reason)
    return ClientOptions.from_kafka_params(params, where=given.where, prefix=CLIENT_PREFIX)


def _check_names(given: Given) -> None:
    later = {name.lower(): name for name in LATER_SOURCE_NAMES}
    known = [spec.name for spec in source_specs()]
    lower_known = {name.lower() for name in known}
    for name in sorted(given.texts):
        if name in later:
            reason = f"is not supported yet; {LATER_SOURCE_NAMES[later[name]]}"
            raise given.error(later[name], reason)
        if name not in lower_known and not name.startswith(CLIENT_PREFIX):
            client = [CLIENT_PREFIX + spec.name for spec in client_specs()]
            reason = "is not an option of this source" + hint(name, [*known, *client])
            raise given.error(name, reason)


def _warn(given: Given, *, streaming: bool) -> None:
    groups = [spec.name for spec in (GROUP_ID, GROUP_ID_PREFIX) if given.has(spec)]
    if groups:
        names = ", ".join(groups)
        logger.warning("%s: no effect, records are read without a consumer group", names)
    if not streaming and given.has(specs_of(SourceOptions)["max_offsets_per_trigger"]):
        logger.warning("maxOffsetsPerTrigger: no effect on a batch read")


def _read_strategy(given: Given) -> Strategy:
    named = [spec for spec in STRATEGY_SPECS if given.has(spec)]
    if len(named) != 1:
        names = ", ".join(spec.name for spec in STRATEGY_SPECS)
        found = " and ".join(spec.name for spec in named) or "none"
        raise OptionError(
            option=named[-1].name if named else SUBSCRIBE.name,
            reason=f"exactly one of {names} must be given, found {found}",
            where=given.where,
        )
    spec = named[0]
    if spec is SUBSCRIBE:
        return _read_topic_names(given)
    return _read_pattern(given) if spec is SUBSCRIBE_PATTERN else _read_assigned(given)


def _read_topic_names(given: Given) -> TopicNames:
    topics = tuple(dict.fromkeys(given.value(SUBSCRIBE)))
    if not topics:
        raise given.error(SUBSCRIBE.name, "names no topic to subscribe to")
    return TopicNames(topics)


def _read_pattern(given: Given) -> TopicPattern:
    pattern = given.text(SUBSCRIBE_PATTERN)
    if not pattern:
        raise given.error(SUBSCRIBE_PATTERN.name, "is empty; give a regular expression for topic names")
    try:
        re.compile(pattern)
    except re.error as error:
        reason = f"{pattern!r} is not a Python regular expression: {error}"
        raise given.error(SUBSCRIBE_PATTERN.name, reason) from error
    return TopicPattern(pattern)


def _read_assigned(given: Given) -> AssignedPartitions:
    form = 'JSON of partition numbers by topic: {"flights": [0, 1]}'
    partitions: set[TopicPartition] = set()
    for topic, numbers in read_json(given, ASSIGN, form).items():
        if not isinstance(numbers, list) or not all(type(one) is int and one >= 0 for one in numbers):
            raise given.error(ASSIGN.name, f"expected {form}; {topic!r} has {numbers!r}")
        partitions.update(TopicPartition(topic, one) for one in numbers)
    if not partitions:
        raise given.error(ASSIGN.name, "names no partition to assign")
    return AssignedPartitions(tuple(sorted(partitions)))
