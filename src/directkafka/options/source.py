"""The options of the Kafka source: the names of Spark's own ``kafka`` format, parsed once, at the
edge."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from directkafka.errors import OptionError
from directkafka.offsets import Committed, Positions, TopicPartition
from directkafka.options.client import CLIENT_PREFIX, ClientOptions, check_names, client_specs
from directkafka.options.config_providers import with_provided
from directkafka.options.limits import LIMITS_BY_TOPIC, NO_LIMITS, MinOffsets, OffsetLimits, read_limits_by_topic
from directkafka.options.names import REFUSED_SOURCE_CLIENT_NAMES
from directkafka.options.payloads import Payloads, payload_specs, read_payloads
from directkafka.options.positions import POSITION_SPECS, read_positions
from directkafka.options.read_policy import COLUMNS, HEADERS, INCLUDE_HEADERS, RECORD_COLUMNS, read_columns
from directkafka.options.spec import INT_MAX, Mistakes, OptionSpec, RawOptions, option, read_json, shown, specs_of
from directkafka.options.texts import fault_of_pattern, fault_of_topic
from directkafka.told_once import warn_once

logger = logging.getLogger("directkafka.options")


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
MAX_OFFSETS: Final = OptionSpec(
    name="maxOffsetsPerTrigger",
    kind="integer",
    minimum=1,
    doc="Most offsets of a batch, shared among partitions by their backlog.",
    scope="streaming",
)
GROUP_ID: Final = OptionSpec(
    name="kafka.group.id",
    kind="text",
    doc="The group whose committed offsets startingOffsets=committed starts from. Else accepted with a warning: "
    "records are read without a consumer group.",
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


@dataclass(frozen=True, slots=True)
class ChosenPartitions:
    """What a function chooses, each time anew, among the cluster's topics and their numbers of partitions."""

    choose: Callable[[Mapping[str, int]], Iterable[TopicPartition]]


