"""A ledger in Kafka that is deleted or emptied while no driver runs: a pipeline that has run before is no new one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.contract.kafka_harness import KafkaHarness
from tests.real.kafka.logs import create_topic_again, delete_records, delete_topic, end_offset, set_topic_config

from directkafka.errors import SchemaMismatchError
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.network.client import KafkaClient
from directkafka.options.client import ClientOptions
from directkafka.sinks.kafka import lost_ledger
from directkafka.sinks.kafka.transaction import KafkaTransaction
from directkafka.sinks.kafka.transaction_manager import TransactionManager
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real

COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def harness(kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaHarness]:
    monkeypatch.setattr(lost_ledger, "_UNHEARD_S_MAX", 0.5)
    harness = KafkaHarness(kafka_broker.bootstrap_servers)
    yield harness
    harness.close()
    assert harness.leftovers() == []


@pytest.fixture
def ledger(harness: KafkaHarness) -> str:
    """The ledger's topic of a pipeline that has committed a batch, and runs no more."""
    job = Job(harness.open_store()).start()
    job.run((harness.sink("flights"), [[(1, 1)]]))
    job.store.close()
    return f"{harness.prefix}.ledger.flights"


def topic_id_of(harness: KafkaHarness, topic: str) -> str:
    with closing(KafkaClient(ClientOptions(bootstrap_servers=(harness.servers,)))) as client:
        return AdminClient(client).topics([topic])[topic].topic_id


def test_one_that_was_deleted_is_refused_also_when_somebody_has_made_the_topic(
    harness: KafkaHarness, ledger: str
) -> None:
    """Who may be a broker that makes any topic that it is asked for; until the user says yes to this very topic."""
    delete_topic(harness.servers, ledger)
    for _ in range(2):
        with pytest.raises(SchemaMismatchError, match=r"is gone, .* would write all its rows again"):
            harness.open_store().fence("flights")
    create_topic_again(harness.servers, ledger, config=COMPACTED)
    with pytest.raises(SchemaMismatchError, match=r"is empty, .* would write all its rows again"):
        harness.open_store().fence("flights")
    assert harness.rows(harness.sink("flights")) == [(1, 1)]
    newer = Job(harness.open_store(accept_empty_ledger=topic_id_of(harness, ledger))).start()
    assert (newer.generation, newer.last) == (1, None)


def test_one_that_was_emptied_begins_anew_only_with_a_yes_that_names_it(harness: KafkaHarness, ledger: str) -> None:
    set_topic_config(harness.servers, ledger, {"cleanup.policy": "compact,delete"})
    delete_records(harness.servers, ledger, end_offset(harness.servers, ledger))
    set_topic_config(harness.servers, ledger, COMPACTED)
    topic_id = topic_id_of(harness, ledger)
    for accepted in (None, "of-another-topic"):
        with pytest.raises(SchemaMismatchError, match=f"set the sink's option accept_empty_ledger to '{topic_id}'"):
            harness.open_store(accept_empty_ledger=accepted).fence("flights")
    again = Job(harness.open_store(accept_empty_ledger=topic_id)).start()
    assert (again.generation, again.last) == (1, None)
    again.store.close()
    assert harness.open_store().fence("flights") == 2


class DiedError(Exception):
    """The driver is no more."""


def die(*_: object, **__: object) -> None:
    raise DiedError


@pytest.mark.parametrize(
    ("owner", "step", "deaths"),
    [
        pytest.param(TransactionManager, "_open", 1, id="once it had the id"),
        pytest.param(KafkaTransaction, "end", 1, id="before its record was committed"),
        pytest.param(KafkaTransaction, "end", 3, id="thrice before its record was committed"),
    ],
)
def test_a_driver_that_died_at_its_first_fence_has_begun_nothing(
    harness: KafkaHarness, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, deaths: int
) -> None:
    for _ in range(deaths):
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, die)
            with pytest.raises(DiedError):
                harness.open_store().fence("flights")
    assert harness.open_store().fence("flights") == 1
