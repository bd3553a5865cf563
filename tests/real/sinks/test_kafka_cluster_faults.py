"""Brokers that die while a batch is written or committed: three of them, and each has another part in it.

After every test: all rows once, no transaction open (the harness), the ledger where the rows are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.contract.kafka_harness import KafkaHarness, KeyedRows
from tests.real.kafka.cluster import heal, partition_of, place_on
from tests.real.kafka.logs import create_topic_again
from tests.waiting import until

from directkafka.errors import StoreUnavailableError
from directkafka.kafka.producer.producer import Producer
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.pipeline.retry import RetryPolicy
from directkafka.sinks.kafka.sink import KafkaSink
from directkafka.sinks.kafka.store import KafkaStore
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import Job

pytestmark = [pytest.mark.real, pytest.mark.slow]

WAYS = pytest.mark.parametrize("staged", [False, True], ids=["inline", "by tasks"])
#: Who leads what: so each broker that dies is missed in another place.
COORDINATOR, ROWS, LEDGER = 1, 2, 3


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaBroker]:
    with KafkaBroker(3) as broker:
        yield broker


@pytest.fixture
def cluster(three: KafkaBroker) -> Iterator[KafkaBroker]:
    """Three brokers in good health, before the test and after it."""
    yield three
    heal(three)


@pytest.fixture
def harness(cluster: KafkaBroker) -> Iterator[KafkaHarness]:
    harness = KafkaHarness(cluster.bootstrap_servers)
    yield harness
    heal(cluster)
    harness.close()
    assert harness.leftovers() == []


class Batches:
    """A driver that does a batch again while its failure may pass, as the engine does."""

    def __init__(self, harness: KafkaHarness, *, staged: bool = False, replicas: int = 3) -> None:
        self.harness = harness
        self.topic = f"{harness.prefix}-flights"
        config = {"min.insync.replicas": "2"}
        create_topic_again(harness.servers, self.topic, replicas=replicas, config=config)
        # Not by harness.sink(), which would make the topic again if it asks a broker that has not heard of it yet.
        sink = KafkaSink(
            harness.kafka_params(), self.topic, inline_bytes_max=-1 if staged else 1 << 20, name_prefix=harness.prefix
        )
        harness.opened.append(sink.store)
        self.sink = KeyedRows(sink, self.topic)
        self.job = Job(harness.open_store()).start()
        self.committed = 0

    def spread(self) -> None:
        """Three brokers with three parts."""
        ledger = f"{self.harness.prefix}.ledger.flights"
        for topic, first in (("__transaction_state", COORDINATOR), (self.topic, ROWS), (ledger, LEDGER)):
            place_on(self.harness.servers, topic, [first, *({1, 2, 3} - {first})])

    def run(self) -> None:
        wanted = self.committed + 1
        rows = [[(2 * wanted, 1)], [(2 * wanted + 1, 1)]]

        def step() -> None:
            last = self.job.last = self.job.store.read("flights")
            if last is None or last.batch_id < wanted - 1:
                self.job.run((self.sink, rows))

        RetryPolicy(threading.Event(), retry_ms_max=60_000).until_done(step)
        self.committed = wanted

    def check(self) -> None:
        assert self.harness.rows(self.sink) == [(number, 1) for number in range(2, 2 * self.committed + 2)]
        entry = self.job.store.read("flights")
        assert entry is not None
        assert entry.total_rows == {self.topic: 2 * self.committed}


class Once:
    """Something that happens at the first call of a function that meets a condition."""

    def __init__(self, event: Callable[[], object]) -> None:
        self.event = event
        self.has_happened = False

    def happen(self) -> None:
        if not self.has_happened:
            self.has_happened = True
            self.event()


def while_rows_are_written(monkeypatch: pytest.MonkeyPatch, topic: str, once: Once) -> None:
    """Rows are encoded and on their way, and nobody has waited for their acknowledgement yet."""
    write = Producer.write

    def write_and(producer: Producer, rows: Any, targets: Any, target_of: Any) -> None:
        write(producer, rows, targets, target_of)
        if any(targets[number].topic == topic for number in np.unique(target_of)):
            once.happen()

    monkeypatch.setattr(Producer, "write", write_and)


def before_endtxn(monkeypatch: pytest.MonkeyPatch, once: Once) -> None:
    end = Coordinator.end

    def end_after(coordinator: Coordinator, identity: Any, *, commit: bool) -> None:
        if commit:
            once.happen()
        end(coordinator, identity, commit=commit)

    monkeypatch.setattr(Coordinator, "end", end_after)


@WAYS
@pytest.mark.parametrize("node", [COORDINATOR, ROWS, LEDGER], ids=["coordinator", "rows' leader", "ledger's leader"])
@pytest.mark.parametrize("moment", ["while rows are written", "before EndTxn"])
def test_a_broker_that_is_killed_costs_time_and_no_row(
    cluster: KafkaBroker, harness: KafkaHarness, monkeypatch: pytest.MonkeyPatch, moment: str, node: int, staged: bool
) -> None:
    batches = Batches(harness, staged=staged)
    batches.run()
    batches.spread()
    once = Once(lambda: cluster.kill(node))
    if moment == "before EndTxn":
        before_endtxn(monkeypatch, once)
    else:
        while_rows_are_written(monkeypatch, batches.topic, once)
    batches.run()
    assert once.has_happened, "nobody died, so it proved nothing"
    batches.run()
    batches.check()


def test_a_topic_that_has_too_few_replicas_in_sync_is_waited_for(
    cluster: KafkaBroker, harness: KafkaHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batches = Batches(harness, replicas=2)
    place_on(harness.servers, batches.topic, [1, 2])
    batches.run()
    returns = threading.Thread(target=lambda: until_alone(harness, batches.topic) and cluster.restart(2))

    def lose() -> None:
        cluster.kill(2)
        returns.start()

    once = Once(lose)
    while_rows_are_written(monkeypatch, batches.topic, once)
    with caplog.at_level(logging.DEBUG, logger="directkafka.kafka.producer.sender"):
        batches.run()
    assert once.has_happened, "no replica was lost, so it proved nothing"
    returns.join()
    batches.run()
    batches.check()


def until_alone(harness: KafkaHarness, topic: str) -> bool:
    """Until the leader is the only replica in sync: fewer than the topic asks for."""
    return bool(until(lambda: partition_of(harness.servers, topic).isrs == [1], "the replica is not missed"))


def test_rows_that_too_few_replicas_have_are_never_seen(cluster: KafkaBroker, harness: KafkaHarness) -> None:
    harness.params |= {"delivery.timeout.ms": 6_000, "request.timeout.ms": 3_000}
    batches = Batches(harness, replicas=2)
    place_on(harness.servers, batches.topic, [1, 2])
    batches.run()
    # The commit's markers have to be in two places as well, and come after the answer to EndTxn.
    batches.check()
    cluster.kill(2)
    until_alone(harness, batches.topic)
    with pytest.raises(StoreUnavailableError, match=r"not acknowledged within 6000 ms.*NOT_ENOUGH_REPLICAS"):
        batches.job.run((batches.sink, [[(99, 1)]]))
    assert harness.stable_values(batches.sink) == [(2, 1), (3, 1)]
    cluster.restart(2)
    batches.run()
    batches.check()


# The ledger's topic.


def ledger_of(harness: KafkaHarness) -> str:
    return f"{harness.prefix}.ledger.flights"


def test_a_ledger_has_as_many_replicas_as_the_cluster_wants_whoever_is_up(
    cluster: KafkaBroker, harness: KafkaHarness
) -> None:
    cluster.kill(3)
    with pytest.raises(StoreUnavailableError, match=r"3 replicas .*transaction.state.log.replication.factor.* 2 br"):
        harness.open_store().fence("flights")
    cluster.restart(3)
    harness.open_store().fence("flights")
    assert sorted(partition_of(harness.servers, ledger_of(harness)).replicas) == [1, 2, 3]


def test_a_ledger_has_as_many_replicas_as_the_option_says(cluster: KafkaBroker, harness: KafkaHarness) -> None:
    store = KafkaStore(harness.kafka_params(), name_prefix=harness.prefix, ledger_replicas=2)
    harness.opened.append(store)
    store.fence("flights")
    assert len(partition_of(harness.servers, ledger_of(harness)).replicas) == 2
