"""Every command, thin: parse, call the library, print."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from directkafka.cli.app import EXIT_FAILURE, app, spark_in_file, stopped_by_signals
from directkafka.cli.env_file import EnvFileOption
from directkafka.cli.output import (
    Format,
    LogFormat,
    claim_stdout,
    is_drawn_on,
    log_lines_are_of,
    print_record,
    print_records,
    say,
    set_up_logging,
)
from directkafka.errors import OptionError

if TYPE_CHECKING:
    from directkafka.pipeline.pipeline import Pipeline
    from directkafka.pipeline.progress import BatchReport
    from directkafka.pipeline.replay.report import ReplaySummary
    from directkafka.pipeline.structured.restart import LedgerChange


class RestartFrom(StrEnum):
    """Where a restarted pipeline goes on."""

    LEDGER = "ledger"
    CHECKPOINT = "checkpoint"


FileArgument = Annotated[Path, typer.Argument(help="The pipeline file (TOML).", metavar="FILE", show_default=False)]
FormatOption = Annotated[Format, typer.Option("--format", help="What stdout carries.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it; without, only look.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Log more to stderr.")]


def _pipeline_of(file: Path, *, verbose: bool, log_format: LogFormat = LogFormat.TEXT) -> Pipeline:
    """The pipeline of a file; from here on stdout carries what is asked for, and nothing else."""
    set_up_logging(verbose=verbose, log_format=log_format)
    claim_stdout()
    from directkafka.pipeline.pipeline import Pipeline

    pipeline = Pipeline.from_toml(file)
    log_lines_are_of(pipeline.status)
    return pipeline


@app.command(
    epilog="Examples:\n\n  directkafka run flights.toml\n\n  directkafka run flights.toml --format json | jq .rows"
    "\n\n  directkafka run flights.toml --live"
    "\n\n  directkafka run flights.toml --http 127.0.0.1:9464 --log-format json"
)
def run(  # noqa: PLR0917 - typer gives them by name
    file: FileArgument,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="HOST:PORT", help="Serve a page, /metrics, /healthz and /readyz there: 127.0.0.1:9464."
        ),
    ] = None,
    stalled_after: Annotated[
        str, typer.Option("--stalled-after", help="How long a step may take until /healthz answers 503.")
    ] = "10m",
    live: Annotated[
        bool, typer.Option("--live", help="Draw batches, rates and lag in the terminal; nothing where there is none.")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="What the lines on stderr are.")] = (
        LogFormat.TEXT
    ),
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Run a pipeline until its trigger ends it or SIGTERM or SIGINT asks it to stop after the batch in flight."""
    pipeline = _pipeline_of(file, verbose=verbose, log_format=log_format)
    if form is not Format.TEXT:
        from directkafka.pipeline.progress import log_report

        def print_report(report: BatchReport) -> None:
            try:
                if log_format is LogFormat.JSON:
                    log_report(report)
                print_record(report.as_record(), form, text="")
            except BrokenPipeError:
                pipeline.request_stop()
                say("nobody reads stdout any more: stopping after this batch")

        pipeline.report = print_report
    with (
        _served(http, stalled_after),
        _traced(),
        spark_in_file(pipeline.name, verbose=verbose),
        stopped_by_signals(pipeline),
        _drawn(pipeline, form, is_asked_for=live),
    ):
        # In a thread, so that this one is free for signals.
        pipeline.start()
        pipeline.wait()


def _drawn(pipeline: Pipeline, form: Format, *, is_asked_for: bool) -> AbstractContextManager[object]:
    """The view of the pipeline for the time of the run, if it is asked for and there is a terminal."""
    if not (is_asked_for and form is Format.TEXT and is_drawn_on()):
        return nullcontext()
    from directkafka.cli.live import live_view

    return live_view(pipeline.status)


def _served(http: str | None, stalled_after: str) -> AbstractContextManager[object]:
    """A server for the time of the run, if one is asked for."""
    from directkafka.monitoring.http import serve_http
    from directkafka.planning.trigger import parse_duration_ms

    stalled_after_s = parse_duration_ms(stalled_after, option="--stalled-after") / 1000
    return nullcontext() if http is None else serve_http(http, stalled_after_s=stalled_after_s, option="--http")


def _traced() -> AbstractContextManager[object]:
    """Traces for the time of the run, if OpenTelemetry's variables in the environment say where they go.

    A platform may set these for every program, so a missing extra is told, and no reason not to run.
    """
    from directkafka.monitoring.traces import is_asked_for, trace_pipelines

    if not is_asked_for():
        return nullcontext()
    try:
        return trace_pipelines(option="OTEL_EXPORTER_OTLP_ENDPOINT")
    except OptionError as error:
        say(f"no traces are sent: {error.reason}", label="note", style="yellow")
        return nullcontext()


