"""Commands that list a store's pipelines, and show their offsets, lag and topics. None starts Spark."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from directkafka.cli.app import EXIT_FAILURE, app
from directkafka.cli.commands import FormatOption, VerboseOption
from directkafka.cli.env_file import EnvFileOption
from directkafka.cli.output import Format, print_records, say, set_up_logging
from directkafka.cli.target import BootstrapServerOption, NameOption, OptionalFileArgument, StoreOption, opened
from directkafka.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from directkafka.operations.positions import PartitionPosition
    from directkafka.options.source import SourceOptions

_WATCH_S_MIN = 0.1
_LAG_COLUMNS = ("topic", "partition", "current", "end", "lag", "lag_seconds")


def _positions(
    file: Path | None, store: str | None, pipeline: str | None, bootstrap_server: str | None
) -> tuple[str, tuple[PartitionPosition, ...], SourceOptions | None]:
    """Name, positions and source of the pipeline that the command line names; no source if no broker is known."""
    from directkafka.operations.offsets import look_at_offsets

    with opened(file, store, pipeline, bootstrap_server) as target:
        positions = look_at_offsets(target.pipeline, target.source, target.unique_stores())
        return target.pipeline, positions, target.source


@app.command(
    epilog="Examples:\n\n  directkafka offsets flights.toml\n\n  directkafka offsets flights.toml --format json\n\n"
    "  directkafka offsets --store sqlite:flights.db --pipeline flights --bootstrap-server localhost:9092"
)
def offsets(  # noqa: PLR0917 - typer gives them by name
    file: OptionalFileArgument = None,
    store: StoreOption = None,
    pipeline: NameOption = None,
    bootstrap_server: BootstrapServerOption = None,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Show where a pipeline is in each partition: earliest, current and end offset, and the lag; changes nothing."""
    set_up_logging(verbose=verbose)
    name, positions, _ = _positions(file, store, pipeline, bootstrap_server)
    print_records([position.as_record() for position in positions], form, title=f"Offsets of {name}", has_capitals=True)


