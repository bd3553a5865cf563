"""Checkpoints deleted, copied, foreign or old, ledgers deleted: what is said, and the ways out of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from tests.real.pipeline.conftest import COUNT
from tests.real.pipeline.structured_world import Streams
from typer.testing import CliRunner

import directkafka as dk
from directkafka.cli import commands
from directkafka.cli.app import app
from directkafka.errors import LineageError, OptionError
from directkafka.pipeline.structured.lineage import Case

pytestmark = pytest.mark.real

slow = pytest.mark.slow

MORE = range(COUNT, COUNT + 12)
ALL = list(range(COUNT + 12))


def refused(streams: Streams, frame: DataFrame | None = None) -> LineageError:
    """The error of a run, which must have changed nothing."""
    before = streams.world.numbers()
    failure = streams.failure(frame)
    assert isinstance(failure, LineageError), failure
    assert streams.world.numbers() == before
    return failure


def adopt(streams: Streams, *, confirm: bool = True) -> tuple[dk.LedgerChange, ...]:
    checkpoint = str(streams.checkpoint)
    return dk.adopt("numbers", streams.sink(), checkpoint=checkpoint, confirm=confirm, spark=streams.session)


def restart(streams: Streams, origin: str = "ledger", *, confirm: bool = True) -> tuple[dk.LedgerChange, ...]:
    checkpoint = str(streams.checkpoint)
    return dk.restart(
        "numbers", streams.sink(), checkpoint=checkpoint, origin=origin, confirm=confirm, spark=streams.session
    )


def counted(changes: tuple[dk.LedgerChange, ...]) -> tuple[int | None, int | None]:
    """Offsets lost and doubled, over all partitions of the only store."""
    moved = changes[0].moved
    lost = [partition.lost for partition in moved]
    doubled = [partition.doubled for partition in moved]
    return None if None in lost else sum(lost), None if None in doubled else sum(doubled)


@slow
def test_a_deleted_checkpoint_is_an_error_and_a_restart_goes_on_where_the_ledger_ends(streams: Streams) -> None:
    streams.run()
    streams.delete_checkpoint()
    streams.produce(MORE)
    failure = refused(streams)
    assert failure.remedy == Case.CHECKPOINT_IS_NEW.value
    assert "(batch 3, ending at " in failure.found
    streams.delete_checkpoint()
    assert counted(restart(streams)) == (0, 0)
    ends = {streams.world.topic: {str(partition): 30 for partition in range(3)}}
    streams.run(streams.numbers(startingOffsets=json.dumps(ends)))
    assert streams.world.numbers() == ALL
    assert streams.ledger()["lineage"] == streams.lineage()


@slow
def test_a_restarted_ledger_takes_no_checkpoint_that_begins_elsewhere(streams: Streams) -> None:
    streams.run()
    streams.delete_checkpoint()
    restart(streams)
    assert refused(streams).remedy == Case.BEGINS_ELSEWHERE.value
    streams.delete_checkpoint()
    changes = restart(streams, "checkpoint")
    assert counted(changes) == (None, None), "only the query knows where it will start"
    streams.run()
    assert len(streams.world.numbers()) == 2 * COUNT, "as was asked for"


@slow
def test_a_checkpoint_of_another_query_is_an_error(streams: Streams) -> None:
    streams.run()
    foreign = Streams(world=streams.world, session=streams.session, checkpoint=Path(f"{streams.checkpoint}-2"))
    foreign.run(name="other", sinks=foreign.sink("other"))
    foreign.produce(MORE)
    assert refused(foreign).remedy == Case.CHECKPOINT_IS_FOREIGN.value


@slow
def test_a_copied_checkpoint_that_planned_the_batch_anew_is_an_error_and_no_silent_skip(streams: Streams) -> None:
    streams.run()
    copy = Path(f"{streams.checkpoint}-copy")
    shutil.copytree(streams.checkpoint, copy)
    streams.produce(MORE)
    streams.run()
    streams.produce(range(200, 230))
    copied = Streams(world=streams.world, session=streams.session, checkpoint=copy)
    # Its next batch has the number that is committed, and other ends.
    assert refused(copied).remedy == Case.PLANNED_AGAIN.value
    streams.run()
    assert streams.world.numbers() == [*ALL, *range(200, 230)]


@slow
def test_an_old_copy_of_the_checkpoint_is_an_error(streams: Streams) -> None:
    streams.run()
    old = Path(f"{streams.checkpoint}-old")
    shutil.copytree(streams.checkpoint, old)
    for more in (range(200, 210), range(210, 220)):
        streams.produce(more)
        streams.run()
    restored = Streams(world=streams.world, session=streams.session, checkpoint=old)
    assert refused(restored).remedy == Case.CHECKPOINT_IS_OLD.value


@slow
def test_a_deleted_ledger_is_an_error_and_the_checkpoint_s_position_can_be_taken(streams: Streams) -> None:
    streams.run()
    streams.world.query("DELETE FROM directkafka_ledger")
    streams.produce(MORE)
    assert refused(streams).remedy == Case.NO_ENTRY.value
    # That run has planned a batch; the position is that of the last one that is done.
    changes = restart(streams, "checkpoint")
    assert {partition.next for partition in changes[0].moved} == {30}
    streams.run()
    assert streams.world.numbers() == ALL


@slow
def test_a_ledger_that_is_behind_is_an_error_and_what_would_be_lost_is_said_in_numbers(streams: Streams) -> None:
    streams.run()
    progress = json.dumps([partition | {"start": 0, "end": 10} for partition in streams.ledger()["progress"]])
    streams.world.query(f"UPDATE directkafka_ledger SET batch_id = 1, progress = '{progress}'")
    streams.produce(MORE)
    assert refused(streams).remedy == Case.LEDGER_IS_OLD.value
    assert counted(restart(streams, "checkpoint", confirm=False)) == (60, 0)
    assert streams.ledger()["batch_id"] == 1, "only looked at"
    with pytest.raises(LineageError, match="do not stand at the same offsets"):
        adopt(streams)
    restart(streams, "checkpoint")
    streams.run()
    assert streams.world.numbers() == ALL, "the rows were there in truth: nothing was doubled"


@slow
def test_a_checkpoint_that_stands_where_the_ledger_ends_is_adopted(streams: Streams) -> None:
    streams.run()
    # The same position, reached in one batch in place of three, by a query of its own.
    rebuilt = Streams(world=streams.world, session=streams.session, checkpoint=Path(f"{streams.checkpoint}-new"))
    rebuilt.run(rebuilt.numbers(maxOffsetsPerTrigger="1000"), name="rebuild", sinks=rebuilt.sink("scratch"))
    rebuilt.produce(MORE)
    assert refused(rebuilt).remedy == Case.CHECKPOINT_IS_FOREIGN.value
    looked_at = adopt(rebuilt, confirm=False)
    assert not looked_at[0].is_done
    changes = adopt(rebuilt)
    assert counted(changes) == (0, 0)
    rebuilt.run()
    assert rebuilt.world.numbers() == ALL
    assert rebuilt.ledger()["lineage"] == rebuilt.lineage()


@slow
def test_batch_numbers_of_the_same_checkpoint_are_adopted_too(streams: Streams) -> None:
    streams.run()
    streams.world.query("UPDATE directkafka_ledger SET batch_id = 70")
    streams.produce(MORE)
    assert refused(streams).remedy == Case.CHECKPOINT_IS_OLD.value
    assert counted(adopt(streams)) == (0, 0)
    adopt(streams)  # again, and nothing is left to do
    streams.run()
    assert streams.world.numbers() == ALL


@slow
def test_a_checkpoint_that_has_begun_is_not_restarted_from_the_ledger(streams: Streams) -> None:
    streams.run()
    with pytest.raises(OptionError, match="has begun: it is at batch 3"):
        restart(streams)


def test_a_checkpoint_without_a_query_cannot_be_adopted(streams: Streams) -> None:
    with pytest.raises(OptionError, match="no query has begun there"):
        adopt(streams)


# The commands.

FILE = """
[pipeline]
name = "numbers"
trigger = "available-now"
engine = "structured"
checkpoint = "{checkpoint}"

