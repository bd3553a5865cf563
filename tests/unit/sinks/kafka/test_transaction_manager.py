"""Fencing and settling when answers are lost, with a coordinator and a ledger that are values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from directkafka.errors import CommitUnknownError, EnvironmentFaultError, FencedError, StoreUnavailableError
from directkafka.errors.kafka import TransactionFencedError
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.producer import ProducerOptions, TransactionOptions
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.kafka import transaction_manager
from directkafka.sinks.kafka.transaction_manager import TransactionManager
from directkafka.sinks.ledger import PipelineState

ENTRY = LedgerEntry(pipeline="flights", generation=5, lineage="l", batch_id=7, progress=())
REFUSED = TransactionFencedError(
    api="EndTxn", code=90, name="PRODUCER_FENCED", transactional_id="directkafka.flights", producer_id=1, epoch=0
)
NO_ROOM = EnvironmentFaultError(what="the temporary folder is full", remedy="make room")


class Cluster:
    """The coordinator and the ledger's topic: its newest state, and what EndTxn is answered with."""

    def __init__(self) -> None:
        self.state = PipelineState(generation=4, driver="another", entry=ENTRY)
        self.written: PipelineState | None = None
        #: What the next EndTxn does before it is answered, and its answer.
        self.ends: list[Any] = []
        self.taken: list[Any] = []
        self.topic_partition = TopicPartition("ledger", 0)
        self.aborted = 0

    def exists(self) -> bool:
        return True

    is_known = exists

    def ensure(self) -> None: ...

    def end(self, *_: Any, commit: bool = True) -> int:
        """The ledger's end, or EndTxn."""
        return 9

    def read_stable_tail(self) -> PipelineState:
        return self.state

    def read_committed_tail(self, _: int) -> PipelineState:
        return self.state

    def bump_epoch(self, identity: ProducerIdentity) -> ProducerIdentity:
        return identity

    def take_over(self) -> ProducerIdentity:
        if self.taken:
            raise self.taken.pop(0)
        return ProducerIdentity(producer_id=1, epoch=0, transactional_id="directkafka.flights")


class Manager(TransactionManager):
    """Over a cluster that is a value; writing is noted alone."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster: Any = cluster
        client = ClientOptions(bootstrap_servers=("b:9092",))
        nothing: Any = None
        super().__init__(
            nothing, TransactionOptions(client=client, producer=ProducerOptions()), "flights",
            name_prefix="directkafka", driver="mine", store="kafka b", fence_timeout_s=5.0, retry_ms_max=1,
        )  # fmt: skip

    def connect(self, client: Any) -> None:
        self._ledger = self._coordinator = self.cluster

    def _write(self, transaction: Any, state: PipelineState) -> None:
        self.cluster.written = state

        def end(*, commit: bool) -> None:
            transaction.close()
            if not commit:
                self.cluster.aborted += 1
                return
            act, error = self.cluster.ends.pop(0) if self.cluster.ends else (lambda: None, None)
            self.cluster.state = state
            act()
            if error is not None:
                raise error

        transaction.end = end


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(transaction_manager, "check_is_not_lost", lambda *_, **__: None)
    return Cluster()


def test_a_fence_takes_the_generation_behind_the_newest(cluster: Cluster) -> None:
    assert Manager(cluster).fence(None) == 5


def test_a_driver_whose_fence_was_overtaken_while_it_waited_for_the_answer_is_fenced(cluster: Cluster) -> None:
    """The fence was applied, its answer was lost, and a newer driver fenced behind it."""

    def newer_driver() -> None:
        cluster.state = replace(cluster.state, generation=6, driver="newer")

    cluster.ends = [(newer_driver, REFUSED)]
    with pytest.raises(FencedError) as caught:
        Manager(cluster).fence(None)
    assert (caught.value.held, caught.value.found) == (5, 6)


def test_a_driver_that_was_fenced_takes_the_next_generation_when_it_is_started_again(cluster: Cluster) -> None:
    manager = Manager(cluster)
    cluster.ends = [(lambda: setattr(cluster, "state", replace(cluster.state, generation=6, driver="newer")), REFUSED)]
    with pytest.raises(FencedError):
        manager.fence(None)
    assert manager.fence(None) == 7


def test_a_driver_that_was_refused_before_its_fence_was_sent_goes_behind_the_other(cluster: Cluster) -> None:
    manager = Manager(cluster)
    write, refusals = manager._write, [REFUSED]

    def refused_once(transaction: Any, state: PipelineState) -> None:
        if refusals:
            cluster.state = replace(cluster.state, generation=5, driver="other")
            raise refusals.pop()
        write(transaction, state)

    manager._write = refused_once  # type: ignore[method-assign]
    assert manager.fence(None) == 6


def test_a_fence_whose_answer_was_lost_is_found_to_be_its_own(cluster: Cluster) -> None:
    cluster.ends = [(lambda: None, REFUSED)]
    assert Manager(cluster).fence(None) == 5


def test_a_machine_without_room_for_a_certificate_leaves_no_doubt_unsaid(cluster: Cluster) -> None:
    """EndTxn was sent, the connection broke, and no other one can be made."""
    manager = Manager(cluster)
    manager.fence(None)
    transaction = manager.begin("try")

    def lost() -> None:
        cluster.state = replace(cluster.state, commit_id="before")

    cluster.ends = [(lost, NO_ROOM)]
    cluster.taken = [NO_ROOM]
    with pytest.raises(CommitUnknownError, match="the temporary folder is full"):
        manager.commit(transaction, PipelineState(generation=5, driver="mine", entry=ENTRY, commit_id="c"))


def test_a_commit_that_cannot_be_answered_and_is_in_the_ledger_is_one(cluster: Cluster) -> None:
    manager = Manager(cluster)
    manager.fence(None)
    transaction = manager.begin("try")
    cluster.ends = [(lambda: None, NO_ROOM)]
    manager.commit(transaction, PipelineState(generation=5, driver="mine", entry=ENTRY, commit_id="c"))
    assert manager.state.commit_id == "c"


def test_another_driver_that_fences_all_the_time_is_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(cluster)
    manager._fence_timeout_s = -1.0
    cluster.taken = [REFUSED]
    with pytest.raises(StoreUnavailableError, match="another driver has been fencing"):
        manager.fence(None)