Strategy = TopicNames | TopicPattern | AssignedPartitions | ChosenPartitions


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
        limits: most offsets of a batch.
        columns: names of the columns that are read, in order.
        payloads: what values and keys are, if they are more than bytes.

    The other fields are named, bounded and explained by their :class:`OptionSpec`.
    """

    strategy: Strategy
    starting: Positions
    ending: Positions | None
    client: ClientOptions
    group_id: str | None = None
    limits: OffsetLimits = NO_LIMITS
    columns: tuple[str, ...] = RECORD_COLUMNS
    payloads: Payloads = ()
    min_offsets_per_trigger: int | None = option(
        None,
        name="minOffsetsPerTrigger",
        kind="integer",
        minimum=1,
        doc="Wait with a batch until so many offsets are there, or maxTriggerDelay has passed since the last one. The "
        "first batch of a run does not wait, nor does one that has an end to reach (available now).",
        scope="streaming",
    )
    max_trigger_delay_ms: int = option(
        15 * 60_000,
        name="maxTriggerDelay",
        kind="duration",
        doc="Longest wait for minOffsetsPerTrigger; a number alone is milliseconds.",
        scope="streaming",
    )
    min_record_age_ms: int = option(
        0,
        name="minRecordAge",
        kind="duration",
        doc="Read a record only once it is so old, by its timestamp: a batch ends before the first record of a "
        "partition that is younger. 0: at once. A number alone is milliseconds.",
        scope="streaming",
    )
    commit_to_group: str | None = option(
        None,
        name="commitToGroup",
        kind="text",
        doc="A consumer group to which the offsets of finished batches are committed, so that tools that know Kafka's "
        "groups see how far the query is. Never read back; a refusal is a warning.",
        scope="streaming",
    )
    metadata_ttl_ms: int = option(
        -1,
        name="partition.metadata.cache.ttl.ms",
        minimum=-1,
        without_zero=True,
        doc="How long the list of topics and partitions is used again, in milliseconds; new partitions are not seen "
        "before. -1: asked for anew for each batch.",
        scope="streaming",
    )
    fail_on_data_loss: bool = option(
        True,
        name="failOnDataLoss",
        doc="Whether to stop when records that should be read are gone from Kafka; else they are "
        "passed over with a warning.",
    )
    min_partitions: int | None = option(
        None,
        name="minPartitions",
        kind="integer",
        minimum=1,
        maximum=INT_MAX,
        doc="About how many tasks a batch has at least: large ranges are split. One task for each "
        "Kafka partition when not given; in a pipeline small ranges share tasks then.",
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
        minimum=1,
        doc="How long a task waits without progress before it fails.",
    )
    fetch_offset_num_retries: int = option(
        3,
        name="fetchOffset.numRetries",
        minimum=1,
        maximum=INT_MAX,
        doc="How often the driver tries to ask for offsets and partitions. While the cluster answers and only a "
        "partition's leader does not, its election is waited for: up to a minute, or 18 seconds for a leader that does "
        "not answer at all.",
    )
    fetch_offset_retry_interval_ms: int = option(
        1_000,
        name="fetchOffset.retryIntervalMs",
        doc="Wait between two tries of the driver.",
    )

    def columns_given(self) -> dict[str, str]:
        """The option that names the columns of decoded payloads; others are what the rest of the options says."""
        return {COLUMNS.name: ", ".join(self.columns)} if self.payloads else {}

    @property
    def include_headers(self) -> bool:
        """Whether there is a column ``headers``."""
        return HEADERS in self.columns

    @property
    def min_offsets(self) -> MinOffsets:
        """How many offsets a batch waits for."""
        return MinOffsets(self.min_offsets_per_trigger or 0, self.max_trigger_delay_ms)

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
                none or several of the three strategies, or positions that contradict each other;
                all mistakes at once.
        """
        fallback = RawOptions.read(defaults or {}, where=where).texts
        texts = {**fallback, **RawOptions.read(options, where=where).texts}
        given, mistakes = RawOptions(texts=texts, where=where), Mistakes()
        with mistakes.kept():
            given = with_provided(given, GROUP_ID.name, prefix=CLIENT_PREFIX)
        check_names(given, source_specs(), client_specs(), mistakes, what="source")
        with mistakes.kept():
            starting, ending = read_positions(given, streaming=streaming)
        with mistakes.kept():
            limits = _read_limits(given)
            values = given.values(specs_of(cls))
            _check_streaming_values(given, limits, values)
        with mistakes.kept():
            strategy = read_strategy(given)
        with mistakes.kept():
            payloads = read_payloads(given)
            columns = read_columns(given, payloads)
        with mistakes.kept():
            client = _read_client(given)
        with mistakes.kept():
            group_id = given.text(GROUP_ID) or None
        mistakes.raise_if_any()
        committed = any(isinstance(position, Committed) for position in (starting.default, *starting.topics.values()))
        _warn(given, streaming=streaming, needs_group=committed)
        return cls(
            strategy=strategy,
            limits=limits if streaming else NO_LIMITS,
            columns=columns,
            payloads=payloads,
            starting=starting,
            ending=ending,
            client=client,
            group_id=group_id,
            **values,
        )


def source_specs() -> tuple[OptionSpec, ...]:
    """Every option of the source but the client's, in the order of the reference page."""
    groups = (GROUP_ID, GROUP_ID_PREFIX)
    limits, columns = (MAX_OFFSETS, LIMITS_BY_TOPIC), (INCLUDE_HEADERS, COLUMNS)
    return (
        *STRATEGY_SPECS,
        *POSITION_SPECS,
        *limits,
        *specs_of(SourceOptions).values(),
        *columns,
        *payload_specs(),
        *groups,
    )


def option_table() -> tuple[OptionSpec, ...]:
    """Every option that the source knows: its own first, then the client's without their prefix ``kafka.``."""
    return (*source_specs(), *client_specs())


def _read_limits(given: RawOptions) -> OffsetLimits:
    topics, partitions = read_limits_by_topic(given)
    total = given.value(MAX_OFFSETS) if given.has(MAX_OFFSETS) else None
    return OffsetLimits(total=total, topics=topics, partitions=partitions)


