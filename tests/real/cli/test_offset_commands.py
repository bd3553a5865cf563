"""Offsets, lag and topics of a pipeline as commands, against a real broker and a real ledger; Spark never starts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.real.cli.conftest import Command, Outcome
from tests.real.kafka.logs import delete_records, delete_topic
from tests.waiting import WAIT_S

from directkafka import SQLiteSink
from directkafka.offsets import Earliest, OffsetRange, PartitionProgress, Positions, TopicPartition
from directkafka.operations import offsets
from directkafka.options.source import SourceOptions
from directkafka.sinks.api import LedgerEntry
from directkafka.spark.source_cluster import SourceCluster
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

FILE = """
[pipeline]
name = "flights"
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "{starting}"
[[sink]]
type = "sqlite"
path = "{database}"
table = "flights"
"""

PROGRAM = """
import sys
from directkafka.cli import main
for command, *options in map(str.split, sys.argv[1:]):
    sys.argv = ["directkafka", command, "flights.toml", *options]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
print("pyspark" in sys.modules)
"""


class World:
    """A topic of three partitions with ten, five and no records, each a minute old, and a pipeline that reads it."""

    def __init__(self, servers: str, topic: str, folder: Path, command: Command) -> None:
        self.servers, self.topic, self.folder, self.command = servers, topic, folder, command
        self.produced_ms = int(time.time() * 1000) - 60_000
        producer = Producer({"bootstrap.servers": servers})
        for partition, count in enumerate((10, 5)):
            for number in range(count):
                producer.produce(topic, b"v", partition=partition, timestamp=self.produced_ms + number * 1000)
        assert producer.flush(WAIT_S) == 0
        self.write("earliest")

    def write(self, starting: str) -> None:
        database = self.folder / "flights.db"
        text = FILE.format(kafka=self.servers, topic=self.topic, starting=starting, database=database)
        (self.folder / "flights.toml").write_text(text)

    def commit(self, *ends: int) -> None:
        """Put a batch into the ledger that ends there."""
        store = SQLiteSink(self.folder / "flights.db", "flights").store
        with closing(store):
            generation = store.fence("flights")
            progress = tuple(
                PartitionProgress.at(TopicPartition(self.topic, partition), end) for partition, end in enumerate(ends)
            )
            entry = LedgerEntry(
                pipeline="flights", generation=generation, lineage="a", batch_id=0, progress=progress, committed_at_ms=1
            )
            store.commit(entry, previous=None)

    def run(self, name: str, *arguments: str) -> Outcome:
        return self.command(name, str(self.folder / "flights.toml"), *arguments)

    def records(self, name: str, *arguments: str) -> list[dict[str, object]]:
        code, out, err = self.run(name, "--format", "json", *arguments)
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]


def without_age(record: dict[str, object]) -> dict[str, object]:
    """All that is the same at two moments."""
    return {name: value for name, value in record.items() if name != "lag_seconds"}


@pytest.fixture
def world(kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path, command: Command) -> World:
    return World(kafka_broker.bootstrap_servers, create_topic(3), tmp_path, command)


def test_offsets_are_the_ledger_s_beside_those_of_kafka(world: World) -> None:
    world.commit(4, 5, 0)
    records = world.records("offsets")
    ages_s = [record.pop("lag_seconds") for record in records]
    assert records == [
        {"topic": world.topic, "partition": 0, "earliest": 0, "current": 4, "end": 10, "lag": 6},
        {"topic": world.topic, "partition": 1, "earliest": 0, "current": 5, "end": 5, "lag": 0},
        {"topic": world.topic, "partition": 2, "earliest": 0, "current": 0, "end": 0, "lag": 0},
    ]
    # The fifth record was stamped 56 s before now, or a little more.
    assert 56 <= ages_s[0] < 56 + WAIT_S  # type: ignore[operator]
    assert ages_s[1:] == [0.0, 0.0]


def test_a_table_has_the_heads_of_kafka_s_own_tool(world: World) -> None:
    world.commit(4, 5, 0)
    _, out, _ = world.run("offsets")
    heads = next(line for line in out.splitlines() if "TOPIC" in line)
    assert heads.replace("┃", " ").split() == ["TOPIC", "PARTITION", "EARLIEST", "CURRENT", "END", "LAG", "LAG_SECONDS"]


@pytest.mark.parametrize(("starting", "lags"), [("earliest", [10, 5, 0]), ("latest", [0, 0, 0])])
def test_a_pipeline_that_has_not_run_is_behind_from_where_it_would_start(
    world: World, starting: str, lags: list[int]
) -> None:
    world.write(starting)
    records = world.records("offsets")
    assert [record["lag"] for record in records] == lags
    assert {record["current"] for record in records} == {None}
    # Nothing is made by looking.
    assert not (world.folder / "flights.db").exists()


def test_a_partition_that_is_new_to_the_pipeline_is_unread_from_its_beginning(world: World) -> None:
    world.commit(10)
    assert [(record["current"], record["lag"]) for record in world.records("offsets")] == [
        (10, 0),
        (None, 5),
        (None, 0),
    ]


def test_what_retention_has_taken_from_an_unread_part_counts_as_lag(world: World) -> None:
    world.commit(2, 5, 0)
    delete_records(world.servers, world.topic, 6)
    first = world.records("offsets")[0]
    assert (first["earliest"], first["current"], first["end"], first["lag"]) == (6, 2, 10, 8)
    # The record at 6 is the first that is there.
    assert 54 <= first["lag_seconds"] < 54 + WAIT_S  # type: ignore[operator]


def test_retention_that_comes_between_two_questions_is_no_failure(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    class Overtaken(SourceCluster):
        def first_timestamps(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int | None]:
            looks.append(len(looks))
            if len(looks) == 1:
                delete_records(world.servers, world.topic, 6)
            return super().first_timestamps(ranges)

    monkeypatch.setattr(offsets, "SourceCluster", Overtaken)
    source = SourceOptions.parse({"kafka.bootstrap.servers": world.servers, "subscribe": world.topic}, streaming=True)
    positions = offsets.look_at_offsets("flights", replace(source, starting=Positions(default=Earliest())), [])
    assert (len(looks), positions[0].earliest, positions[0].lag) == (2, 6, 4)
    assert positions[0].lag_seconds is not None
    assert 54 <= positions[0].lag_seconds < 54 + WAIT_S


def test_a_limit_that_is_passed_is_told_with_its_partition_and_ends_with_one(world: World) -> None:
    world.commit(4, 3, 0)
    code, _, err = world.run("lag", "--max", "5")
    assert code == 1
    assert f"{world.topic}-0 is 6 offsets behind" in err
    assert f"{world.topic}-1" not in err
    assert world.run("lag", "--max", "6")[0] == 0
    assert world.run("lag", "--max-seconds", "30")[0] == 1
    assert world.run("lag", "--max-seconds", "3600")[0] == 0


def test_the_partition_that_is_furthest_behind_comes_first(world: World) -> None:
    world.commit(9, 0, 0)
    assert [record["partition"] for record in world.records("lag")] == [1, 0, 2]


def test_a_watch_ends_when_a_limit_is_passed(world: World) -> None:
    world.commit(10, 5, 0)
    line = [sys.executable, "-m", "directkafka", "lag", "flights.toml", "--max", "0", "--watch", "100ms"]
    with subprocess.Popen(line, cwd=world.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        assert run.stdout is not None
        assert "Lag of flights" in run.stdout.readline()
        producer = Producer({"bootstrap.servers": world.servers})
        producer.produce(world.topic, b"v", partition=2)
        assert producer.flush(WAIT_S) == 0
        run.stdout.read()
        assert run.wait(WAIT_S) == 1


def test_topics_are_counted(world: World) -> None:
    world.commit(4, 5, 0)
    assert world.records("topics") == [{"topic": world.topic, "partitions": 3, "offsets": 15, "lag": 6}]


def test_a_store_and_a_name_say_as_much_as_the_file(world: World) -> None:
    world.commit(4, 5, 0)
    named = ("--store", f"sqlite:{world.folder / 'flights.db'}", "--pipeline", "flights")
    for command in ("offsets", "lag", "topics"):
        code, out, err = world.command(command, *named, "--bootstrap-server", world.servers, "--format", "json")
        assert (code, err) == (0, "")
        assert [without_age(json.loads(line)) for line in out.splitlines()] == [
            without_age(record) for record in world.records(command)
        ]


def test_a_limit_that_cannot_be_looked_at_is_refused(world: World) -> None:
    world.commit(4, 5, 0)
    named = ("--store", f"sqlite:{world.folder / 'flights.db'}", "--pipeline", "flights")
    for limit in (("--max", "1000"), ("--max-seconds", "60")):
        code, _, err = world.command("lag", *named, *limit)
        assert code == 2
        assert "without it no lag is known" in err
    assert world.command("lag", *named)[0] == 0


def test_a_topic_that_is_gone_is_above_every_limit_if_the_pipeline_names_it(world: World) -> None:
    world.commit(4, 5, 0)
    delete_topic(world.servers, world.topic)
    assert world.run("lag")[0] == 0
    code, _, err = world.run("lag", "--max", "1000")
    assert code == 1
    assert re.search(rf"not in Kafka:\s+{world.topic}-0, which", err)
    named = ("--store", f"sqlite:{world.folder / 'flights.db'}", "--pipeline", "flights")
    assert world.command("lag", *named, "--bootstrap-server", world.servers, "--max", "1000")[0] == 0
    file = world.folder / "flights.toml"
    file.write_text(file.read_text().replace("subscribe =", "subscribePattern ="))
    assert world.run("lag", "--max", "1000")[0] == 0


def test_a_watch_without_a_pause_is_refused(world: World) -> None:
    code, _, err = world.run("lag", "--watch", "0s")
    assert code == 2
    assert "expected 0.1 s or more, found 0s" in err


def test_a_topic_that_the_file_names_and_kafka_never_had_is_told(world: World) -> None:
    world.commit(10, 5, 0)
    file = world.folder / "flights.toml"
    file.write_text(re.sub(r'subscribe = "([^"]+)"', r'subscribe = "\1,no-such-topic"', file.read_text()))
    assert world.run("lag")[0] == 0
    code, _, err = world.run("lag", "--max", "0")
    assert code == 1
    assert re.search(r"not in Kafka:\s+no-such-topic, which .*flights.toml names", err, re.DOTALL)


def test_what_is_committed_while_kafka_is_asked_is_no_lag(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = SourceCluster.snapshot

    def slow(cluster: SourceCluster, **options: Any) -> Any:
        world.commit(10, 5, 0)
        return snapshot(cluster, **options)

    monkeypatch.setattr(SourceCluster, "snapshot", slow)
    assert [record["lag"] for record in world.records("offsets")] == [0, 0, 0]


def test_without_brokers_a_ledger_says_how_far_it_is(world: World) -> None:
    world.commit(4, 5, 0)
    named = ("--store", f"sqlite:{world.folder / 'flights.db'}", "--pipeline", "flights")
    code, out, _ = world.command("offsets", *named, "--format", "json")
    unknown = dict.fromkeys(("earliest", "end", "lag", "lag_seconds"))
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"topic": world.topic, "partition": partition, "current": current, **unknown}
        for partition, current in enumerate((4, 5, 0))
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a pipeline file, or --store URL and --pipeline NAME"),
        (["flights.toml", "--pipeline", "flights"], "give FILE, or --store and --pipeline, not both"),
        (["--store", "sqlite:{folder}/flights.db"], "name a pipeline file, or --store"),
        (["--store", "sqlite:{folder}/flights.db", "--pipeline", "fligths"], "did you mean 'flights'"),
        (["--store", "sqlite:{folder}/not-there.db", "--pipeline", "flights"], "it has none"),
        (["--store", "oracle:x", "--pipeline", "flights"], "'oracle' is none of its schemes: postgresql,"),
    ],
)
def test_what_names_no_pipeline_is_refused(world: World, arguments: list[str], message: str) -> None:
    world.commit(4, 5, 0)
    code, _, err = world.command("offsets", *(argument.format(folder=world.folder) for argument in arguments))
    assert code == 2
    assert message in err
    assert not (world.folder / "not-there.db").exists()


def test_pipelines_of_a_store_are_listed_without_their_replays(world: World) -> None:
    world.commit(4, 5, 0)
    store = SQLiteSink(world.folder / "flights.db", "flights").store
    with closing(store):
        entry = store.read("flights")
        assert entry is not None
        store.fence("flights.replay")
        store.commit(replace(entry, pipeline="flights.replay", generation=1), previous=None)
    code, out, err = world.command("list", "--store", f"sqlite:{world.folder / 'flights.db'}", "--format", "json")
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "pipeline": "flights", "generation": 1, "batch_id": 0, "partitions": 3, "rows": 0, "paused": False,
            "committed_at": "1970-01-01T00:00:00+00:00",
        }
    ]  # fmt: skip


def test_a_store_without_pipelines_says_so(world: World) -> None:
    code, out, err = world.command("list", "--store", f"sqlite:{world.folder / 'nothing.db'}")
    assert (code, out.strip()) == (0, "")
    assert "no pipeline has committed to sqlite/" in err
    assert not (world.folder / "nothing.db").exists()


def test_who_cannot_look_says_why_and_ends_with_one(world: World) -> None:
    path = world.folder / "flights.toml"
    quick = '[source]\n"fetchOffset.numRetries" = 1\n"kafka.socket.connection.setup.timeout.ms" = 500\n'
    path.write_text(path.read_text().replace(world.servers, "127.0.0.1:1").replace("[source]\n", quick))
    code, _, err = world.run("lag", "--max", "5")
    assert code == 1
    assert err.startswith("error no Kafka broker")
    assert "Traceback" not in err


def test_no_command_about_offsets_loads_spark(world: World) -> None:
    world.commit(4, 5, 0)
    commands = ["offsets", "lag", "topics", "reset --to-latest", "pause", "resume", "reset --to-earliest --yes", "drop"]
    line = [sys.executable, "-c", PROGRAM, *commands]
    done = subprocess.run(line, cwd=world.folder, capture_output=True, text=True, timeout=WAIT_S, check=True)
    for title in ("Offsets", "Lag", "Topics", "Ledgers"):
        assert done.stdout.count(f"{title} of flights") == 1
    # The second one goes back to where the pipeline has never been: there is nothing to tell.
    assert done.stdout.count("Reset of flights") == 1
    assert "no table loses or doubles anything" in done.stderr
    assert done.stdout.endswith("False\n")
