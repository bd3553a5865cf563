"""``python -m soak``: so many minutes of random faults from a seed, then the comparison."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from soak.audit import Finding, Watcher, audit, batch_id
from soak.faults import Storm
from soak.history import History
from soak.world import NumberProducer, World

_CONSOLE = Console(width=110)


def main(
    minutes: Annotated[float, typer.Option(help="How long faults go on.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Decides which faults come in which order.")] = 1,
    rate: Annotated[int, typer.Option(help="Records a second that are produced meanwhile.")] = 150,
    history: Annotated[Path, typer.Option(help="Folder for the record of what happened.")] = Path("soak-history"),
) -> None:
    """Kill drivers, executors, workers, brokers and the database at random; count what is lost or doubled."""
    record = History(history / f"seed-{seed}.jsonl", minutes=minutes, seed=seed, rate=rate)
    _CONSOLE.print(f"soak of {minutes:g} minutes, seed {seed}: {record.path}")
    with tempfile.TemporaryDirectory(prefix="directkafka-soak-") as folder, World.running(Path(folder)) as world:
        storm = Storm(world, record, random.Random(seed))
        numbers = NumberProducer(world.kafka.bootstrap_servers, per_second=rate)
        with numbers as producer, Watcher(world, record) as watcher:
            storm.rage(minutes * 60)
            producer.stop()
            storm.run_to_the_end()
        findings, batches = audit(world), batch_id(world)
    is_right = all(finding.is_right for finding in findings) and not (storm.problems or watcher.torn)
    record.note(
        "end", batches=batches, kills=dict(record.kills), torn=watcher.torn, looks=watcher.looks,
        problems=storm.problems, findings=[str(finding) for finding in findings], is_right=is_right,
    )  # fmt: skip
    record.close()
    _show(findings, record, batches=batches, looks=watcher.looks, torn=watcher.torn)
    for problem in storm.problems:
        _CONSOLE.print(f"[red]{problem}")
    raise typer.Exit(0 if is_right else 1)


def _show(findings: list[Finding], record: History, *, batches: int, looks: int, torn: int) -> None:
    kills = Table("killed", "times", title=f"{batches + 1:,} batches")
    for kind, count in sorted(record.kills.items()):
        kills.add_row(kind, f"{count:,}")
    _CONSOLE.print(kills)
    columns = ("store", "records", "lost", "doubled", "foreign", "left behind")
    stores = Table(*columns, title=f"{looks:,} looks, {torn} torn")
    for finding in findings:
        stores.add_row(
            finding.store,
            f"{finding.records:,}",
            f"{finding.lost:,}",
            f"{finding.doubled:,}",
            f"{finding.foreign:,}",
            ", ".join(finding.left),
        )
    _CONSOLE.print(stores)


if __name__ == "__main__":
    typer.run(main)
