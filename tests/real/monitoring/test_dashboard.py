"""The page's server over real pipelines: what it observes, shows and changes is what the stores and Kafka have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Producer
from tests.hostile import HOSTILE, assert_harmless
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.test_replay import EVERY_TENTH, ROUND
from tests.waiting import WAIT_S, until

from directkafka import DuckDBSink, Pipeline, PostgresSink, SQLiteSink
from directkafka.monitoring.address import Address
from directkafka.monitoring.dashboard.conditions import Condition, Limits, condition_of
from directkafka.monitoring.dashboard.details import Details
from directkafka.monitoring.dashboard.observers import LedgerObserver
from directkafka.monitoring.http_server import HttpServer
from directkafka.operations.offsets import look_at_offsets
from directkafka.pipeline.ledger.pause import set_paused
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

TOKEN = "a-token-of-the-test"

FILE = """
[pipeline]
name = "numbers"
trigger = "available-now"
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "earliest"
[transform]
sql = {sql}
[[sink]]
type = "{kind}"
path = "{folder}/rows.db"
table = "records"
[dead_letters]
type = "{kind}"
path = "{folder}/rows.db"
table = "rejected"
"""


class Page:
    """What a browser asks for."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server

    def get(self, path: str, **asked: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._answer(Request(f"{self._address}/api/{path}?{urlencode(asked)}"))
        return answer

    def post(self, path: str, **asked: str) -> dict[str, Any]:
        headers = {
            "content-type": "application/json", "authorization": f"Bearer {TOKEN}", "origin": self._address,
        }  # fmt: skip
        answer: dict[str, Any] = self._answer(
            Request(f"{self._address}/api/{path}", data=json.dumps(asked).encode(), headers=headers)
        )
        return answer

    def condition(self, name: str = "numbers") -> str | None:
        conditions = {each["name"]: each["condition"] for each in self.get("pipelines")["pipelines"]}
        return conditions.get(name)

    @property
    def _address(self) -> str:
        return f"http://{self.server.address}"

    @staticmethod
    def _answer(request: Request) -> Any:
        try:
            with urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except HTTPError as error:
            return json.load(error) | {"status": error.code}


@pytest.fixture
def page() -> Iterator[Page]:
    with HttpServer(Address(host="127.0.0.1", port=0), stalled_after_s=600, every_s=0.2, token=TOKEN) as server:
        yield Page(server)


@pytest.mark.slow
def test_a_pipeline_of_this_process_is_shown_with_its_batches_and_dead_letters(world: World, page: Page) -> None:
    pipeline = world.pipeline(EVERY_TENTH, dead_letters=PostgresSink(world.dsn, "rejected"))
    pipeline.run()
    until(lambda: page.condition() == "ended", "its end is not seen")
    until(lambda: page.get("pipeline", name="numbers")["lag"] == 0, "Kafka is not looked at after the last batch")
    details = page.get("pipeline", name="numbers")
    assert (details["partitions"], details["generation"]) == (3, 1)
    assert details["batch_id"] == world.batch_id()
    assert details["dead_letters"] == len(ROUND)
    assert sum(batch["records"] for batch in details["batches"]) == COUNT
    assert all(batch["write_ms"] > 0 for batch in details["batches"])
    letters = page.get("dead-letters", name="numbers", reason="10 is round")
    assert (letters["count"], len(letters["reasons"])) == (len(ROUND), len(ROUND))
    (letter,) = letters["letters"]
    known = world.query("SELECT topic, partition, \"offset\", reason FROM rejected WHERE reason = '10 is round'")
    assert [(letter["topic"], letter["partition"], letter["offset"], letter["reason"])] == known
    assert (letter["value"], letter["byte_count"]) == ("10", 2)
    assert letter["timestamp_ms"] > 0


def test_what_a_reset_would_do_is_shown_and_then_done(world: World, page: Page) -> None:
    world.pipeline().run()
    until(lambda: page.condition() == "ended", "its end is not seen")
    asked = {"name": "numbers", "to": "earliest", "rows": "delete"}
    plan = page.get("reset", **asked)
    assert plan["changes_something"] is True
    (total,) = plan["totals"]
    assert (total["sink"], total["effect"], total["offsets"], total["rows"]) == ("records", "deleted", COUNT, COUNT)
    assert len(plan["effects"]) == 3
    assert world.numbers() == list(range(COUNT)), "looking changes nothing"
    assert page.post("reset", **asked)["changes_something"] is True
    assert world.numbers() == []
    world.pipeline().run()
    assert world.numbers() == list(range(COUNT))


@pytest.mark.slow
def test_a_pause_by_the_page_holds_a_running_pipeline(world: World, page: Page) -> None:
    pipeline = world.pipeline(trigger="100ms")
    pipeline.start()
    try:
        until(lambda: page.condition() == "caught up", "it is not seen")
        assert page.post("pause", name="numbers", paused="true") == {"changed": True}
        until(lambda: page.condition() == "paused", "its pause is not seen")
        assert page.post("pause", name="numbers", paused="false") == {"changed": True}
        until(lambda: page.condition() == "caught up", "it does not go on")
    finally:
        pipeline.stop()
    events = [event["text"] for event in page.get("pipeline", name="numbers")["events"]]
    assert events.index("resumed") < events.index("paused"), "the newest comes first"


def test_a_pipeline_that_nobody_knows_has_no_details(page: Page) -> None:
    assert page.get("pipeline", name="others")["status"] == 404
    assert page.get("dead-letters", name="others")["status"] == 404
    assert page.get("reset", name="others", to="earliest")["status"] == 404


@pytest.fixture(params=["sqlite", pytest.param("duckdb", marks=pytest.mark.slow)])
def file(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Path:
    path = tmp_path / "numbers.toml"
    sql = json.dumps(EVERY_TENTH)
    path.write_text(FILE.format(kafka=world.kafka, topic=world.topic, sql=sql, kind=request.param, folder=tmp_path))
    return path


def test_a_pipeline_of_a_file_is_observed_by_its_ledger_and_kafka(file: Path, world: World) -> None:
    with closing(LedgerObserver("numbers", file)) as observer:
        before = observer.observe()
        assert condition_of(before, Limits(stalled_after_s=600))[0] is Condition.NEVER_RAN
        assert before.lag() == COUNT
        pipeline = Pipeline.from_toml(file)
        pipeline.run()
        after = observer.observe()
        assert condition_of(after, Limits(stalled_after_s=600))[0] is Condition.CAUGHT_UP
        assert (after.rows, after.dead_letters, after.generation) == (COUNT, len(ROUND), 1)
        assert (before.lineage, after.lineage is not None) == (None, True)
        stores = [route.sink.store for route in pipeline.routes]
        sink = (SQLiteSink if "sqlite" in file.read_text() else DuckDBSink)(file.parent / "rows.db", "records")
        assert look_at_offsets("numbers", pipeline.source_options, [sink.store]) == after.positions
        set_paused([sink.store], "numbers", is_paused=True)
        assert observer.observe().is_paused
        set_paused([sink.store], "numbers", is_paused=False)
        for store in [*stores, sink.store]:
            store.close()
    letters = Details({"numbers": file}).dead_letters("numbers", reason="10 is round")
    assert [letter["value"] for letter in letters["letters"]] == ["10"]


def test_a_file_whose_kafka_is_gone_is_unknown_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "numbers.toml"
    text = FILE.format(kafka="127.0.0.1:1", topic="t", sql='"SELECT 1"', kind="sqlite", folder=tmp_path)
    impatient = '[source]\n"fetchOffset.numRetries" = 1\n"kafka.socket.connection.setup.timeout.ms" = 500\n'
    path.write_text(text.replace("[source]\n", impatient))
    with closing(LedgerObserver("numbers", path)) as observer:
        observation = observer.observe()
    assert observation.error is not None
    assert "BrokerUnreachableError" in observation.error


def test_hostile_records_reach_the_page_as_text_that_does_nothing(
    world: World, kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = create_topic(1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "message.max.bytes": 2_000_000})
    values = [*(text.encode(errors="surrogatepass") for text in HOSTILE.values()), b"\xff\xfe\x00\xc3"]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    sql = "SELECT topic, partition, offset, string(value) AS dead_letter_reason FROM source"
    path = tmp_path / "numbers.toml"
    path.write_text(FILE.format(kafka=world.kafka, topic=topic, sql=json.dumps(sql), kind="sqlite", folder=tmp_path))
    Pipeline.from_toml(path).run()
    dead_letters = Details({"numbers": path}).dead_letters("numbers")
    assert dead_letters["count"] == len(values)
    assert len(dead_letters["letters"]) == len(values)
    for letter in dead_letters["letters"]:
        assert_harmless(letter["reason"])
        assert_harmless(letter["value"])
    for reason in dead_letters["reasons"]:
        assert_harmless(reason["reason"])
    assert len(json.dumps(dead_letters)) < 300_000
