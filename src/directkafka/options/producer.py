"""Settings of producers, plain and transactional, from Kafka's dotted names; names of the topics of ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from directkafka.options.client import CLIENT_PREFIX, ClientOptions, check_names, client_specs
from directkafka.options.config_providers import with_provided_values
from directkafka.options.names import IGNORED_CLIENT_NAMES, IGNORED_SINK_CLIENT_NAMES, REFUSED_SINK_CLIENT_NAMES
from directkafka.options.spec import INT_MAX, Mistakes, OptionSpec, RawOptions, option, specs_of
from directkafka.options.written_payloads import WrittenPayloads, read_written, written_specs

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """How records are written. Travels to executors. Every write is idempotent and waits for all in-sync replicas.

    Each field is named, bounded and explained by its :class:`~directkafka.options.spec.OptionSpec`.
    """

    compression: Codec = option(
        "none",
        name="compression.type",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        doc="How record batches are compressed.",
    )
    gzip_level: int = option(
        -1,
        name="compression.gzip.level",
        minimum=-1,
        maximum=9,
        doc="1 is fast, 9 is small, -1 is gzip's own default.",
    )
    lz4_level: int = option(
        9,
        name="compression.lz4.level",
        minimum=1,
        maximum=17,
        doc="9 is lz4's fast way, as in the Java client; any other number is its high compression of that level.",
    )
    zstd_level: int = option(
        3,
        name="compression.zstd.level",
        minimum=-131_072,
        maximum=22,
        doc="Negative is fastest, 22 is smallest.",
    )
    # Kafka's own default of 16 KiB is for records that come one by one; here they come by the thousand.
    batch_size_bytes: int = option(
        262_144,
        name="batch.size",
        minimum=0,
        maximum=INT_MAX,
        doc="Most bytes of a record batch before compression; a single larger record goes alone.",
    )
    request_bytes_max: int = option(
        1_048_576,
        name="max.request.size",
        minimum=0,
        maximum=INT_MAX,
        doc="Most bytes of one request, and of a record before compression; a larger record is an error.",
    )
    buffer_bytes_max: int = option(
        33_554_432,
        name="buffer.memory",
        minimum=1,
        doc="Bytes of encoded records that may wait for their acknowledgement; a task that has more waits.",
    )
    in_flight_max: int = option(
        5,
        name="max.in.flight.requests.per.connection",
        minimum=1,
        maximum=5,
        doc="Requests that may wait for their answer at a broker; it knows five batches of a producer again.",
    )
    delivery_timeout_ms: int = option(
        120_000,
        name="delivery.timeout.ms",
        maximum=INT_MAX,
        doc="How long a batch may take until it is acknowledged, all tries included.",
    )
    topic_timeout_ms: int = option(
        60_000,
        name="max.block.ms",
        doc="How long a topic that is written to may be missing.",
    )


TOPIC: Final = OptionSpec(
    name="topic",
    kind="text",
    doc="The topic that all rows go to, whatever a column topic says. Without it, there must be that column.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What a write is asked for. Travels to executors.

    Attributes:
        topic: where all rows go; None where their column says it.
        client: the connection.
        producer: how records are written.
        payloads: what becomes of values and keys that are no bytes.

    The other fields are named, bounded and explained by their :class:`~directkafka.options.spec.OptionSpec`.
    """

    topic: str | None
    client: ClientOptions
    producer: ProducerOptions
    payloads: WrittenPayloads = ()
    include_headers: bool = option(
        True,
        name="includeHeaders",
        doc="Whether a column headers is written, where there is one.",
    )
    # Off as in Spark's sink, where a copied topic gets new timestamps.
    include_timestamp: bool = option(
        False,
        name="includeTimestamp",
        doc="Whether a column timestamp becomes the records' timestamp; else it is the time of writing.",
    )

    @classmethod
    def parse(cls, options: Mapping[str, str], *, where: str = "") -> SinkOptions:
        """Parse the options of a write.

        Args:
            options: texts by name; the names' case does not matter.
            where: the file or call the options stand in, for messages.

        Raises:
            OptionError: a name that nobody knows or that is not supported, or a value out of bounds.
        """
        given = RawOptions.read(options, where=where)
        mistakes = Mistakes()
        check_names(given, sink_specs(), (*producer_specs(), *client_specs()), mistakes, what="sink")
        mistakes.raise_if_any()
        client, producer = read_connection(given)
        return cls(
            topic=given.text(TOPIC) or None,
            client=client,
            producer=producer,
            payloads=read_written(given),
            **given.values(specs_of(cls)),
        )


