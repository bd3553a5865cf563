"""Copies of a table by its changes, from drivers that are killed at a step, or that stand still there.

The table as it is behind each change is known. So whatever a driver leaves must be the table behind the last change
that the ledger counts, and in the end the table as it is. The events are JSON, or Avro under a registry.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.chaos.pipelines import HEAD, PipelineProcess, executor_above, wait_until_stopped_below
from tests.chaos.test_kill_at_each_step import ELSEWHERE, armed
from tests.debezium_avro import written
from tests.debezium_events import Change, random_changes
from tests.processes import running
from tests.registry_server import RegistryServer
from tests.registry_server import running as registry_running

from directkafka import Pipeline
from directkafka.fault_points import FAULT_POINTS
from directkafka.sinks.delta.store import DeltaStore
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

FENCED = 3
BATCH = 90
CHANGES = random_changes(300, 25, seed=3)
FORMS = {
    "debezium-json": 'schema = "id INT, name STRING"',
    "debezium-avro": '"registry.url" = "{registry}"',
}
FILE = (
    HEAD
    + """
[source.value]
format = "{form}"
{schema}

[transform]
{transform}

[[sink]]
{place}
mode = "upsert"
key = ["id"]
order = ["position", "offset"]
delete = "deleted"
"""
)
IN_POSTGRES = """type = "postgres"
dsn = "${{DSN}}"
table = "shop"
inline_bytes_max = {inline_bytes_max}
"""
IN_DELTA = """type = "delta"
path = "{folder}/shop"
"""
TRANSFORMS = {
    "spark": "sql = 'SELECT value.id, value.name, CAST(position AS BIGINT) AS position, offset, deleted FROM source"
    " WHERE op IS NOT NULL'",
    "native": 'arrow = "shop_job:rows"',
}
JOB = """
import pyarrow as pa
import pyarrow.compute as pc


def rows(batch):
    value = batch.column("value")
    columns = {name: pc.struct_field(value, name) for name in ("id", "name")}
    columns |= {"position": batch.column("position").cast(pa.int64()), "offset": batch.column("offset")}
    made = pa.RecordBatch.from_pydict(columns | {"deleted": batch.column("deleted")})
    return made.filter(batch.column("op").is_valid())