def _check_streaming_values(given: RawOptions, limits: OffsetLimits, values: Mapping[str, Any]) -> None:
    least, specs = values.get("min_offsets_per_trigger"), specs_of(SourceOptions)
    if least is not None and limits.total is not None and least > limits.total:
        reason = f"{least} is more than {MAX_OFFSETS.name}, {limits.total}: no batch could have so many"
        raise given.error(specs["min_offsets_per_trigger"].name, reason)
    if values.get("commit_to_group") == "":
        raise given.error(specs["commit_to_group"].name, "is empty; give the name of a consumer group or leave it out")


def _read_client(given: RawOptions) -> ClientOptions:
    params = {
        name.removeprefix(CLIENT_PREFIX): text
        for name, text in given.texts.items()
        if name.startswith(CLIENT_PREFIX) and name != GROUP_ID.name
    }
    for name, reason in REFUSED_SOURCE_CLIENT_NAMES.items():
        if name in params:
            raise given.error(CLIENT_PREFIX + name, reason)
    return ClientOptions.from_kafka_params(params, where=given.where, prefix=CLIENT_PREFIX)


def _warn(given: RawOptions, *, streaming: bool, needs_group: bool) -> None:
    unused = (GROUP_ID_PREFIX,) if needs_group else (GROUP_ID, GROUP_ID_PREFIX)
    groups = [spec.name for spec in unused if given.has(spec)]
    if groups:
        names = ", ".join(groups)
        warn_once(logger, "%s: no effect, records are read without a consumer group", names)
    streaming_only = [spec.name for spec in source_specs() if spec.scope == "streaming" and given.has(spec)]
    if streaming_only and not streaming:
        warn_once(logger, "%s: no effect on a batch read", ", ".join(streaming_only))


def read_strategy(given: RawOptions) -> Strategy:
    """Which partitions are read.

    Raises:
        OptionError: not one option says so, or it names none.
    """
    named = [spec for spec in STRATEGY_SPECS if given.has(spec)]
    if len(named) != 1:
        names = ", ".join(spec.name for spec in STRATEGY_SPECS)
        given_names = " and ".join(spec.name for spec in named) or "none"
        raise OptionError(
            option=named[-1].name if named else SUBSCRIBE.name,
            reason=f"exactly one of {names} must be given, found {given_names}",
            where=given.where,
        )
    spec = named[0]
    if spec is SUBSCRIBE:
        return _read_topic_names(given)
    return _read_pattern(given) if spec is SUBSCRIBE_PATTERN else _read_assigned(given)


def _read_topic_names(given: RawOptions) -> TopicNames:
    topics = tuple(dict.fromkeys(given.value(SUBSCRIBE)))
    if not topics:
        raise given.error(SUBSCRIBE.name, "names no topic to subscribe to")
    for topic in topics:
        if fault := fault_of_topic(topic):
            raise given.error(SUBSCRIBE.name, fault)
    return TopicNames(topics)


def _read_pattern(given: RawOptions) -> TopicPattern:
    pattern = given.text(SUBSCRIBE_PATTERN)
    if not pattern:
        raise given.error(SUBSCRIBE_PATTERN.name, "is empty; give a regular expression for topic names")
    if fault := fault_of_pattern(pattern):
        raise given.error(SUBSCRIBE_PATTERN.name, f"{shown(pattern)} {fault}")
    return TopicPattern(pattern)


def _read_assigned(given: RawOptions) -> AssignedPartitions:
    form = 'JSON of partition numbers by topic: {"flights": [0, 1]}'
    partitions: set[TopicPartition] = set()
    for topic, numbers in read_json(given, ASSIGN, form).items():
        if fault := fault_of_topic(topic):
            raise given.error(ASSIGN.name, fault)
        if not isinstance(numbers, list) or not all(
            type(number) is int and 0 <= number <= INT_MAX for number in numbers
        ):
            raise given.error(ASSIGN.name, f"expected {form}; {topic!r} has {shown(numbers)}")
        partitions.update(TopicPartition(topic, number) for number in numbers)
    if not partitions:
        raise given.error(ASSIGN.name, "names no partition to assign")
    return AssignedPartitions(tuple(sorted(partitions)))
