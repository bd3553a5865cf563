"""The command ``reset``: a pipeline goes on at other offsets, and what that loses or doubles is said first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from directkafka.cli.app import app
from directkafka.cli.commands import FormatOption, VerboseOption, YesOption
from directkafka.cli.env_file import EnvFileOption
from directkafka.cli.output import Format, print_csv, print_records, say, set_up_logging
from directkafka.cli.target import BootstrapServerOption, NameOption, OptionalFileArgument, opened
from directkafka.errors import OptionError
from directkafka.offsets import Earliest, Exact, Latest
from directkafka.planning.reset_target import (
    Listed,
    ResetTo,
    RowsPolicy,
    ShiftBy,
    TopicChoice,
    parse_ago,
    parse_moment,
    parse_offsets,
)

if TYPE_CHECKING:
    from directkafka.operations.reset import Reset, ResetOutcome, ResetRequest
    from directkafka.operations.target import Target

StoresOption = Annotated[
    list[str] | None,
    typer.Option("--store", metavar="URL", help="Without FILE: a store of the pipeline; may be given again."),
]

_WITHOUT_FILE: Final = (
    "without FILE it is not known how the tables are written. Tables with keys are written over. Tables in mode merge "
    "count records twice that are read again: empty them first. Name each store of the pipeline by a --store of its "
    "own. Under the structured engine call directkafka.restart() afterwards, with an empty checkpoint"
)


@app.command(
    epilog="Examples:\n\n  directkafka reset flights.toml --to-datetime 2026-11-25T08:00 --rows delete\n\n"
    "  directkafka reset flights.toml --shift-by -100 --topic flights:0,1 --yes\n\n"
    "  directkafka reset flights.toml --to-latest --export > offsets.csv\n\n"
    "  directkafka reset flights.toml --from-file offsets.csv --yes\n\n"
    "  directkafka reset --store sqlite:flights.db --pipeline flights --bootstrap-server localhost:9092 --to-earliest"
)
def reset(  # noqa: PLR0917 - typer gives them by name
    file: OptionalFileArgument = None,
    store: StoresOption = None,
    pipeline: NameOption = None,
    bootstrap_server: BootstrapServerOption = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Go on at the first offset that is there.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Go on at the end of what can be read.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="Go on at this offset.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", help="The first record at or after this time: ISO 8601, UTC without a zone."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", help="The first record that is at most this old: 10m, or PT10M.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", help="So many offsets ahead of the next one; below zero: back.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from-file", help="A CSV file of topic,partition,offset, as --export prints it.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC[:0,1]", help="Only these; may be given again.")
    ] = None,
    export: Annotated[bool, typer.Option("--export", help="Print the offsets as CSV; change nothing.")] = False,
    rows: Annotated[
        RowsPolicy | None,
        typer.Option("--rows", help="What becomes of the rows of records that are read again; keep by default."),
    ] = None,
    yes: YesOption = False,
    execute: Annotated[bool, typer.Option("--execute", hidden=True)] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", hidden=True)] = False,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Say what going on at other offsets would lose or double in each table. With --yes, do it; fences a driver."""
    set_up_logging(verbose=verbose)
    is_done = yes or execute
    _check_alone(is_done, {"--dry-run": dry_run, "--export": export})
    from directkafka.operations.reset import ResetRequest

    given = {
        "--to-earliest": Earliest() if to_earliest else None,
        "--to-latest": Latest() if to_latest else None,
        "--to-offset": None if to_offset is None else Exact(to_offset),
        "--to-datetime": None if to_datetime is None else parse_moment(to_datetime, option="--to-datetime"),
        "--by-duration": None if by_duration is None else parse_ago(by_duration, option="--by-duration"),
        "--shift-by": None if shift_by is None else ShiftBy(shift_by),
        "--from-file": None if from_file is None else _listed(from_file),
    }
    request = ResetRequest(
        to=_one_of(given, otherwise=ShiftBy(0) if export else None),
        topics=tuple(TopicChoice.parse(text) for text in topic or ()),
        rows=rows,
    )
    with opened(file, store, pipeline, bootstrap_server, only_known_partitions=True) as target:
        if file is None:
            say(_WITHOUT_FILE, label="note", style="yellow")
        planned = _reset(target, request, has_file=file is not None, is_done=is_done)
        outcome = planned.run() if is_done else planned.plan()
        if export:
            _print_remarks(outcome)
            print_csv((partition.topic, partition.partition, offset) for partition, offset in outcome.offsets.items())
        else:
            _print_outcome(target.pipeline, outcome, form, is_done=is_done)
            _print_rest(target, file)


def _reset(target: Target, request: ResetRequest, *, has_file: bool, is_done: bool) -> Reset:
    """The reset, if enough is known of the pipeline.

    Raises:
        OptionError: it has no pipeline file, and something else is needed for that.
    """
    from directkafka.operations.reset import Reset

    if not has_file and request.rows is RowsPolicy.DELETE:
        reason = "a ledger does not say how the tables are written, so no rows can be deleted: give FILE"
        raise OptionError(option="--rows", reason=reason)
    if not has_file and is_done and request.rows is None:
        reason = "without FILE add --rows keep: no rows are deleted, and those that are read again may be there twice"
        raise OptionError(option="--rows", reason=reason)
    if target.source is None:
        raise OptionError(
            option="--bootstrap-server",
            reason="name a broker: Kafka is asked for offsets. (A pipeline that has read nothing cannot be reset.)",
        )
    return Reset(target.pipeline, target.source, target.routes, request, only_known_topics=not has_file)


def _print_rest(target: Target, file: Path | None) -> None:
    """Say what the reset itself does not do."""
    from directkafka.operations.reset import checkpoint_remark

    if target.checkpoint is not None:
        say(checkpoint_remark(target.checkpoint, str(file)))


def _check_alone(is_done: bool, others: Mapping[str, bool]) -> None:
    other = next((option for option, is_given in others.items() if is_given), None)
    if is_done and other:
        raise OptionError(option="--yes", reason=f"it changes something, and {other} does not: give one of the two")


def _one_of(given: Mapping[str, ResetTo | None], *, otherwise: ResetTo | None) -> ResetTo:
    named = {option: to for option, to in given.items() if to is not None}
    if not named and otherwise is not None:
        return otherwise
    if len(named) != 1:
        option_names = " and ".join(named) or "none"
        raise OptionError(
            option=next(iter(named), "--to-earliest"),
            reason=f"say where the pipeline is to go on by one of {', '.join(given)}; found {option_names}",
        )
    ((_, to),) = named.items()
    return to


def _listed(path: Path) -> Listed:
    """The offsets of a CSV file.

    Raises:
        OptionError: it cannot be read, or a line of it is none; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise OptionError(option="--from-file", reason=f"{path} cannot be read: {error}") from None
    return Listed(parse_offsets(lines, option="--from-file", where=str(path)))


def _print_outcome(pipeline: str, outcome: ResetOutcome, form: Format, *, is_done: bool) -> None:
    from directkafka.operations.reset_effects import totals

    lines = [effect.as_record() for effect in outcome.effects]
    print_records([*lines, *totals(outcome.effects)], form, title=f"Reset of {pipeline}", has_capitals=True)
    _print_remarks(outcome)
    if not outcome.changes_something:
        say("nothing is lost or doubled: the pipeline is there already")
    elif not lines:
        say("no table loses or doubles anything")
    if not is_done and outcome.changes_something:
        say("nothing was changed; add --yes to do it, which stops a driver of this pipeline that runs")


def _print_remarks(outcome: ResetOutcome) -> None:
    for remark in outcome.remarks:
        say(remark, label="note", style="yellow")
