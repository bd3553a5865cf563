"""The commands ``pause``, ``resume`` and ``drop``, on real ledgers; Spark never starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.real.cli.conftest import Command, Outcome

from directkafka import DuckDBSink, PostgresSink, SQLiteSink
from directkafka.errors import FencedError
from directkafka.operations.drop import drop
from directkafka.pipeline.ledger.pause import Pause, set_paused
from directkafka.sinks.api import LedgerEntry, Store
from directkafka.testing.store_contract import Job

pytestmark = pytest.mark.real

FILE = """
[pipeline]
name = "flights"
[source]
"kafka.bootstrap.servers" = "127.0.0.1:1"
subscribe = "flights"
[[sink]]
type = "postgres"
dsn = "{dsn}"
table = "flights"
[[sink]]
type = "sqlite"
path = "{folder}/flights.db"
table = "flights"
[[sink]]
type = "sqlite"
path = "{folder}/flights.db"
table = "more"
"""


class World:
    """A pipeline that has committed a batch to Postgres and to SQLite."""

    def __init__(self, dsn: str, folder: Path, command: Command) -> None:
        self.file = folder / "flights.toml"
        self.file.write_text(FILE.format(dsn=dsn, folder=folder))
        self.dsn, self.folder, self._command = dsn, folder, command
        self.stores: list[Store] = [
            PostgresSink(dsn, "flights").store,
            SQLiteSink(folder / "flights.db", "flights").store,
        ]
        self.jobs = [Job(store).start() for store in self.stores]
        for job in self.jobs:
            job.run()

    def entries(self, name: str) -> list[LedgerEntry | None]:
        """What somebody else finds."""
        stores = PostgresSink(self.dsn, "flights").store, SQLiteSink(self.folder / "flights.db", "flights").store
        with closing(stores[0]), closing(stores[1]):
            return [store.read(name) for store in stores]

    def run(self, name: str, *arguments: str) -> Outcome:
        return self._command(name, str(self.file), *arguments)

    def is_paused(self) -> list[bool]:
        return [Pause("flights").is_paused(store) for store in self.stores]


@pytest.fixture
def world(database: str, tmp_path: Path, command: Command) -> Iterator[World]:
    made = World(database, tmp_path, command)
    yield made
    for store in made.stores:
        store.close()


def test_a_pause_is_in_every_store_and_fences_nobody(world: World) -> None:
    assert world.is_paused() == [False, False]
    code, shown, _ = world.run("pause")
    assert (code, shown) == (0, "flights is paused; no batch begins later than 2 s from now\n")
    assert world.is_paused() == [True, True]
    for job in world.jobs:
        job.run()
    assert world.run("pause")[1] == "flights is paused already\n"
    code, shown, _ = world.run("resume")
    assert (code, shown) == (0, "flights is resumed; a driver that waits goes on within 2 s from now\n")
    assert world.is_paused() == [False, False]
    assert world.run("resume")[1] == "flights is not paused\n"
    code, shown, _ = world.run("pause", "--format", "json")
    assert json.loads(shown) == {"pipeline": "flights", "paused": True, "changed": True}
    assert world.is_paused() == [True, True]


def test_a_pipeline_that_never_ran_may_be_paused_before_it_does(world: World) -> None:
    world.file.write_text(world.file.read_text().replace('name = "flights"', 'name = "trains"'))
    assert world.run("pause")[0] == 0
    assert [Pause("trains").is_paused(store) for store in world.stores] == [True, True]
    assert world.is_paused() == [False, False]


def test_a_store_and_a_name_are_enough(world: World, command: Command) -> None:
    named = ("--store", f"sqlite:{world.folder / 'flights.db'}", "--pipeline", "flights")
    assert command("pause", *named)[0] == 0
    assert world.is_paused() == [False, True]
    [record] = [json.loads(line) for line in command("list", *named[:2], "--format", "json")[1].splitlines()]
    assert (record["pipeline"], record["paused"]) == ("flights", True)
    assert command("drop", *named, "--yes")[0] == 0
    assert [entry is None for entry in world.entries("flights")] == [False, True]


def test_a_pause_of_a_pipeline_that_never_ran_is_ended_in_its_store(world: World, command: Command) -> None:
    named = ("--store", f"sqlite:{world.folder / 'flights.db'}", "--pipeline")
    assert command("resume", *named, "trains")[0] == 2
    with closing(SQLiteSink(world.folder / "flights.db", "flights").store) as store:
        assert set_paused([store], "trains", is_paused=True)
    code, _, messages = command("resume", *named, "trains.paused")
    assert code == 2
    assert "'trains.paused' is what the ledger has of a pipeline's pause or replays" in messages
    assert command("resume", *named, "trains")[1].startswith("trains is resumed")
    code, _, messages = command("resume", *named, "trains")
    assert code == 2
    assert "trains.paused" not in messages


def test_a_drop_fences_a_driver_also_where_it_has_not_committed_yet(world: World) -> None:
    """It has fenced a store that is new to the pipeline, and is about to have it join where the others stand."""
    new = SQLiteSink(world.folder / "new.db", "flights").store
    driver = Job(new).start()
    with closing(new):
        drop([world.stores[0], SQLiteSink(world.folder / "new.db", "flights").store], "flights")
        with pytest.raises(FencedError):
            driver.run()
    assert world.entries("flights")[0] is None


def test_a_look_at_a_drop_says_what_goes_and_changes_nothing(world: World) -> None:
    code, shown, messages = world.run("drop", "--format", "json")
    assert code == 0
    assert "nothing was changed; add --yes" in messages
    records = [json.loads(line) for line in shown.splitlines()]
    assert [record["store"] for record in records] == [store.identity for store in world.stores]
    assert all(record["pipeline"] == "flights" and record["batch_id"] == 0 for record in records)
    assert all(store.read("flights") is not None for store in world.stores)


def test_a_pipeline_that_is_dropped_begins_anew_and_its_driver_is_fenced(world: World) -> None:
    world.run("pause")
    replay = Job(world.stores[0], pipeline="flights.replay").start()
    replay.run()
    assert world.run("drop", "--yes")[0] == 0
    for job in world.jobs:
        with pytest.raises(FencedError):
            job.run()
    assert world.run("drop", "--yes")[2].strip() == "no ledger has flights"
    for name in ("flights", "flights.replay", "flights.paused"):
        assert world.entries(name) == [None, None]


def test_what_is_left_of_a_dropped_pipeline_is_its_generation(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "flights.duckdb"
    store = DuckDBSink(path, "flights").store
    Job(store).start().run()
    assert command("drop", "--store", f"duckdb:{path}", "--pipeline", "flights", "--yes")[0] == 0
    assert command("list", "--store", f"duckdb:{path}")[2].strip().startswith("no pipeline has committed to")
    with closing(DuckDBSink(path, "flights").store) as another:
        assert another.read("flights") is None
        assert another.fence("flights") == 3
