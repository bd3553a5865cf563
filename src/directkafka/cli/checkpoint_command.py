"""The command that shows what a checkpoint of Structured Streaming holds. It does not start Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from directkafka.cli.app import app
from directkafka.cli.commands import FormatOption, VerboseOption
from directkafka.cli.output import Format, print_records, say, set_up_logging


@app.command(
    epilog="Examples:\n\n  directkafka checkpoint /data/checkpoints/flights\n\n"
    "  directkafka checkpoint /data/checkpoints/flights --all --format json\n\n"
    "  directkafka checkpoint s3://bucket/checkpoints/flights"
)
def checkpoint(
    path: Annotated[str, typer.Argument(help="The query's checkpointLocation.", metavar="PATH", show_default=False)],
    every_batch: Annotated[
        bool, typer.Option("--all", help="All batches that it keeps; without, the newest alone.")
    ] = False,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Show the offsets of Kafka in a checkpoint of Structured Streaming, whichever Kafka source it is of."""
    from directkafka.operations.checkpoint import ArrowFiles, look_at_checkpoint
    from directkafka.pipeline.structured.checkpoint import Checkpoint

    set_up_logging(verbose=verbose)
    looked_at = Checkpoint(ArrowFiles(path))
    planned_ranges = look_at_checkpoint(looked_at, every_batch=every_batch)
    done = looked_at.last_done()
    say(f"query {looked_at.lineage()}: {'no batch' if done is None else f'batch {done}'} is committed")
    if not planned_ranges:
        say("no source of Kafka has offsets in it")
        return
    print_records(
        [planned_range.as_record() for planned_range in planned_ranges],
        form,
        # Without the keys that an address may have.
        title=f"Checkpoint {looked_at.location}",
        has_capitals=True,
    )
