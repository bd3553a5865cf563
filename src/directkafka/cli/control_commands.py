"""Commands that stop a pipeline for a while, let it go on, or make its ledgers forget it. None starts Spark."""

from __future__ import annotations

from pathlib import Path

from directkafka.cli.app import app
from directkafka.cli.commands import FormatOption, VerboseOption, YesOption
from directkafka.cli.env_file import EnvFileOption
from directkafka.cli.output import Format, print_record, print_records, say, set_up_logging
from directkafka.cli.target import NameOption, OptionalFileArgument, StoreOption, opened
from directkafka.errors import OptionError


@app.command(
    epilog="Examples:\n\n  directkafka pause flights.toml\n\n"
    "  directkafka pause --store sqlite:flights.db --pipeline flights"
)
def pause(  # noqa: PLR0917 - typer gives them by name
    file: OptionalFileArgument = None,
    store: StoreOption = None,
    pipeline: NameOption = None,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Let a pipeline wait after the batch in flight; a driver that is started meanwhile waits too."""
    set_up_logging(verbose=verbose)
    _set_paused(file, store, pipeline, form, is_paused=True)


@app.command(epilog="Example:\n\n  directkafka resume flights.toml")
def resume(  # noqa: PLR0917 - typer gives them by name
    file: OptionalFileArgument = None,
    store: StoreOption = None,
    pipeline: NameOption = None,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Let a paused pipeline go on where it is."""
    set_up_logging(verbose=verbose)
    _set_paused(file, store, pipeline, form, is_paused=False)


def _set_paused(file: Path | None, store: str | None, pipeline: str | None, form: Format, *, is_paused: bool) -> None:
    from directkafka.pipeline.file import is_pipeline
    from directkafka.pipeline.ledger.pause import PAUSE_POLL_S, set_paused

    if pipeline is not None and not is_pipeline(pipeline):
        reason = f"{pipeline!r} is what the ledger has of a pipeline's pause or replays: name the pipeline itself"
        raise OptionError(option="--pipeline", reason=reason)
    with opened(file, store, pipeline, has_committed=False) as target:
        has_changed = set_paused(target.unique_stores(), target.pipeline, is_paused=is_paused)
    if has_changed:
        told = "paused; no batch begins later than" if is_paused else "resumed; a driver that waits goes on within"
        text = f"{target.pipeline} is {told} {PAUSE_POLL_S:.0f} s from now"
    else:
        text = f"{target.pipeline} is {'paused already' if is_paused else 'not paused'}"
    print_record({"pipeline": target.pipeline, "paused": is_paused, "changed": has_changed}, form, text=text)


@app.command(epilog="Examples:\n\n  directkafka drop flights.toml\n\n  directkafka drop flights.toml --yes")
def drop(  # noqa: PLR0917 - typer gives them by name
    file: OptionalFileArgument = None,
    store: StoreOption = None,
    pipeline: NameOption = None,
    yes: YesOption = False,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Take a pipeline out of its ledgers, so that it begins at startingOffsets again. Tables stay. Fences a driver."""
    set_up_logging(verbose=verbose)
    from directkafka.operations import drop as operation

    with opened(file, store, pipeline, has_committed=False) as target:
        stores = target.unique_stores()
        ledgers = (operation.drop if yes else operation.look_at_ledgers)(stores, target.pipeline)
    print_records(
        [each.as_record() for each in ledgers], form, title=f"Ledgers of {target.pipeline}", has_capitals=True
    )
    if not ledgers:
        say(f"no ledger has {target.pipeline}")
    elif not yes:
        say("nothing was changed; add --yes to do it, which stops a driver of this pipeline that runs")