@app.command(
    epilog="Examples:\n\n  directkafka lag flights.toml\n\n  directkafka lag flights.toml --max 100000 --max-seconds 60"
    "\n\n  directkafka lag flights.toml --watch 5s --format json"
)
def lag(  # noqa: PLR0917 - typer gives them by name
    file: OptionalFileArgument = None,
    store: StoreOption = None,
    pipeline: NameOption = None,
    bootstrap_server: BootstrapServerOption = None,
    max_offsets: Annotated[
        int | None, typer.Option("--max", min=0, help="Exit 1 if a partition has more unread offsets.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=0, help="Exit 1 if a partition's first unread record is older.")
    ] = None,
    watch: Annotated[
        str | None,
        typer.Option("--watch", help="Look again after each pause of this length (5s), until a limit is passed."),
    ] = None,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Show how far a pipeline is behind, the partition that is furthest first.

    With a limit, exit 1 if it is passed, or if Kafka does not have a topic that FILE names.
    """
    from directkafka.planning.trigger import parse_duration_ms

    set_up_logging(verbose=verbose)
    pause_s = None if watch is None else parse_duration_ms(watch, option="--watch") / 1000
    if pause_s is not None and pause_s < _WATCH_S_MIN:
        raise OptionError(option="--watch", reason=f"expected {_WATCH_S_MIN} s or more, found {watch}")
    has_limit = max_offsets is not None or max_seconds is not None
    if store is not None and bootstrap_server is None and has_limit:
        reason = "needed with a limit: without it no lag is known; or give FILE in place of --store"
        raise OptionError(option="--bootstrap-server", reason=reason)
    while True:
        name, positions, source = _positions(file, store, pipeline, bootstrap_server)
        positions = tuple(sorted(positions, key=lambda position: -(position.lag or 0)))
        print_records(
            [_lag_record(position) for position in positions], form, title=f"Lag of {name}", has_capitals=True
        )
        above = [position for position in positions if _is_above(position, max_offsets, max_seconds)]
        # Only a file tells what its pipeline still reads.
        missing = _missing(positions, source) if file is not None and source is not None and has_limit else []
        for missed in missing:
            say(f"{missed}, which {file} names", label="not in Kafka:", style="bold red")
        for position in above:
            say(_told(position), label="above the limit:", style="bold red")
        if above or missing:
            raise typer.Exit(EXIT_FAILURE)
        if pause_s is None:
            return
        time.sleep(pause_s)


def _lag_record(position: PartitionPosition) -> dict[str, Any]:
    record = position.as_record()
    return {name: record[name] for name in _LAG_COLUMNS}


def _told(position: PartitionPosition) -> str:
    behind = f"{position.topic}-{position.partition} is {position.lag or 0:,} offsets behind"
    if position.lag_seconds is None:
        return f"{behind}; the age of its first unread record is not known"
    # What is unread may be cut away by Kafka, or of transactions that were aborted.
    return f"{behind}; its first unread record is {position.lag_seconds:,.1f} s old" if position.lag_seconds else behind


def _missing(positions: Sequence[PartitionPosition], source: SourceOptions) -> list[str]:
    """Topics and partitions that a pipeline file names and Kafka does not have. A pattern or a function names none."""
    from directkafka.options.source import AssignedPartitions, TopicNames

    gone = [position for position in positions if position.end is None]
    there = {(position.topic, position.partition) for position in positions if position.end is not None}
    match source.strategy:
        case TopicNames(topics):
            never_seen = set(topics) - {position.topic for position in positions}
            return [*(f"{each.topic}-{each.partition}" for each in gone if each.topic in topics), *sorted(never_seen)]
        case AssignedPartitions(assigned):
            return [f"{each.topic}-{each.partition}" for each in assigned if (each.topic, each.partition) not in there]
        case _:
            return []


def _is_above(position: PartitionPosition, max_offsets: int | None, max_seconds: float | None) -> bool:
    # A partition that is not there, or not read any more, has no lag.
    if position.lag is None:
        return False
    is_far = max_offsets is not None and position.lag > max_offsets
    # An age that is not known counts as too old.
    is_old = max_seconds is not None and (position.lag_seconds is None or position.lag_seconds > max_seconds)
    return is_far or is_old


@app.command(epilog="Example:\n\n  directkafka topics flights.toml")
def topics(  # noqa: PLR0917 - typer gives them by name
    file: OptionalFileArgument = None,
    store: StoreOption = None,
    pipeline: NameOption = None,
    bootstrap_server: BootstrapServerOption = None,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Show the topics that a pipeline reads: how many partitions, offsets in Kafka, and unread offsets."""
    set_up_logging(verbose=verbose)
    name, positions, _ = _positions(file, store, pipeline, bootstrap_server)
    from directkafka.operations.positions import topic_totals

    print_records(topic_totals(positions), form, title=f"Topics of {name}", has_capitals=True)


@app.command(
    "list", epilog="Examples:\n\n  directkafka list --store sqlite:flights.db\n\n"
    "  directkafka list --store postgresql://localhost/flights --format json",
)  # fmt: skip
def list_pipelines(
    store: Annotated[str, typer.Option("--store", metavar="URL", help="The store, such as sqlite:PATH.")],
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """List the pipelines that commit to a store: their last batch, its generation, the rows of all batches."""
    from directkafka.operations.pipelines import look_at_pipelines
    from directkafka.sinks.registry import store_at

    set_up_logging(verbose=verbose)
    with closing(store_at(store)) as looked_at:
        summaries = look_at_pipelines(looked_at)
        if not summaries:
            say(f"no pipeline has committed to {looked_at.identity}")
        print_records(
            [summary.as_record() for summary in summaries], form, title=f"Pipelines of {looked_at.identity}",
            has_capitals=True,
        )  # fmt: skip