@app.command(epilog="Example:\n\n  directkafka check flights.toml")
def check(
    file: FileArgument,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Check a pipeline without starting it, changing nothing: file, topics, transform, tables, ledger, executors."""
    pipeline = _pipeline_of(file, verbose=verbose)
    with spark_in_file(pipeline.name, verbose=verbose):
        remarks = pipeline.check()
    for remark in remarks:
        say(remark, label="note", style="yellow")
    print_record({"pipeline": pipeline.name, "notes": list(remarks)}, form, text=f"{pipeline.name}: ready to run")


@app.command(epilog="Example:\n\n  directkafka verify flights.toml")
def verify(
    file: FileArgument,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Recount: read again what the pipeline has read, and compare it with the tables. Exit 1 if they differ."""
    pipeline = _pipeline_of(file, verbose=verbose)
    from directkafka.pipeline.verify import verify as recount

    with spark_in_file(pipeline.name, verbose=verbose):
        findings = recount(pipeline)
    print_records([finding.as_record() for finding in findings], form, title="Rows against offsets")
    if not all(finding.is_right for finding in findings):
        raise typer.Exit(EXIT_FAILURE)


@app.command(
    epilog="Examples:\n\n  directkafka adopt windows.toml\n\n  directkafka adopt windows.toml --yes --format json"
)
def adopt(
    file: FileArgument,
    yes: YesOption = False,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Let a pipeline's ledger follow its checkpoint, which must stand exactly where the ledger ends."""
    pipeline = _pipeline_of(file, verbose=verbose)
    from directkafka.pipeline.structured.restart_pipeline import adopt_pipeline

    with spark_in_file(pipeline.name, verbose=verbose):
        changes = adopt_pipeline(pipeline, confirm=yes)
    _print_changes(changes, form)


@app.command(
    epilog="Examples:\n\n  directkafka restart windows.toml --yes\n\n  "
    "directkafka restart windows.toml --from checkpoint --format json"
)
def restart(  # noqa: PLR0917 - typer gives them by name
    file: FileArgument,
    origin: Annotated[
        RestartFrom, typer.Option("--from", help="Where to go on: the ledger's ends, or the checkpoint's position.")
    ] = RestartFrom.LEDGER,
    yes: YesOption = False,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Let a pipeline go on with another checkpoint, and say in offsets what that would lose or double."""
    pipeline = _pipeline_of(file, verbose=verbose)
    from directkafka.pipeline.structured.restart_pipeline import restart_pipeline

    with spark_in_file(pipeline.name, verbose=verbose):
        changes = restart_pipeline(pipeline, origin=origin.value, confirm=yes)
    _print_changes(changes, form)


def _print_changes(changes: Sequence[LedgerChange], form: Format) -> None:
    for change in changes:
        say(f"{change.store}: {change.before} -> {change.after}")
    print_records(
        [record for change in changes for record in change.as_records()], form, title="What becomes of offsets"
    )
    if not all(change.is_done for change in changes):
        say("nothing was changed; add --yes to do so, which stops a running driver of this pipeline")


@app.command(epilog="Examples:\n\n  directkafka demo\n\n  directkafka demo --keep --kills 5 --seed 7")
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave broker and database running at the end.")] = False,
    kills: Annotated[int, typer.Option("--kills", min=0, max=100, help="How often it is killed, at most.")] = 3,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the random moments; printed.")] = None,
    form: FormatOption = Format.TEXT,
) -> None:
    """Real broker, real database, 336,776 flights, a pipeline killed at random, and the count. Needs a checkout."""
    from directkafka.cli.demo import run_demo

    result = run_demo(keep=keep, kills=kills, seed=seed)
    print_records(result.as_records(), form, title="Flights from Kafka to Postgres")
    if not result.is_right:
        raise typer.Exit(EXIT_FAILURE)


_EXAMPLES = (
    "Examples:\n\n  directkafka replay flights.toml --dry-run\n\n"
    '  directkafka replay flights.toml --reason "no number" --limit 1000\n\n'
    "  directkafka replay flights.toml --topic flights --partition 0 --from-offset 100 --until-offset 200\n\n"
    "  directkafka replay flights.toml --since 2026-03-01T00:00:00Z --until 2026-03-02T00:00:00Z --format json"
)


@app.command(epilog=_EXAMPLES)
def replay(  # noqa: PLR0917 - typer gives them by name
    file: FileArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count by reason; change nothing.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="A text that the reason has in it.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="The record's topic.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="The record's partition.")] = None,
    from_offset: Annotated[int | None, typer.Option("--from-offset", min=0, help="First offset.")] = None,
    until_offset: Annotated[int | None, typer.Option("--until-offset", min=0, help="Offset after the last.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="The record's timestamp: ISO 8601, with a zone.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="The same; itself excluded.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many dead letters.")] = None,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Feed dead letters through the transform again, exactly once; the pipeline may run meanwhile."""
    pipeline = _pipeline_of(file, verbose=verbose)
    from directkafka.pipeline.replay.selection import Chosen

    chosen = Chosen(
        reason=reason, topic=topic, partition=partition, from_offset=from_offset, until_offset=until_offset,
        since=since, until=until, limit=limit,
    )  # fmt: skip
    if dry_run:
        _print(pipeline.replay(dry_run=True, **chosen), form)
        return
    with spark_in_file(pipeline.name, verbose=verbose), stopped_by_signals(pipeline):
        _print(pipeline.replay(**chosen), form)


def _print(summary: ReplaySummary, form: Format) -> None:
    if summary.is_dry:
        title, message = "Dead letters", f"{summary.letters:,} dead letters would be tried; nothing was changed"
    else:
        title = "Replayed dead letters"
        message = f"{summary.letters:,} dead letters tried, {summary.rejected:,} of them rejected again"
    print_records(summary.as_records(), form, title=title)
    say(message)
