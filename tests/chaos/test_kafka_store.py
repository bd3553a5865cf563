"""Drivers of the Kafka store killed and stopped at every step, with a reader that watches all the time.

Each driver (:mod:`tests.chaos.kafka_driver`) has a process of its own. After every run the same must hold: the
committed records are the input, each once; all of a batch are of one try of it; no transaction is open; every
partition's last stable offset is its high watermark. The reader, under ``read_committed``, has seen nothing that is not
there at the end, and has passed over nothing that is.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.chaos.forked_driver import FENCED, ForkedDriver
from tests.chaos.kafka_driver import BATCH, PIPELINE, TIMEOUT_MS, drive, value_of
from tests.contract.kafka_harness import (
    PARTITIONS,
    Record,
    committed_consumer,
    poll,
    read_committed,
    still_open,
    wait_until_stable,
)
from tests.processes import running

from directkafka.sinks.kafka.store import KafkaStore
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

COUNT = 4 * BATCH

#: Every step of a driver of the Kafka store that no task takes, and how often it is passed before the second batch.
STEPS = {
    "fence.before": 1,
    "fence.taken": 1,
    "fence.done": 1,
    "ledger.read": 1,
    "origin.planned": 1,
    "origin.committed": 1,
    "batch.planned": 2,
    # Of the fence, of batch 0, and of batches 1 and 2.
    "transaction.fresh": 3,
    "transaction.opened": 4,
    "batch.written": 2,
    "commit.begun": 3,
    "commit.rows_moved": 3,
    "commit.ledger_produced": 3,
    "commit.answered": 3,
    "batch.reported": 2,
}


class Reader:
    """Reads committed records all the time."""

    def __init__(self, servers: str, topic: str) -> None:
        self.seen: list[Record] = []
        self._consumer = committed_consumer(servers, topic)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._is_over.is_set():
            if isinstance(record := poll(self._consumer, 0.05), Record):
                self.seen.append(record)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()


class World:
    """A topic, a pipeline of its own, and the reader that watches it."""

    def __init__(self, servers: str, topic: str, folder: Path) -> None:
        self.servers = servers
        self.topic = topic
        self.prefix = f"chaos-{uuid.uuid4().hex[:8]}"
        self.folder = folder
        self.reader = Reader(servers, topic)

    @property
    def transactional_id(self) -> str:
        return f"{self.prefix}.{PIPELINE}"

    @property
    def ledger(self) -> str:
        """The ledger's topic."""
        return f"{self.prefix}.ledger.{PIPELINE}"

    def driver(
        self, faults: str = "", *, staged: bool = False, count: int = COUNT, timeout_ms: int = TIMEOUT_MS
    ) -> ForkedDriver:
        function = partial(drive, staged=staged, timeout_ms=timeout_ms)
        arguments = (self.servers, self.prefix, self.topic, count)
        return ForkedDriver(function, *arguments, folder=self.folder, faults=faults)

    def check_committed_until(self, count: int) -> None:
        """These records are committed, and no others."""
        wait_until_stable(self.servers, self.topic)
        records = read_committed(self.servers, self.topic)
        assert sorted(value_of(record)["number"] for record in records) == list(range(count))

    def check_batches_are_whole(self) -> None:
        """Of a batch a reader sees now all records, in all partitions, or none; also while a dead driver's is open.

        The markers of a transaction that has ended come one partition after the other, and are waited for.
        """
        still_open(self.servers, self.prefix)
        records = read_committed(self.servers, self.topic)
        sizes = Counter((value_of(record)["batch"], value_of(record)["attempt"]) for record in records)
        assert set(sizes.values()) <= {BATCH}

    def check(self, count: int = COUNT) -> list[Record]:
        """The rule of this module; the committed records."""
        assert still_open(self.servers, self.prefix) == []
        wait_until_stable(self.servers, self.topic)
        wait_until_stable(self.servers, self.ledger)
        records = sorted(read_committed(self.servers, self.topic))
        assert sorted(value_of(record)["number"] for record in records) == list(range(count))
        attempts = defaultdict(set)
        for record in records:
            attempts[value_of(record)["batch"]].add(value_of(record)["attempt"])
        assert {batch: len(batch_attempts) for batch, batch_attempts in attempts.items()} == dict.fromkeys(
            range(1, count // BATCH + 1), 1
        )
        for partition in range(PARTITIONS):
            seen = [record for record in self.reader.seen if record.partition == partition]
            assert seen == [record for record in records if record.partition == partition][: len(seen)]
        return records


@pytest.fixture
def world(kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path) -> Iterator[World]:
    world = World(kafka_broker.bootstrap_servers, create_topic(PARTITIONS), tmp_path)
    yield world
    world.reader.stop()


def test_drivers_killed_at_one_step_after_the_other_lose_and_double_nothing(world: World) -> None:
    """Each goes on where the one before it died; the steps of a new pipeline come first."""
    first = ["origin.planned", "origin.committed"]
    steps = [*first, *(point for point in STEPS if point not in first)]
    count = 2 * BATCH * len(steps)
    for point in steps:
        passes = 1 if STEPS[point] == 1 else 2
        with running(world.driver(f"{point}@{passes}=kill", count=count)) as driver:
            assert driver.wait() == -signal.SIGKILL, f"{point}: {driver.messages()}"
    with running(world.driver(count=count)) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check(count)


@pytest.mark.slow
@pytest.mark.parametrize("staged", [False, True], ids=["inline", "by tasks"])
@pytest.mark.parametrize("point", STEPS)
def test_a_driver_killed_at_a_step_loses_and_doubles_nothing(world: World, point: str, staged: bool) -> None:
    with running(world.driver(f"{point}@{STEPS[point]}=kill", staged=staged)) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    world.check_batches_are_whole()
    left = len(world.reader.seen)
    assert left < COUNT, "the kill came after the end, so it proved nothing"
    with running(world.driver(staged=staged)) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check()


def test_a_task_killed_after_its_rows_were_acknowledged_costs_a_batch_and_no_record(world: World) -> None:
    with running(world.driver("task.flushed@3=kill", staged=True)) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    with running(world.driver(staged=True)) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check()


#: A fence waits for another one for 30 s at most (``fence_timeout_s``), and for nothing else of an older driver.
TAKE_OVER_S_MAX = 30.0
#: Where a driver has not fenced yet: one that goes on from there is the newer one, whoever ran meanwhile.
NOT_FENCED_YET = ["fence.before", "fence.taken"]
#: The steps at which an older driver stands still while a newer one runs to the end.
STOPS = [point for point in STEPS if point not in NOT_FENCED_YET]


@pytest.mark.parametrize(
    ("point", "staged"),
    [(point, staged) for point in STOPS for staged in (False, True)] + [("task.flushed", True)],
)
@pytest.mark.slow
def test_a_driver_that_stood_still_lands_nothing_after_a_newer_one_took_over(
    world: World, point: str, staged: bool
) -> None:
    passes = STEPS.get(point, 3)
    with running(world.driver(f"{point}@{passes}=stop", staged=staged)) as older:
        older.wait_until_stopped()
        begun = time.monotonic()
        with running(world.driver()) as newer:
            assert newer.wait() == 0, newer.messages()
        assert time.monotonic() - begun < TAKE_OVER_S_MAX
        done = world.check()
        older.go_on()
        assert older.wait() == FENCED, older.messages()
        assert "owned by a newer driver" in older.messages()
        assert world.check() == done


@pytest.mark.parametrize("point", NOT_FENCED_YET)
@pytest.mark.slow
def test_a_driver_that_stood_still_before_its_fence_fences_behind_the_other_and_finds_all_done(
    world: World, point: str
) -> None:
    with running(world.driver(f"{point}=stop")) as first:
        first.wait_until_stopped()
        with running(world.driver()) as second:
            assert second.wait() == 0, second.messages()
        done = world.check()
        first.go_on()
        assert first.wait() == 0, first.messages()
    assert world.check() == done


def test_a_driver_stopped_before_endtxn_lands_nothing_and_disturbs_nobody(world: World) -> None:
    """The newer one has more to do when the older one goes on, and is not stopped by it."""
    with running(world.driver("commit.ledger_produced@3=stop")) as older:
        older.wait_until_stopped()
        with running(world.driver("batch.reported@1=stop")) as newer:
            newer.wait_until_stopped()
            older.go_on()
            assert older.wait() == FENCED, older.messages()
            newer.go_on()
            assert newer.wait() == 0, newer.messages()
            assert "transaction" not in newer.messages()
    world.check()


@pytest.mark.slow
def test_the_ledger_says_what_the_topic_has(world: World) -> None:
    with running(world.driver()) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check()
    with closing(KafkaStore({"bootstrap.servers": world.servers}, name_prefix=world.prefix)) as store:
        entry = store.read(PIPELINE)
    assert entry is not None
    assert (entry.batch_id, entry.progress[0].end, entry.total_rows) == (4, COUNT, {world.topic: COUNT})