[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "earliest"

[transform]
sql = "SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source"

[[sink]]
type = "postgres"
dsn = "{dsn}"
table = "records"
"""


@pytest.fixture
def file(streams: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(commands, "claim_stdout", lambda: None)
    monkeypatch.setattr(commands, "set_up_logging", lambda **_: None)
    path = tmp_path / "numbers.toml"
    world = streams.world
    path.write_text(FILE.format(checkpoint=streams.checkpoint, kafka=world.kafka, topic=world.topic, dsn=world.dsn))
    return path


def command(*arguments: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(app, [*arguments, "--format", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@slow
def test_a_pipeline_file_restarts_where_its_ledger_ends_by_itself(streams: Streams, file: Path) -> None:
    dk.Pipeline.from_toml(file).run()
    streams.delete_checkpoint()
    streams.produce(MORE)
    with pytest.raises(LineageError):
        dk.Pipeline.from_toml(file).run()
    with pytest.raises(LineageError):
        dk.Pipeline.from_toml(file).check()
    streams.delete_checkpoint()
    assert [partition["is_done"] for partition in command("restart", str(file))] == [False] * 3
    restarted = command("restart", str(file), "--yes")
    assert [
        (partition["ledger"], partition["next"], partition["lost"], partition["doubled"]) for partition in restarted
    ] == [(30, 30, 0, 0)] * 3
    dk.Pipeline.from_toml(file).check()
    dk.Pipeline.from_toml(file).run()
    dk.Pipeline.from_toml(file).check()
    assert streams.world.numbers() == ALL


@slow
def test_a_pipeline_file_that_begins_anew_is_told_first_what_is_doubled(streams: Streams, file: Path) -> None:
    dk.Pipeline.from_toml(file).run()
    streams.delete_checkpoint()
    looked_at = command("restart", str(file), "--from", "checkpoint")
    assert [(partition["next"], partition["lost"], partition["doubled"]) for partition in looked_at] == [(0, 0, 30)] * 3
    command("restart", str(file), "--from", "checkpoint", "--yes")
    dk.Pipeline.from_toml(file).run()
    assert streams.world.numbers() == sorted([*range(COUNT)] * 2)


@slow
def test_a_pipeline_file_adopts_its_checkpoint(streams: Streams, file: Path) -> None:
    dk.Pipeline.from_toml(file).run()
    streams.world.query("UPDATE directkafka_ledger SET lineage = 'of another checkpoint'")
    streams.produce(MORE)
    with pytest.raises(LineageError):
        dk.Pipeline.from_toml(file).run()
    assert [partition["is_done"] for partition in command("adopt", str(file), "--yes")] == [True] * 3
    dk.Pipeline.from_toml(file).run()
    assert streams.world.numbers() == ALL


def test_a_direct_pipeline_has_nothing_to_adopt(file: Path) -> None:
    text = file.read_text()
    file.write_text("\n".join(line for line in text.splitlines() if not line.startswith(("engine", "checkpoint"))))
    with pytest.raises(OptionError, match="the ledger is the checkpoint"):
        command("adopt", str(file))
