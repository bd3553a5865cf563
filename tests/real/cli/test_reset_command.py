"""The command ``reset`` against a real broker, a real ledger and a real table; Spark never starts."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from tests.real.cli.conftest import Command, Outcome
from tests.real.kafka.logs import delete_records
from tests.waiting import WAIT_S

from directkafka import SQLiteSink
from directkafka.errors import FencedError
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.pipeline.ledger.reset_entry import reset_entry
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.planning.reset_target import RowsPolicy
from directkafka.sinks.api import BatchAttempt, LedgerEntry
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

FILE = """
[pipeline]
name = "flights"
{more}
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
[[sink]]
type = "sqlite"
path = "{folder}/flights.db"
table = "flights"
"""

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
UPSERT = 'mode = "upsert"\nkey = ["topic", "partition", "offset"]\n'
MERGE = 'mode = "merge"\nkey = ["partition"]\nadd = ["offset"]\n'


class World:
    """Ten and five records in two partitions, a second apart; all of the first and three of the second are read."""

    def __init__(
        self,
        servers: str,
        topic: str,
        folder: Path,
        command: Command,
        *,
        ends: tuple[int, ...] = (10, 3),
        topic_id: str = "",
    ) -> None:
        self.servers, self.topic, self.folder, self.command = servers, topic, folder, command
        self.topic_id = topic_id
        self.start_ms = int(time.time()) * 1000 - 60_000
        producer = Producer({"bootstrap.servers": servers})
        for partition, count in enumerate((10, 5)):
            for number in range(count):
                producer.produce(topic, b"v", partition=partition, timestamp=self.start_ms + number * 1000)
                assert producer.flush(WAIT_S) == 0
        self.write()
        self.commit(*ends)

    def write(self, *, more: str = "", sink: str = "") -> None:
        text = FILE.format(kafka=self.servers, topic=self.topic, folder=self.folder, more=more)
        (self.folder / "flights.toml").write_text(text + sink)

    def sink(self, database: str = "flights.db") -> Any:
        return SQLiteSink(self.folder / database, "flights")

    def commit(self, *ends: int, database: str = "flights.db") -> None:
        """A batch that has read so far, with a row for each record."""
        sink = self.sink(database)
        sink.prepare(SCHEMA)
        with closing(sink.store) as store:
            generation = store.fence("flights")
            progress = tuple(
                PartitionProgress.at(TopicPartition(self.topic, partition), 0) for partition in range(len(ends))
            )
            first = LedgerEntry(
                pipeline="flights", generation=generation, lineage="a", batch_id=0, progress=progress, committed_at_ms=1
            )
            previous = store.commit(first, previous=None)
            attempt = BatchAttempt(pipeline="flights", generation=generation, batch_id=1, attempt="1")
            rows = [
                {"topic": self.topic, "partition": partition, "offset": offset}
                for partition, end in enumerate(ends)
                for offset in range(end)
            ]
            report = sink.task_writer(attempt, SCHEMA)(iter([pa.RecordBatch.from_pylist(rows, SCHEMA)]))
            progress = tuple(
                PartitionProgress(
                    topic=self.topic,
                    partition=partition,
                    topic_id=self.topic_id,
                    start=0,
                    end=end,
                    leader_epoch=0,
                    origin=0,
                )
                for partition, end in enumerate(ends)
            )
            entry = LedgerEntry(
                pipeline="flights", generation=generation, lineage="a", batch_id=1, progress=progress, committed_at_ms=1
            )
            store.commit(entry, previous=previous, writes=[(sink, attempt, [report])])

    def ends(self, database: str = "flights.db") -> dict[int, int]:
        with closing(self.sink(database).store) as store:
            entry = store.read("flights")
        assert entry is not None
        return {topic_partition.partition: end for topic_partition, end in entry.ends().items()}

    def rows(self) -> list[tuple[int, int]]:
        with closing(sqlite3.connect(self.folder / "flights.db")) as connection:
            return connection.execute('SELECT "partition", "offset" FROM flights ORDER BY 1, 2').fetchall()

    def run(self, *arguments: str) -> Outcome:
        return self.command("reset", str(self.folder / "flights.toml"), *arguments)

    def records(self, *arguments: str) -> list[dict[str, Any]]:
        code, out, err = self.run(*arguments, "--format", "json")
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    def exported(self, *arguments: str) -> list[str]:
        code, out, err = self.run(*arguments, "--export")
        assert code == 0, err
        return [line.removeprefix(f"{self.topic},") for line in out.splitlines()]

    def at(self, seconds: int) -> str:
        """The time of the record of this number, as users write it."""
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.start_ms // 1000 + seconds))


@pytest.fixture
def world(kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path, command: Command) -> World:
    return World(kafka_broker.bootstrap_servers, create_topic(2), tmp_path, command)


def test_a_look_says_what_each_partition_would_lose_or_double_and_changes_nothing(world: World) -> None:
    before = world.ends(), world.rows()
    records = world.records("--to-offset", "4")
    first, second, doubled, lost = records
    assert {name: first[name] for name in ("sink", "topic", "partition", "current", "new", "effect")} == {
        "sink": "flights", "topic": world.topic, "partition": 0, "current": 10, "new": 4, "effect": "doubled",
    }  # fmt: skip
    assert (first["offsets"], first["records_max"], first["rows"]) == (6, 6, 6)
    assert (first["first_at"][:19], first["last_at"][:19]) == (world.at(4), world.at(9))
    assert (second["current"], second["new"], second["effect"]) == (3, 4, "lost")
    assert (second["offsets"], second["records_max"], second["rows"]) == (1, 1, 0)
    assert (second["first_at"][:19], second["last_at"][:19]) == (world.at(3), world.at(3))
    for total, effect, offsets, rows in ((doubled, "doubled", 6, 6), (lost, "lost", 1, 0)):
        assert total["topic"] is total["partition"] is total["new"] is None
        assert (total["sink"], total["effect"], total["offsets"], total["rows"]) == ("flights", effect, offsets, rows)
    assert (world.ends(), world.rows()) == before
    assert "nothing was changed; add --yes" in world.run("--to-offset", "4")[2]


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        (["--to-earliest"], ["0,0", "1,0"]),
        (["--to-latest"], ["0,10", "1,5"]),
        (["--to-offset", "4"], ["0,4", "1,4"]),
        # In the log there is nothing so late: the nearest offset.
        (["--to-offset", "7"], ["0,7", "1,5"]),
        (["--to-datetime", "{at}"], ["0,3", "1,3"]),
        (["--to-datetime", "{at}Z"], ["0,3", "1,3"]),
        (["--to-datetime", "2100-01-01"], ["0,10", "1,5"]),
        (["--by-duration", "1h"], ["0,0", "1,0"]),
        (["--by-duration", "PT1H"], ["0,0", "1,0"]),
        (["--shift-by", "-2"], ["0,8", "1,1"]),
        (["--shift-by", "1"], ["0,10", "1,4"]),
        (["--shift-by", "-100"], ["0,0", "1,0"]),
        ([], ["0,10", "1,3"]),
        (["--to-earliest", "--topic", "{topic}:1"], ["1,0"]),
        (["--to-earliest", "--topic", "{topic}"], ["0,0", "1,0"]),
    ],
)
def test_where_to_go_on_is_said_in_the_ways_of_kafka_s_own_tool(
    world: World, arguments: list[str], offsets: list[str]
) -> None:
    assert world.exported(*(text.format(topic=world.topic, at=world.at(3)) for text in arguments)) == offsets


def test_what_was_exported_is_taken_again(world: World) -> None:
    _, out, _ = world.run("--shift-by", "-2", "--export")
    (world.folder / "offsets.csv").write_text(out)
    assert world.run("--from-file", str(world.folder / "offsets.csv"), "--yes")[0] == 0
    assert world.ends() == {0: 8, 1: 1}


def test_rows_are_kept_unless_they_are_to_be_deleted(world: World) -> None:
    rows = world.rows()
    assert world.run("--to-offset", "2", "--yes")[0] == 0
    assert (world.ends(), world.rows()) == ({0: 2, 1: 2}, rows)


def test_rows_of_records_that_are_read_again_are_deleted_where_that_is_asked_for(world: World) -> None:
    records = world.records("--to-offset", "2", "--rows", "delete", "--execute")
    assert [(record["effect"], record["rows"]) for record in records] == [
        ("deleted", 8),
        ("deleted", 1),
        ("deleted", 9),
    ]
    assert world.ends() == {0: 2, 1: 2}
    assert world.rows() == [(0, 0), (0, 1), (1, 0), (1, 1)]


def without_file(world: World, *arguments: str, databases: tuple[str, ...] = ("flights.db",)) -> Outcome:
    named = [part for database in databases for part in ("--store", f"sqlite:{world.folder}/{database}")]
    return world.command("reset", *named, "--pipeline", "flights", *arguments)


def test_a_pipeline_without_a_file_is_reset_in_its_store(world: World) -> None:
    at = ["--bootstrap-server", world.servers, "--to-offset", "4"]
    rows = world.rows()
    code, out, err = without_file(world, *at, "--format", "json")
    assert (code, world.ends()) == (0, {0: 10, 1: 3}), err
    effects = [json.loads(line) for line in out.splitlines()]
    assert [
        (effect["sink"], effect["partition"], effect["effect"], effect["offsets"], effect["rows"]) for effect in effects
    ] == [
        ("flights", 0, "doubled", 6, None),
        ("flights", 1, "lost", 1, 0),
        ("flights", None, "doubled", 6, None),
        ("flights", None, "lost", 1, 0),
    ]
    assert "without FILE it is not known how the tables are written" in " ".join(err.split())
    assert without_file(world, *at, "--rows", "keep", "--yes")[0] == 0
    assert (world.ends(), world.rows()) == ({0: 4, 1: 4}, rows)


def test_several_stores_of_a_pipeline_without_a_file_are_reset_together(world: World) -> None:
    world.commit(10, 3, database="other.db")
    arguments = ["--bootstrap-server", world.servers, "--to-offset", "4", "--rows", "keep", "--yes"]
    assert without_file(world, *arguments, databases=("flights.db", "other.db"))[0] == 0
    assert world.ends() == world.ends("other.db") == {0: 4, 1: 4}


def test_partitions_that_a_ledger_does_not_know_are_not_added_to_it(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path, command: Command
) -> None:
    """The pipeline may have been told to read this partition alone."""
    world = World(kafka_broker.bootstrap_servers, create_topic(2), tmp_path, command, ends=(10,))
    arguments = ["--bootstrap-server", world.servers, "--to-earliest", "--rows", "keep", "--yes"]
    assert without_file(world, *arguments)[0] == 0
    assert world.ends() == {0: 0}


def test_a_topic_of_the_same_name_in_another_cluster_is_refused(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path, command: Command
) -> None:
    other_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    world = World(kafka_broker.bootstrap_servers, create_topic(2), tmp_path, command, topic_id=other_id)
    code, _, err = without_file(world, "--bootstrap-server", world.servers, "--to-earliest")
    assert code == 2
    told = " ".join(err.split())
    assert f"topic {world.topic} is not the one that the pipeline has read" in told
    assert f"the ledger has {other_id}" in told


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--rows", "keep"], "name a broker"),
        (["--bootstrap-server", "{servers}", "--rows", "delete"], "no rows can be deleted: give FILE"),
        (["--bootstrap-server", "{servers}"], "add --rows keep"),
    ],
)
def test_what_a_store_alone_cannot_tell_is_asked_for(world: World, more: list[str], reason: str) -> None:
    arguments = (each.format(servers=world.servers) for each in more)
    code, _, err = without_file(world, "--to-earliest", *arguments, "--yes")
    assert code == 2
    assert reason in " ".join(err.split())
    assert world.ends() == {0: 10, 1: 3}


def test_only_what_is_chosen_is_reset(world: World) -> None:
    assert world.run("--to-earliest", "--topic", f"{world.topic}:1", "--rows", "delete", "--yes")[0] == 0
    assert world.ends() == {0: 10, 1: 0}
    assert {partition for partition, _ in world.rows()} == {0}


def test_rows_that_have_keys_are_repeated_and_not_doubled(world: World) -> None:
    world.write(sink=UPSERT)
    assert {record["effect"] for record in world.records("--to-offset", "2")} == {"repeated"}


def test_numbers_that_are_added_up_cannot_be_taken_back(world: World) -> None:
    world.write(sink=MERGE)
    for rows in ("keep", "delete"):
        code, _, err = world.run("--to-offset", "2", "--rows", rows, "--yes")
        assert code == 2
        assert "empty the table first" in err
    assert world.ends() == {0: 10, 1: 3}
    # What is skipped is added to nothing.
    assert world.run("--to-latest", "--yes")[0] == 0
    with closing(sqlite3.connect(world.folder / "flights.db")) as connection, connection:
        connection.execute("DELETE FROM flights")
    assert world.run("--to-earliest", "--yes")[0] == 0
    assert world.ends() == {0: 0, 1: 0}


def test_what_retention_has_taken_is_told_and_the_nearest_offset_taken(world: World) -> None:
    delete_records(world.servers, world.topic, 6)
    code, _, err = world.run("--to-offset", "2", "--topic", f"{world.topic}:0")
    assert code == 0
    assert (
        f"note {world.topic}-0: start offset 2 was asked for, the log starts at 6; the nearest offset is taken" in err
    )


def test_a_structured_pipeline_is_told_what_to_do_with_its_checkpoint(world: World) -> None:
    world.write(more='engine = "structured"\ncheckpoint = "state"')
    code, _, err = world.run("--to-offset", "2", "--yes")
    assert code == 0
    assert "the checkpoint state will still say where the pipeline was" in err
    assert "--from ledger --yes" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say where the pipeline is to go on by one of --to-earliest, --to-latest"),
        (["--to-earliest", "--to-latest"], "found --to-earliest and --to-latest"),
        (["--to-earliest", "--yes", "--export"], "it changes something, and --export does not"),
        (["--to-earliest", "--yes", "--dry-run"], "it changes something, and --dry-run does not"),
        (["--to-datetime", "tomorrow"], "expected a time in ISO 8601"),
        (["--to-datetime", "2026-13-01"], "expected a time in ISO 8601"),
        (["--by-duration", "long"], "expected a duration, such as 10m or PT10M"),
        (["--to-earliest", "--topic", "elsewhere"], "the pipeline does not read elsewhere-0; it reads"),
        (["--to-earliest", "--topic", "{topic}:7"], "the pipeline does not read {topic}-7"),
        (["--to-earliest", "--topic", "{topic}:one"], "expected topic or topic:0,1"),
        (["--from-file", "{folder}/none.csv"], "cannot be read"),
        (["--from-file", "{folder}/bad.csv"], "line 2 of"),
        (["--from-file", "{folder}/twice.csv"], "names t-0 a second time"),
        (["--from-file", "{folder}/empty.csv"], "names no partition"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(world: World, arguments: list[str], message: str) -> None:
    files = {"bad": "t,0,1\nt,1,-5\n", "twice": "t,0,1\nt,0,2\n", "empty": "\n"}
    for name, text in files.items():
        (world.folder / f"{name}.csv").write_text(text)
    parts = {"topic": world.topic, "folder": world.folder}
    code, _, err = world.run(*(argument.format(**parts) for argument in arguments))
    assert code == 2, err
    assert message.format(**parts) in err
    assert world.ends() == {0: 10, 1: 3}


def test_a_pipeline_that_never_ran_has_nothing_to_reset(world: World) -> None:
    (world.folder / "flights.db").unlink()
    code, _, err = world.run("--to-earliest", "--yes")
    assert code == 1
    assert "where it begins is what startingOffsets says" in err
    assert not (world.folder / "flights.db").exists()


def test_what_changes_nothing_stops_no_driver(world: World) -> None:
    code, _, err = world.run("--shift-by", "0", "--yes")
    assert code == 0
    assert "nothing is lost or doubled: the pipeline is there already" in err
    with closing(world.sink().store) as store:
        assert store.fence("flights") == 2


def test_records_of_a_partition_that_was_never_read_are_lost_as_well(world: World) -> None:
    with closing(sqlite3.connect(world.folder / "flights.db")) as connection, connection:
        (text,) = connection.execute("SELECT progress FROM directkafka_ledger").fetchone()
        only_first = [progress for progress in json.loads(text) if progress["partition"] == 0]
        connection.execute("UPDATE directkafka_ledger SET progress = ?", [json.dumps(only_first)])
    records = world.records("--to-latest")
    assert [(record["partition"], record["effect"], record["offsets"]) for record in records] == [
        (1, "lost", 5),
        (None, "lost", 5),
    ]


def test_a_topic_that_was_made_again_is_told_of_and_counts_as_a_change(world: World) -> None:
    with closing(sqlite3.connect(world.folder / "flights.db")) as connection, connection:
        (text,) = connection.execute("SELECT progress FROM directkafka_ledger").fetchone()
        progress = [each | {"topic_id": "former", "start": 0, "end": 0} for each in json.loads(text)]
        connection.execute("UPDATE directkafka_ledger SET progress = ?", [json.dumps(progress)])
    for told in ("nothing was changed; add --yes", ""):
        code, _, err = world.run("--to-earliest", *([] if told else ["--yes"]))
        assert code == 0
        assert f"topic {world.topic} was made again since the pipeline has read it" in err
        assert told in err
    code, _, err = world.run("--to-earliest", "--yes")
    assert "the pipeline is there already" in err
    assert "was made again" not in err


def test_a_half_done_reset_of_somebody_else_is_not_told_as_one_s_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found behind the fence: the other one has committed in the first of two stores meanwhile."""
    sink = f"""
[[sink]]
type = "sqlite"
path = "{world.folder}/second.db"
table = "flights"
"""
    world.write(sink=sink)
    world.commit(*world.ends().values(), database="second.db")
    fence = Ledgers.fence

    def overtaken(ledgers: Ledgers) -> None:
        monkeypatch.setattr(Ledgers, "fence", fence)
        (store, own), _ = ledgers.known()
        starts = {each.topic_partition: replace(each, start=2, end=2) for each in own.progress}
        entry = reset_entry(own, starts, RowsPolicy.KEEP)
        generation = store.store.fence("flights")
        store.store.commit(replace(entry, generation=generation), previous=own)
        fence(ledgers)

    monkeypatch.setattr(Ledgers, "fence", overtaken)
    code, _, err = world.run("--to-offset", "4", "--yes")
    assert code == 0
    assert "an earlier reset was ended between two stores" in err
    assert [set(world.ends(database).values()) for database in ("flights.db", "second.db")] == [{2}, {2}]