"""
ROW = {
    "type": "record",
    "name": "Value",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"], "default": None}],
}
KEY = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "id", "type": "int"}]}
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": "ts_ms", "type": "long"}, {"name": "lsn", "type": ["null", "long"], "default": None}],
}
EVENT = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "shop.Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
    ],
}


@dataclass
class Shop:
    """A topic of changes and a pipeline that copies them."""

    folder: Path
    dsn: str
    environment: dict[str, str]
    file: Path

    def start(self, *, faults: str = "") -> PipelineProcess:
        more = {"DIRECTKAFKA_FAULTS": faults, "DIRECTKAFKA_FAULTS_ONCE": str(self.folder / "fired")} if faults else {}
        return PipelineProcess(self.file, {**os.environ, **self.environment, **more}, self.folder)

    def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        Pipeline.from_toml(self.file).run()

    def query(self, text: str) -> list[Any]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(text).fetchall()  # type: ignore[call-overload, no-any-return]

    def table(self) -> dict[int, str]:
        there = self.query("SELECT to_regclass('shop') IS NOT NULL")[0][0]
        return dict(self.query("SELECT id, name FROM shop")) if there else {}

    def changes_done(self) -> int:
        """How many the ledger counts."""
        if not self.query("SELECT to_regclass('directkafka_ledger') IS NOT NULL")[0][0]:
            return 0
        progress = self.query("SELECT progress FROM directkafka_ledger WHERE batch_id >= 0")
        return max((int(part["end"]) for (parts,) in progress for part in parts), default=0)

    def check(self) -> int:
        done = self.changes_done()
        assert self.table() == (CHANGES[done - 1].table if done else {}), "the ledger and the table are of one moment"
        return done


class DeltaShop(Shop):
    """The copy is a Delta table, which has the ledger as well."""

    def table(self) -> dict[int, str]:
        if not DeltaTable.is_deltatable(str(self.folder / "shop")):
            return {}
        rows = DeltaTable(self.folder / "shop").to_pyarrow_table().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["name"] for row in rows}

    def changes_done(self) -> int:
        entry = DeltaStore(self.folder / "shop").read("shop")
        return 0 if entry is None else max(part.end for part in entry.progress)


def encoded(change: Change, form: str) -> tuple[bytes, bytes | None]:
    if form == "debezium-json":
        return change.key, change.value
    event = change.event
    key = b"\0\0\0\0\2" + written(KEY, {"id": change.id})
    if event is None:
        return key, None
    kept = {name: event[name] for name in ("before", "after", "op")}
    source = {"ts_ms": event["source"]["ts_ms"], "lsn": event["source"]["lsn"]}
    return key, b"\0\0\0\0\1" + written(EVENT, {**kept, "source": source})


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_running() as server:
        server.add(1, EVENT)
        server.add(2, KEY)
        yield server


@pytest.fixture
def make_shop(
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    tmp_path: Path,
    registry: RegistryServer,
    spark: SparkSession,
) -> Callable[..., Shop]:
    def make(
        form: str, carrier: str, *, inline_bytes_max: int = 0, master: str = "local[2]", kind: type[Shop] = Shop
    ) -> Shop:
        topic = create_topic(partitions=1)
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
        for change in CHANGES:
            key, value = encoded(change, form)
            producer.produce(topic, key=key, value=value)
        assert producer.flush(60) == 0
        registry.add_version(f"{topic}-value", "latest", 1, EVENT)
        (tmp_path / "shop_job.py").write_text(JOB)
        file = tmp_path / "shop.toml"
        output_template = IN_POSTGRES if kind is Shop else IN_DELTA
        file.write_text(
            FILE.format(
                name="shop", trigger="available-now", master=master, folder=tmp_path, topic=topic, batch=BATCH,
                form=form, schema=FORMS[form].format(registry=registry.url), transform=TRANSFORMS[carrier],
                place=output_template.format(inline_bytes_max=inline_bytes_max, folder=tmp_path),
            )
        )  # fmt: skip
        environment = {"KAFKA": kafka_broker.bootstrap_servers, "DSN": database}
        return kind(folder=tmp_path, dsn=database, environment=environment, file=file)

    return make


POINTS = [point for point in FAULT_POINTS if point not in ELSEWHERE]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("form", "carrier"), [("debezium-json", "native"), ("debezium-avro", "spark"), ("debezium-avro", "native")]
)
def test_a_driver_killed_at_a_step_leaves_the_table_of_one_moment(
    form: str, carrier: str, point: str, make_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = make_shop(form, carrier, inline_bytes_max=0 if point.startswith("commit.") else 1 << 24)
    with running(shop.start(faults=armed(point))) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    assert shop.check() < len(CHANGES), "the kill came after the end, so it proved nothing"
    shop.run(monkeypatch)
    assert shop.check() == len(CHANGES)


#: Of a Delta table the fence, the columns and batch 0 come first.
IN_THE_LOG = ["batch.written@2", "commit.rows_moved@3", "log.entry_written@3", "log.slot_taken@3", "commit.answered@3"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("point", IN_THE_LOG)
def test_a_delta_table_is_of_one_moment_wherever_its_driver_was_killed(
    form: str, point: str, make_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = make_shop(form, "native", kind=DeltaShop)
    with running(shop.start(faults=f"{point}=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    assert shop.check() < len(CHANGES), "the kill came after the end, so it proved nothing"
    shop.run(monkeypatch)
    assert shop.check() == len(CHANGES)


@pytest.mark.parametrize("point", ["batch.written@2", "log.entry_written@3"])
def test_a_delta_table_takes_nothing_of_a_driver_that_stood_still(
    point: str, make_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = make_shop("debezium-json", "native", kind=DeltaShop)
    with running(shop.start(faults=f"{point}=stop")) as older:
        older.wait_until_stopped()
        shop.run(monkeypatch)
        assert shop.check() == len(CHANGES)
        older.go_on()
        assert older.wait() == FENCED, older.messages()
    assert shop.check() == len(CHANGES)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("point", ["batch.written", "commit.begun", "commit.rows_moved"])
def test_a_driver_that_stood_still_lands_nothing_after_a_newer_one(
    form: str, point: str, make_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = make_shop(form, "native")
    with running(shop.start(faults=armed(point).replace("=kill", "=stop"))) as older:
        older.wait_until_stopped()
        shop.run(monkeypatch)
        assert shop.check() == len(CHANGES)
        older.go_on()
        assert older.wait() == FENCED, older.messages()
    assert shop.check() == len(CHANGES)


@pytest.mark.parametrize("form", FORMS)
def test_a_worker_killed_after_it_staged_its_changes_costs_a_batch_and_no_change(
    form: str, make_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = make_shop(form, "native")
    with running(shop.start(faults="task.staged@1=kill")) as driver:
        assert driver.wait() == 0, driver.messages()
    assert (shop.folder / "fired").exists(), "no worker was killed"
    assert shop.check() == len(CHANGES)


@pytest.mark.parametrize("form", FORMS)
def test_an_executor_that_is_lost_while_it_writes_changes_costs_an_attempt_and_no_change(
    form: str, make_shop: Callable[..., Shop]
) -> None:
    shop = make_shop(form, "native", master="local-cluster[2,1,1024]")
    with running(shop.start(faults="task.staged@1=stop")) as driver:
        worker = wait_until_stopped_below(driver.process.pid)
        executor = executor_above(worker)
        executor.kill()
        # Its daemon may have ended it: that goes with the executor.
        with suppress(psutil.NoSuchProcess):
            worker.resume()
        assert driver.wait() == 0, driver.messages()
    assert shop.check() == len(CHANGES)
