"""How tasks of RDDs and direct streams read: the settings ``spark.streaming.kafka...`` that are not about rates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from directkafka.options.spec import Given, OptionSpec, option, specs_of
from directkafka.told_once import warn_once

__all__ = ["ReadPolicy", "read_specs"]

log = logging.getLogger("directkafka.source")

#: Settings of Spark's cache of consumers. Here there is none: a connection is lent to one task at a time.
_CACHE = "spark.streaming.kafka.consumer.cache."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPolicy:
    """What the program decides about reads; each field is named and explained by its :class:`OptionSpec`."""

    may_have_gaps: bool = option(
        True,
        name="spark.streaming.kafka.allowNonConsecutiveOffsets",
        kind="boolean",
        doc="Whether ranges may have offsets without a record, as compaction and transactions leave them. Without, "
        "count and isEmpty believe the ranges, and a read that finds a gap fails. (Spark's default is false.)",
    )
    poll_timeout_ms: int = option(
        120_000,
        name="spark.streaming.kafka.consumer.poll.ms",
        kind="integer",
        minimum=1,
        doc="Longest time in which a task that waits for records may make no progress, in milliseconds.",
    )

    @classmethod
    def from_spark_conf(cls, conf: Mapping[str, str]) -> ReadPolicy:
        """Read the settings.

        Args:
            conf: Spark's settings by name; all others are passed over.

        Raises:
            OptionError: a value that is none of its kind.
        """
        unused = sorted(name for name in conf if name.startswith(_CACHE))
        if unused:
            warn_once(
                log,
                "ignored, because they mean nothing here: %s (executors keep up to 16 idle connections for two "
                "minutes, whatever a program says, and a retried task begins with new ones)",
                ", ".join(unused),
            )
        given = Given.read({name: text for name, text in conf.items() if name.startswith("spark.streaming.kafka.")})
        return cls(**given.values(specs_of(cls)))


def read_specs() -> tuple[OptionSpec, ...]:
    """Every setting, in the order of the reference page."""
    return tuple(specs_of(ReadPolicy).values())