def test_a_partition_that_kafka_has_no_longer_is_named_and_stays(world: World) -> None:
    with closing(sqlite3.connect(world.folder / "flights.db")) as connection, connection:
        (text,) = connection.execute("SELECT progress FROM directkafka_ledger").fetchone()
        progress = json.loads(text)
        progress.append(progress[0] | {"partition": 7})
        connection.execute("UPDATE directkafka_ledger SET progress = ?", [json.dumps(progress)])
    code, _, err = world.run("--to-offset", "2", "--yes")
    assert code == 0
    assert f"note {world.topic}-7: Kafka has no such partition now; its offset is not changed" in err
    assert world.ends() == {0: 2, 1: 2, 7: 10}


def test_rows_of_others_are_not_deleted(world: World) -> None:
    with closing(sqlite3.connect(world.folder / "flights.db")) as connection, connection:
        connection.executemany("INSERT INTO flights VALUES (?, 0, ?)", [(world.topic, 5)] * 20)
    code, _, err = world.run("--to-earliest", "--rows", "delete", "--yes")
    assert code == 2
    assert "flights has 33 rows of these records, and the pipeline has written 13 in all" in err
    assert (world.ends(), len(world.rows())) == ({0: 10, 1: 3}, 33)


def test_a_table_whose_offsets_are_texts_is_refused(world: World) -> None:
    with closing(sqlite3.connect(world.folder / "flights.db")) as connection, connection:
        connection.execute("ALTER TABLE flights RENAME TO before")
        connection.execute('CREATE TABLE flights (topic TEXT, "partition" INT, "offset" TEXT)')
        connection.execute("INSERT INTO flights SELECT * FROM before")
    code, _, err = world.run("--to-earliest", "--rows", "delete", "--yes")
    assert code == 1
    assert "column offset holds no whole number" in err
    assert world.ends() == {0: 10, 1: 3}


