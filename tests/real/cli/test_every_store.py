"""The commands of operators on every kind of store, by its URL alone: no pipeline file, no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.real.cli.conftest import Command
from tests.real.kafka.logs import produce

from directkafka import DeltaSink
from directkafka.errors import FencedError
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.network.client import KafkaClient
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.registry import store_at
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import SCHEMA, Job, seen_soon

pytestmark = pytest.mark.real

#: Other tests of commands have the databases; these two have ledgers of another kind.
QUICK = ("files", "kafka")
STORES = (*QUICK, "postgres", "mysql", "sqlite", "duckdb", "delta")
RECORDS, READ = 10, 4


@pytest.fixture(params=[pytest.param(store, marks=[] if store in QUICK else [pytest.mark.slow]) for store in STORES])
def url(request: pytest.FixtureRequest, tmp_path: Path, kafka_broker: KafkaBroker) -> str:
    """A store's URL; only the server that it names is started."""
    match request.param:
        case "postgres":
            return str(request.getfixturevalue("database"))
        case "mysql":
            return str(request.getfixturevalue("mysql_database"))
        case "kafka":
            return f"kafka://{kafka_broker.bootstrap_servers}"
        case "delta":
            # Its ledger lies in a table's log.
            DeltaSink(tmp_path / "store").prepare(SCHEMA)
    return f"{request.param}:{tmp_path / 'store'}"


class Pipeline:
    """One that has read some records of a topic, under the name of the topic."""

    def __init__(self, url: str, servers: str, topic: str, command: Command) -> None:
        self.url, self.servers, self.topic, self._command = url, servers, topic, command
        produce(servers, topic, [b"v"] * RECORDS)
        with closing(KafkaClient(ClientOptions(bootstrap_servers=tuple(servers.split(","))))) as client:
            topic_id = AdminClient(client).topics([topic])[topic].topic_id
        self.job = Job(store_at(url), pipeline=topic).start()
        first = replace(self.job.next_entry(), progress=(PartitionProgress.at(TopicPartition(topic, 0), 0),))
        self.job.last = self.job.store.commit(first, previous=None)
        partition_progress = PartitionProgress(
            topic=topic, partition=0, topic_id=topic_id, start=0, end=READ, leader_epoch=0, origin=0
        )
        entry = replace(self.job.next_entry(), progress=(partition_progress,))
        self.job.last = self.job.store.commit(entry, previous=self.job.last)

    def run(self, name: str, *arguments: str) -> list[dict[str, object]]:
        """What a command tells, in JSON; it must end well."""
        of_kafka = ("--bootstrap-server", self.servers) if name in ("offsets", "lag", "reset") else ()
        code, out, err = self._command(name, "--store", self.url, "--pipeline", self.topic, *of_kafka, *arguments)
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def listed(self) -> list[dict[str, object]]:
        code, out, err = self._command("list", "--store", self.url, "--format", "json")
        assert code == 0, err
        return [record for record in map(json.loads, out.splitlines()) if record["pipeline"] == self.topic]

    def current(self) -> list[object]:
        return [record["current"] for record in self.run("offsets", "--format", "json")]

    def entry(self) -> LedgerEntry | None:
        """What another driver would find."""
        with closing(store_at(self.url)) as store:
            return store.read(self.topic)


@pytest.fixture
def pipeline(
    url: str, kafka_broker: KafkaBroker, create_topic: Callable[..., str], command: Command
) -> Iterator[Pipeline]:
    made = Pipeline(url, kafka_broker.bootstrap_servers, create_topic(1), command)
    assert seen_soon(made.entry, made.job.last) == made.job.last
    yield made
    made.job.store.close()


def test_offsets_and_lag_are_told(pipeline: Pipeline) -> None:
    [offsets] = pipeline.run("offsets", "--format", "json")
    assert [offsets[name] for name in ("topic", "partition", "earliest", "current", "end", "lag")] == [
        pipeline.topic, 0, 0, READ, RECORDS, RECORDS - READ,
    ]  # fmt: skip
    [lag] = pipeline.run("lag", "--format", "json")
    assert lag["lag"] == RECORDS - READ
    assert [record["pipeline"] for record in pipeline.listed()] == [pipeline.topic]


def test_a_pause_holds_until_it_is_taken_back(pipeline: Pipeline) -> None:
    for name, paused in (("pause", True), ("resume", False)):
        pipeline.run(name)
        assert seen_soon(lambda: [record["paused"] for record in pipeline.listed()], [paused]) == [paused]


def test_a_reset_goes_back_and_fences_the_driver(pipeline: Pipeline) -> None:
    pipeline.run("reset", "--to-offset", "1", "--format", "json")
    assert pipeline.current() == [READ]
    pipeline.run("reset", "--to-offset", "1", "--rows", "keep", "--yes")
    assert seen_soon(pipeline.current, [1]) == [1]
    with pytest.raises(FencedError):
        pipeline.job.run()


def test_what_is_dropped_is_listed_no_more_and_begins_anew(pipeline: Pipeline) -> None:
    pipeline.run("drop", "--yes")
    assert seen_soon(pipeline.entry, None) is None
    assert pipeline.listed() == []
    with pytest.raises(FencedError):
        pipeline.job.run()
