"""Settings of a transactional writer, parsed from Kafka's own dotted names, and names of the topics of ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from directkafka.options.client import ClientOptions
from directkafka.options.names import IGNORED_CLIENT_NAMES, IGNORED_SINK_CLIENT_NAMES, REFUSED_SINK_CLIENT_NAMES
from directkafka.options.producer import ProducerOptions
from directkafka.options.spec import INT_MAX, Given, option, specs_of

__all__ = ["FIXED_SETTINGS", "NAME_PREFIX", "TransactionOptions", "is_ledger_topic", "ledger_topic"]

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
        kind="integer",
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
        given = Given.read(params, where=where, prefix=prefix)
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