def test_a_replay_that_is_at_work_is_fenced(world: World) -> None:
    with closing(world.sink().store) as store:
        generation = store.fence("flights.replay")
        entry = LedgerEntry(
            pipeline="flights.replay", generation=generation, lineage="r", batch_id=0, progress=(), committed_at_ms=1
        )
        committed = store.commit(entry, previous=None)
        assert world.run("--to-earliest", "--rows", "delete", "--yes")[0] == 0
        with pytest.raises(FencedError):
            store.commit(replace(entry, batch_id=1), previous=committed)


def test_a_first_replay_that_has_committed_nothing_yet_is_fenced(world: World) -> None:
    """It may be making the columns that it needs; then it plans letters of records that are read again."""
    with closing(world.sink().store) as store:
        generation = store.fence("flights.replay")
        assert world.run("--to-earliest", "--rows", "delete", "--yes")[0] == 0
        entry = LedgerEntry(
            pipeline="flights.replay", generation=generation, lineage="r", batch_id=0, progress=(), committed_at_ms=1
        )
        with pytest.raises(FencedError):
            store.commit(entry, previous=None)


def test_two_tables_of_one_name_are_told_apart(world: World) -> None:
    sink = f'[[sink]]\ntype = "sqlite"\npath = "{world.folder}/more.db"\ntable = "flights"\n'
    world.write(sink=sink)
    more = SQLiteSink(world.folder / "more.db", "flights")
    with closing(world.sink().store) as store, closing(more.store) as other:
        entry = store.read("flights")
        assert entry is not None
        other.fence("flights", generation=entry.generation)
        other.commit(replace(entry, batch_id=1), previous=None)
    records = world.records("--to-earliest")
    totals = [record for record in records if record["topic"] is None]
    assert [(total["store"].rpartition("/")[2], total["offsets"]) for total in totals] == [
        ("flights.db", 13), ("more.db", 13),
    ]  # fmt: skip
