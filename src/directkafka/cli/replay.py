"""``directkafka replay``: dead letters through the transform again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from directkafka.cli.app import app
from directkafka.cli.commands import FileArgument, FormatOption, VerboseOption
from directkafka.cli.output import Format, claim_stdout, print_records, say, set_up_logging
from directkafka.cli.spark_run import spark_in_file, stopped_by_signals

if TYPE_CHECKING:
    from directkafka.pipeline.replay.report import ReplaySummary

__all__: list[str] = []

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
    until_offset: Annotated[int | None, typer.Option("--until-offset", min=0, help="Offset behind the last.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="The record's timestamp: ISO 8601, with a zone.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="The same; itself excluded.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many letters.")] = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Feed dead letters through the transform again, exactly once; the pipeline may run meanwhile."""
    set_up_logging(verbose=verbose)
    claim_stdout()
    from directkafka.pipeline.pipeline import Pipeline
    from directkafka.pipeline.replay.selection import Chosen

    pipeline = Pipeline.from_toml(file)
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
        title, said = "Dead letters", f"{summary.letters:,} dead letters would be tried; nothing was changed"
    else:
        title = "Replayed dead letters"
        said = f"{summary.letters:,} dead letters tried, {summary.rejected:,} of them rejected again"
    print_records(summary.as_records(), form, title=title)
    say(said)