def read_connection(given: RawOptions) -> tuple[ClientOptions, ProducerOptions]:
    """The connection, and how records are written, from the options whose names begin with ``kafka.``.

    Raises:
        OptionError: as :meth:`SinkOptions.parse` does.
    """
    params = {
        name.removeprefix(CLIENT_PREFIX): text for name, text in given.texts.items() if name.startswith(CLIENT_PREFIX)
    }
    for name, reason in REFUSED_SINK_CLIENT_NAMES.items():
        if name in params:
            raise given.error(CLIENT_PREFIX + name, reason)
    client = ClientOptions.from_kafka_params(
        params,
        where=given.where,
        prefix=CLIENT_PREFIX,
        used_elsewhere=[spec.name for spec in producer_specs()],
        ignored={**IGNORED_CLIENT_NAMES, **IGNORED_SINK_CLIENT_NAMES},
    )
    named = with_provided_values(RawOptions(texts=params, where=given.where, prefix=CLIENT_PREFIX))
    return client, ProducerOptions(**named.values(specs_of(ProducerOptions)))


def sink_specs() -> tuple[OptionSpec, ...]:
    """Every option of the writer but the producer's and the client's, in the order of the reference page."""
    return (TOPIC, *specs_of(SinkOptions).values(), *written_specs())


def producer_specs() -> tuple[OptionSpec, ...]:
    """Every producer setting that has an effect, in the order of the reference page."""
    return tuple(specs_of(ProducerOptions).values())


#: What a Java producer may set, and what it must be here.
FIXED_SETTINGS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "acks": (("all", "-1"), "rows count as written when all in-sync replicas have them: leave it out, or write all"),
    "enable.idempotence": (("true",), "a transaction needs it: leave it out, or write true"),
    "transactional.id": ((), "it is made of the pipeline's name, and so fences its older driver; see name_prefix"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """How a pipeline writes to Kafka.

    Attributes:
        client: addresses, security, timeouts.
        producer: sizes and compression.
    """

    client: ClientOptions
    producer: ProducerOptions
    # Kafka's own default of a minute is for a few records; here a transaction holds a batch.
    timeout_ms: int = option(
        300_000,
        name="transaction.timeout.ms",
        minimum=1_000,
        maximum=INT_MAX,
        doc="How long the rows of a batch may take to be written, after which the broker gives the transaction up. At "
        "most the broker's transaction.max.timeout.ms. Readers wait so long behind a driver that died and is not "
        "started again.",
    )

    @classmethod
    def from_kafka_params(
        cls, params: Mapping[str, object], *, where: str = "", prefix: str = ""
    ) -> TransactionOptions:
        """Parse Kafka's dotted names.

        Args:
            params: values by name, as texts, numbers or booleans; the names' case does not matter.
            where: the file or call they stand in, for messages.
            prefix: what the user writes before each name, for messages.

        Raises:
            OptionError: a name that nobody knows, or a value that is out of bounds or can only be another one.
        """
        given = with_provided_values(RawOptions.read(params, where=where, prefix=prefix))
        for name, (allowed, reason) in FIXED_SETTINGS.items():
            if name in given.texts and given.texts[name].strip().lower() not in allowed:
                raise given.error(name, reason)
        for name, reason in REFUSED_SINK_CLIENT_NAMES.items():
            if name in given.texts and name not in FIXED_SETTINGS:
                raise given.error(name, reason)
        producer_specs, own_specs = specs_of(ProducerOptions), specs_of(cls)
        names = [spec.name for spec in (*producer_specs.values(), *own_specs.values())]
        return cls(
            client=ClientOptions.from_kafka_params(
                params,
                where=where,
                prefix=prefix,
                used_elsewhere=[*names, *FIXED_SETTINGS],
                ignored={**IGNORED_CLIENT_NAMES, **IGNORED_SINK_CLIENT_NAMES},
            ),
            producer=ProducerOptions(**given.values(producer_specs)),
            **given.values(own_specs),
        )


#: What the names of ledgers and of transactional ids begin with, where a sink's option does not say otherwise.
NAME_PREFIX: Final = "directkafka"


def ledger_topic(pipeline: str, name_prefix: str = NAME_PREFIX) -> str:
    """The topic of a pipeline's ledger."""
    return f"{name_prefix}.ledger.{pipeline}"


def is_ledger_topic(topic: str, name_prefix: str = NAME_PREFIX) -> bool:
    """Whether a topic is some pipeline's ledger, by its name."""
    return topic.startswith(ledger_topic("", name_prefix))
