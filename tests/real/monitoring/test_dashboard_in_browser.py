"""The page in a real browser: what it shows of a pipeline, on a phone, in the dark, by keyboard; of hostile records."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer
from selenium.webdriver.common.keys import Keys
from tests.hostile import HOSTILE
from tests.real.monitoring.browser import Browser, chromium
from tests.real.monitoring.drivers import Driver, Records
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.test_replay import EVERY_TENTH, ROUND
from tests.topics import make_topic
from tests.waiting import WAIT_S, until

from directkafka import PostgresSink
from directkafka.monitoring.address import Address
from directkafka.monitoring.http import serve_dashboard
from directkafka.monitoring.http_server import HttpServer
from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

TOKEN = "a-token-of-the-test"

#: Less than this is what Chrome's makers call good, by far: 0.1.
SHIFT_MAX = 0.02


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as started_browser:
        yield started_browser


@pytest.fixture
def page() -> Iterator[str]:
    with HttpServer(Address(host="127.0.0.1", port=0), stalled_after_s=600, every_s=0.5, token=TOKEN) as server:
        yield f"http://{server.address}/"


def test_a_phone_in_the_dark_shows_a_pipeline_and_keys_lead_everywhere(
    browser: Browser, world: World, page: str
) -> None:
    world.pipeline(EVERY_TENTH, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    browser.open(f"{page}#pipeline=numbers", width=390, height=844, is_dark=True)
    browser.shows("#badge", "ended")
    browser.shows("#tile-lag", "0")
    browser.shows("#batches-told", "Batch")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert max(map(int, ground.removeprefix("rgb(").removesuffix(")").split(","))) < 60, ground
    assert len(browser.run("return [...document.querySelectorAll('#batches li')].map((bar) => bar.title)")) > 1

    assert browser.press(Keys.TAB).text == "Skip to the chosen pipeline"
    focused = browser.press_until("#pipelines tbody tr[data-name=numbers] button")
    assert browser.run("return getComputedStyle(arguments[0]).outlineStyle", focused) == "solid", "focus is not seen"
    browser.press(Keys.ENTER)
    assert browser.driver.switch_to.active_element == browser.find("#detail")
    browser.press_until("#letters summary")
    browser.press(Keys.ENTER)
    browser.shows("#letters-note", f"{len(ROUND)} dead letters")
    assert len(browser.driver.find_elements("css selector", "#letters-table tbody tr")) == len(ROUND)
    browser.press_until("#reset summary")
    browser.press(Keys.ENTER)
    browser.press_until("#reset-form button[type=submit]")
    browser.press(Keys.ENTER)
    browser.shows("#effects", f"{COUNT}")
    assert "doubled" in browser.text("#effects")
    browser.shows("#reset-told", "Nothing is changed yet.")
    assert not browser.find("#reset-now").is_displayed(), "without the token there is no button"

    shifted, shifts = browser.shift()
    assert shifted < SHIFT_MAX, shifts
    assert browser.complaints() == []
    loaded = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(loaded) > 4
    assert all(name.startswith(page) for name in loaded), loaded


def test_records_that_are_markup_are_shown_as_they_are(
    browser: Browser, world: World, page: str, kafka_broker: KafkaBroker, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "message.max.bytes": 2_000_000})
    markup = "<img src=x onerror='document.title=1'><script>document.title=2</script><b>bold</b>"
    for value in [markup, *HOSTILE.values()]:
        producer.produce(topic, value.encode(errors="surrogatepass"))
    assert producer.flush(WAIT_S) == 0
    sql = "SELECT topic, partition, offset, string(value) AS dead_letter_reason FROM source"
    world.pipeline(
        sql, name="hostile", dead_letters=PostgresSink(world.dsn, "rejected_2"), source={"subscribe": topic}
    ).run()
    browser.open(f"{page}#pipeline=hostile")
    browser.shows("#badge", "ended")
    browser.find("#letters summary").click()
    browser.shows("#letters-note", f"{len(HOSTILE) + 1} dead letters")
    assert markup in browser.text("#letters-table tbody tr")
    made = "return document.querySelectorAll('main img, main script, main b, main a[href^=http]').length"
    assert browser.run(made) == 0
    assert browser.driver.title == "directkafka"
    assert browser.complaints() == []


FILE = """
[pipeline]
name = "flights"
trigger = "500ms"
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 2000
[transform]
sql = {sql}
[[sink]]
type = "postgres"
dsn = "{dsn}"
table = "records"
[dead_letters]
type = "postgres"
dsn = "{dsn}"
table = "rejected"
[spark]
master = "local[1]"
conf."spark.ui.enabled" = "false"
conf."spark.driver.bindAddress" = "127.0.0.1"
conf."spark.driver.host" = "127.0.0.1"
conf."spark.local.dir" = "{folder}/local"
conf."spark.sql.warehouse.dir" = "{folder}/warehouse"
"""

SQL = (
    "SELECT topic, partition, offset, try_cast(CAST(value AS STRING) AS BIGINT) AS number, CASE WHEN "
    "try_cast(CAST(value AS STRING) AS BIGINT) IS NULL THEN 'no number' END AS dead_letter_reason FROM source"
)


def reset_by_the_page(browser: Browser) -> None:
    """Open the dead letters, look at what a reset to the beginning would do, and do it."""
    browser.find("#letters summary").click()
    browser.shows("#reasons", "no number")
    browser.find("#reset summary").click()
    browser.find("#reset-form [name=rows] option[value=delete]").click()
    browser.find("#reset-form button[type=submit]").click()
    browser.shows("#effects", "deleted")
    browser.shows("#reset-told", "Nothing is changed yet.")
    browser.run("document.getElementById('letters').scrollIntoView()")
    browser.keep_picture("dashboard-reset")
    browser.find("#reset-now").click()
    browser.driver.switch_to.alert.accept()
    browser.shows("#reset-told", "It is reset.")


def check_rows(database: str, record_count: int) -> None:
    """Every record is a row or a dead letter, once."""
    with psycopg.connect(database) as connection:
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM records), (SELECT count(DISTINCT number) FROM records), "
            "(SELECT count(*) FROM rejected)"
        ).fetchone()
    assert counts is not None
    rows, distinct, letters = counts
    assert (rows, rows + letters) == (distinct, record_count), "a row is lost or doubled"


@pytest.mark.slow
def test_a_page_shows_a_pipeline_that_is_killed_taken_over_falls_behind_and_catches_up(
    browser: Browser, kafka_broker: KafkaBroker, database: str, tmp_path: Path
) -> None:
    use_java()
    topic = make_topic(kafka_broker.bootstrap_servers, f"flights-{uuid.uuid4().hex[:4]}", 3)
    file = tmp_path / "flights.toml"
    file.write_text(
        FILE.format(
            kafka=kafka_broker.bootstrap_servers, topic=topic, sql=json.dumps(SQL), dsn=database, folder=tmp_path
        )
    )
    records = Records(
        kafka_broker.bootstrap_servers, topic, lambda number: b"none" if number % 50 == 7 else b"%d" % number
    )
    driver = Driver(file)
    try:
        with serve_dashboard(
            [file], "127.0.0.1:0", every_s=0.5, stalled_after_s=6.0, behind_after_s=4.0, token=TOKEN
        ) as server:
            # 1. It runs.
            browser.open(f"http://{server.address}/#token={TOKEN}")
            browser.shows("#detail-head", "flights")
            assert "token" not in browser.driver.current_url, "the token would stay on the screen"
            browser.shows("#badge", "running")
            browser.shows("#batches-told", "of generation 1")
            browser.keep_picture("dashboard-running")

            # 2. It is killed: its records wait, and it stands still.
            driver.kill()
            browser.shows("#badge", "stands still")
            browser.shows("#because", "nothing was committed for")
            waiting = int(browser.text("#tile-lag").replace(",", ""))
            until(lambda: int(browser.text("#tile-lag").replace(",", "") or 0) > waiting, "its lag does not grow")
            browser.keep_picture("dashboard-killed")

            # 3. Another driver takes over.
            driver = Driver(file)
            browser.shows("#events", "generation 2 took over from generation 1")
            browser.shows("#tile-generation", "2")
            until(lambda: browser.text("#badge") in {"running", "caught up"}, "it does not read what waited")

            # 4. It falls behind: most records are in one partition, which the page shows first.
            records.burst(30_000)
            browser.shows("#badge", "behind")
            browser.shows("#because", "the oldest unread record is")
            browser.shows("#partitions tbody tr", f"{topic}-0")
            browser.keep_picture("dashboard-behind")

            # 5. It catches up.
            until(lambda: browser.text("#badge") in {"running", "caught up"}, "it does not catch up")
            assert int(browser.text("#tile-lag").replace(",", "")) < 10_000
            browser.shows("#events", "behind → ")

            # 6. Dead letters, and a reset that is looked at, and done.
            reset_by_the_page(browser)
            assert driver.process.wait(WAIT_S) == 3, "the driver is not fenced"
            browser.shows("#events", "set back: ")
            records.end()
            driver = Driver(file)
            browser.shows("#badge", "caught up")
            driver.stop()

            shifted, shifts = browser.shift()
            assert shifted < SHIFT_MAX, shifts
            assert browser.complaints() == []
    finally:
        records.end()
        if driver.process.poll() is None:
            driver.kill()
    check_rows(database, records.count)
