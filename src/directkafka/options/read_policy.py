"""Settings of reads: how tasks of RDDs and direct streams read, and which columns a read has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from directkafka.options.payloads import Payloads, kept_columns
from directkafka.options.spec import OptionSpec, RawOptions, option, specs_of
from directkafka.told_once import warn_once

log = logging.getLogger("directkafka.source")

#: Settings of Spark's cache of consumers. Here there is none: a connection is lent to one task at a time.
_CACHE = "spark.streaming.kafka.consumer.cache."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPolicy:
    """What the program decides about reads; each field is named and explained by its :class:`OptionSpec`."""

    may_have_gaps: bool = option(
        True,
        name="spark.streaming.kafka.allowNonConsecutiveOffsets",
        doc="Whether ranges may have offsets without a record, as compaction and transactions leave them. If not, "
        "count and isEmpty use offsets alone, and a read that finds a gap fails. (Spark's default is false.)",
    )
    poll_timeout_ms: int = option(
        120_000,
        name="spark.streaming.kafka.consumer.poll.ms",
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
        given = RawOptions.read(
            {name: text for name, text in conf.items() if name.startswith("spark.streaming.kafka.")}
        )
        return cls(**given.values(specs_of(cls)))


def read_specs() -> tuple[OptionSpec, ...]:
    """Every setting, in the order of the reference page."""
    return tuple(specs_of(ReadPolicy).values())


#: Spark's seven columns, in its order.
RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"

INCLUDE_HEADERS: Final = OptionSpec(
    name="includeHeaders",
    kind="boolean",
    default="false",
    doc="Whether there is a column headers.",
)
COLUMNS: Final = OptionSpec(
    name="columns",
    kind="list",
    doc="Only these columns, in this order: value,offset. What is not named is not shipped to Spark, which makes a "
    "read faster and changes its schema. When not given: all seven, headers with includeHeaders, and what payloads "
    "add.",
)


def read_columns(given: RawOptions, payloads: Payloads = ()) -> tuple[str, ...]:
    """The names of the columns, as Spark spells them.

    Args:
        given: the options.
        payloads: what they say of values and keys.

    Raises:
        OptionError: an unknown or doubled name, or headers that are asked for and left out.
    """
    with_headers = bool(given.value(INCLUDE_HEADERS))
    added = [name for payload in payloads for name in payload.added_columns]
    kept = kept_columns(tuple(payload.column for payload in payloads), payloads)
    if not given.has(COLUMNS):
        return (*RECORD_COLUMNS, *([HEADERS] if with_headers else []), *added)
    named = (*RECORD_COLUMNS, HEADERS, *added)
    known = {name.lower(): name for name in (*named, *kept)}
    wanted = tuple(given.value(COLUMNS))
    unknown = [name for name in wanted if name.lower() not in known]
    chosen = tuple(known[name.lower()] for name in wanted if name.lower() in known)
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        wanted_names = ", ".join(wanted) or "nothing"
        raise given.error(COLUMNS.name, f"expected names out of {', '.join(named)}, each once, found {wanted_names}")
    if with_headers and HEADERS not in chosen:
        raise given.error(COLUMNS.name, f"leaves out {HEADERS}, which {INCLUDE_HEADERS.name} asks for")
    return chosen
