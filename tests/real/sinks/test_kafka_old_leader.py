"""A broker that is cut off from its cluster, and tells a driver where the ledger ended when it led it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.kafka_harness import KafkaHarness

from directkafka.errors import StoreUnavailableError
from directkafka.kafka.transactions.attempt_fencing import TransactionClaims
from directkafka.options.client import ClientOptions
from directkafka.sinks.kafka.ledger_topic import LedgerTopic
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real

PREVIOUS_RECORD_AND_MARKER = 2


def remember(monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    """Have each look at a ledger find it as it was when it ended there."""
    monkeypatch.setattr(LedgerTopic, "end", lambda _: end)
    monkeypatch.setattr(LedgerTopic, "read_stable_tail", lambda topic: topic.read_committed_tail(end))


def ledger_end(store: Any) -> int:
    end: int = store._owner("flights")._ledger.end()
    return end


def test_a_driver_that_read_an_older_ledger_does_not_put_its_fence_behind_batches_that_it_does_not_know(
    harness: KafkaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = harness.sink("flights")
    job = Job(harness.open_store()).start()
    job.run((sink, [[(1, 1)]]))
    job.run((sink, [[(2, 2)]]))
    job.store.close()
    newer = Job(harness.open_store())
    remember(monkeypatch, ledger_end(newer.store) - PREVIOUS_RECORD_AND_MARKER)
    with pytest.raises(StoreUnavailableError, match="1 of this pipeline before it: a broker that is cut off"):
        newer.start()
    monkeypatch.undo()
    newer.start()
    assert newer.last is not None
    assert (newer.last.batch_id, newer.generation) == (1, 2)
    newer.run((sink, [[(3, 3)]]))
    assert harness.rows(sink) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("is_staged", [False, True], ids=["held", "staged"])
def test_a_batch_is_not_committed_behind_a_ledger_that_was_not_read_to_its_end(
    harness: KafkaHarness, monkeypatch: pytest.MonkeyPatch, is_staged: bool
) -> None:
    sink = harness.sink("flights", staged=is_staged)
    job = Job(harness.open_store()).start()
    before = job.last
    fenced_end = ledger_end(job.store)
    job.run((sink, [[(1, 1)]]))
    known, job.last = job.last, before
    with monkeypatch.context() as patch:
        remember(patch, fenced_end)
        with pytest.raises(StoreUnavailableError, match="a broker that is cut off"):
            job.run((sink, [[(1, 1)]]))
    job.last = known
    job.run((sink, [[(2, 2)]]))
    assert harness.rows(sink) == [(1, 1), (2, 2)]


def test_a_late_claim_of_a_task_before_the_record_is_in_nobody_s_way(harness: KafkaHarness) -> None:
    """Tasks that were given up live on, and their claims are in no transaction."""
    sink = harness.sink("flights")
    job: Any = Job(harness.open_store()).start()
    entry = job.next_entry()
    batch = job.batch(entry)
    write = job.write(sink, batch, [[(1, 1)]])
    transaction = job.store.begin(batch, sink)
    client = ClientOptions(bootstrap_servers=(harness.servers,))
    claims = TransactionClaims(
        client=client, ledger=transaction.ledger, from_offset=transaction.ledger_end, name="another"
    )
    claims.claim_writing(0)
    job.last = job.store.commit(entry, previous=job.last, writes=[write])
    job.run((sink, [[(2, 2)]]))
    assert harness.rows(sink) == [(1, 1), (2, 2)]
