"""Pages of options: of the source, of streams, of the writer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.reference.markdown import filled, items, sentence


def options() -> Iterator[str]:
    """The options of the source, and what becomes of the names that it does not read."""
    from directkafka.options.client import client_specs
    from directkafka.options.source import option_table

    yield "# Options of the source"
    yield filled(
        'For `spark.read.format("directkafka")`, `spark.readStream.format("directkafka")` and the section '
        "`[source]` of a pipeline file. The names are those of Spark's own `kafka` format; their case does not matter."
    )
    client = set(client_specs())
    yield "## The source's own"
    for spec in option_table():
        if spec not in client:
            yield _option(spec, "")
    yield "## The client's"
    yield filled(
        "Written behind `kafka.`. A pipeline reads with `kafka.isolation.level` = `read_committed` where nothing else "
        "is said; a plain read with Kafka's own default."
    )
    for spec in option_table():
        if spec in client:
            yield _option(spec, "kafka.")
    yield "## Refused, because the job would run otherwise than it did"
    yield from _client_names()


def stream_settings() -> Iterator[str]:
    """What a direct stream and an RDD read beside the client's settings."""
    from directkafka.options.consumer import consumer_specs
    from directkafka.options.limits import rate_specs
    from directkafka.options.read_policy import read_specs

    yield "# Settings of direct streams and RDDs"
    yield filled(
        "For `dk.create_rdd` and `dk.create_direct_stream`. Their `kafka_params` are [the client's](options.md), "
        "without the prefix `kafka.`, and those of the first list; the others are set in Spark's configuration, before "
        "the context is made. With an `arrow_handler`, `value.format` and its like ([options.md](options.md)) count in "
        "`kafka_params`, too: without `dead-letter`, and with UTC for timestamps that name no zone."
    )
    yield "## In `kafka_params`"
    yield from (_option(spec, "") for spec in consumer_specs())
    yield "## In Spark's configuration"
    yield from (_option(spec, "") for spec in (*rate_specs(), *read_specs()))


def sink_options() -> Iterator[str]:
    """The options of the plain writer, and what a pipeline's Kafka sink has beside them."""
    from directkafka.options.names import IGNORED_SINK_CLIENT_NAMES, REFUSED_SINK_CLIENT_NAMES
    from directkafka.options.producer import FIXED_SETTINGS, TransactionOptions, producer_specs, sink_specs
    from directkafka.options.spec import specs_of

    yield "# Options of the writer"
    yield filled(
        'For `df.write.format("directkafka").mode("append")` and `df.writeStream.format("directkafka")`. The names are '
        "those of Spark's own `kafka` sink; their case does not matter. The client's, for addresses and security, are "
        "those of [the source](options.md)."
    )
    yield "## The writer's own"
    yield from (_option(spec, "") for spec in sink_specs())
    yield "## The producer's"
    yield "Written behind `kafka.`."
    yield from (_option(spec, "kafka.") for spec in producer_specs())
    yield "## The transaction's, for the Kafka sink of a pipeline"
    yield from (_option(spec, "kafka.") for spec in specs_of(TransactionOptions).values())
    yield filled(
        "In this sink some settings of a producer may be given with one value alone, or not at all; anything else is "
        "refused. (The plain writer takes any value of the first two, with a warning.)"
    )
    yield items(
        (
            f"`kafka.{name}`, {'only ' + ' or '.join(f'`{value}`' for value in values) if values else 'not at all'}",
            f"{why}.",
        )
        for name, (values, why) in FIXED_SETTINGS.items()
    )
    yield "## Refused, because the job would write otherwise than it did"
    yield items((f"`kafka.{name}`", sentence(why)) for name, why in REFUSED_SINK_CLIENT_NAMES.items())
    yield "## Accepted with one warning"
    yield items((f"`kafka.{name}`", sentence(why)) for name, why in IGNORED_SINK_CLIENT_NAMES.items())


def _option(spec: Any, prefix: str) -> str:
    facts = [sentence(_expected(spec))]
    if spec.default:
        facts.append(f"Default: `{spec.default}`." if "(" not in spec.default else f"Default: {spec.default}.")
    if spec.scope != "streaming and batch":
        facts.append(f"Only for {spec.scope} reads.")
    if spec.aliases:
        facts.append("Also: " + ", ".join(f"`{prefix}{alias}`" for alias in spec.aliases) + ".")
    return f"### `{prefix}{spec.name}`\n\n{filled(' '.join(facts))}\n\n{filled(spec.doc)}"


def _expected(spec: Any) -> str:
    from directkafka.options.spec import INT_MAX, LONG_MAX

    if spec.kind == "integer" and spec.maximum in (INT_MAX, LONG_MAX):
        return (
            f"{spec.minimum}, or a whole number above 0"
            if spec.without_zero
            else f"a whole number, {spec.minimum} or more"
        )
    # Spark's two words are texts beside the JSON.
    words = "a word such as `earliest`, or " * (spec.kind == "json" and "one of earliest" in spec.doc)
    return f"{words}{spec.expected()}"


def _client_names() -> Iterator[str]:
    from directkafka.options.names import IGNORED_CLIENT_NAMES, REFUSED_SOURCE_CLIENT_NAMES

    refused = REFUSED_SOURCE_CLIENT_NAMES
    yield items((f"`kafka.{name}`", f"{reason}.") for name, reason in refused.items())
    yield "## Accepted with one warning, because they mean nothing here"
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in IGNORED_CLIENT_NAMES.items():
        if name not in refused:
            names_by_reason.setdefault(reason, []).append(f"`{name}`")
    yield items((f"**{reason}**", ", ".join(names)) for reason, names in names_by_reason.items())
    yield "Any other name is an error that names the nearest one that is known."
