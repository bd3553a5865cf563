"""What goes wrong around the Kafka store: lost and late answers, second attempts, too little time, epochs used up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.contract.kafka_harness import KafkaHarness, KeyedRows, wait_until_stable
from tests.real.kafka.logs import consume
from tests.real.kafka.lossy_proxy import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    Loss,
    LossyProxy,
)
from tests.waiting import until

from directkafka.errors import (
    CommitUnknownError,
    FencedError,
    OptionError,
    RowCountError,
    SchemaMismatchError,
    StoreUnavailableError,
)
from directkafka.errors.kafka import SecondAttemptError, TransactionTooSlowError
from directkafka.kafka.admin.admin_client import AdminClient as OurAdminClient
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.transactions.attempt_fencing import CLAIM, TransactionClaims
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.sinks.kafka.sink import KafkaSink
from directkafka.sinks.kafka.store import KafkaStore
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import Job, batches_of, run_together

pytestmark = pytest.mark.real

#: So that an address where nobody answers does not cost the test half a minute.
QUICK = {"request.timeout.ms": 3_000, "socket.connection.setup.timeout.ms": 300}

WAYS = pytest.mark.parametrize("staged", [False, True], ids=["inline", "by tasks"])


@dataclass
class Watched:
    """A driver whose way to the broker goes through a proxy; what is in the topic is read past it."""

    proxy: LossyProxy
    harness: KafkaHarness

    def job(self, *, resolve_timeout_s: float = 10.0) -> Job:
        store = KafkaStore(self.params(), name_prefix=self.harness.prefix, resolve_timeout_s=resolve_timeout_s)
        self.harness.opened.append(store)
        return Job(store).start()

    def sink(self, *, staged: bool = False) -> KeyedRows:
        topic = self.harness.make_topic("flights")
        sink = KafkaSink(
            self.params(), topic, inline_bytes_max=-1 if staged else 1 << 20, name_prefix=self.harness.prefix
        )
        self.harness.opened.append(sink.store)
        return KeyedRows(sink, topic)

    def params(self) -> dict[str, object]:
        return {**self.harness.kafka_params(), "bootstrap.servers": self.proxy.address, **QUICK}


@pytest.fixture
def watched(harness: KafkaHarness) -> Iterator[Watched]:
    with LossyProxy(harness.servers) as proxy:
        yield Watched(proxy, harness)
        # Before the proxy goes: what is open is aborted through it.
        harness.close()


# Answers that do not come.


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("api", [INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, PRODUCE, END_TXN])
@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST], ids=["done", "not done"])
def test_a_lost_answer_is_asked_for_again(watched: Watched, api: int, loss: Loss, staged: bool) -> None:
    sink, job = watched.sink(staged=staged), watched.job()
    job.run((sink, [[(1, 1)], [(2, 1)]]))
    watched.proxy.lose(api, loss)
    job.run((sink, [[(3, 1)], [(4, 1)]]))
    assert watched.proxy.lost == 1
    job.run((sink, [[(5, 1)], [(6, 1)]]))
    assert watched.harness.rows(sink) == [(number, 1) for number in range(1, 7)]


def test_an_endtxn_whose_answer_never_comes_is_settled_by_the_ledger(watched: Watched) -> None:
    """Applied, and never answered: the ledger has the commit's id, so it is committed."""
    sink, job = watched.sink(), watched.job(resolve_timeout_s=1.0)
    watched.proxy.lose(END_TXN, Loss.ANSWER, times=1_000)
    committed = job.run((sink, [[(1, 1)]]))
    assert watched.proxy.lost > 1
    watched.proxy.lose(END_TXN, Loss.ANSWER, times=0)
    assert job.store.read("flights") == committed
    job.run((sink, [[(2, 1)]]))
    assert watched.harness.rows(sink) == [(1, 1), (2, 1)]


@pytest.mark.slow
def test_an_endtxn_that_never_arrives_is_settled_by_the_ledger(watched: Watched) -> None:
    """Never applied: the take-over aborts what is open, the ledger has no such commit, the batch is done again."""
    sink, job = watched.sink(), watched.job(resolve_timeout_s=1.0)
    first = job.run((sink, [[(1, 1)]]))
    watched.proxy.lose(END_TXN, Loss.REQUEST, times=1_000)
    with pytest.raises(StoreUnavailableError):
        job.run((sink, [[(2, 1)]]))
    watched.proxy.lose(END_TXN, Loss.REQUEST, times=0)
    assert job.store.read("flights") == first
    assert watched.harness.rows(sink) == [(1, 1)]
    job.run((sink, [[(2, 1)]]))
    assert watched.harness.rows(sink) == [(1, 1), (2, 1)]


@pytest.mark.slow
def test_without_answer_and_without_ledger_it_is_not_known(watched: Watched) -> None:
    """The connection goes with the answer, and nobody can be reached after it. A new driver finds the batch."""
    sink, job = watched.sink(), watched.job(resolve_timeout_s=1.0)
    answer = watched.proxy.change

    def vanish(response: bytes) -> bytes | None:
        watched.proxy.refuse = watched.proxy.requests[END_TXN] >= 2
        return None if watched.proxy.refuse else answer(response)

    watched.proxy.change = vanish
    with pytest.raises(CommitUnknownError, match="restart reads the ledger"):
        job.run((sink, [[(1, 1)]]))
    newer = Job(watched.harness.open_store()).start()
    assert newer.last is not None
    assert watched.harness.rows(sink) == [(1, 1)]


@pytest.mark.slow
def test_a_driver_that_is_fenced_while_it_waits_for_endtxns_answer_does_not_say_that_nothing_is_committed(
    watched: Watched,
) -> None:
    """Its batch is committed, a newer driver comes and commits another one; only then the older one hears anything."""
    sink, older = watched.sink(), watched.job()
    watched.proxy.lose(END_TXN, Loss.ANSWER, times=1_000_000)

    def overtake() -> None:
        until(lambda: watched.proxy.lost, "no answer is lost")
        newer = Job(watched.harness.open_store()).start()
        assert newer.last is not None, "the older driver's batch is there"
        newer.run((watched.harness.sink("flights"), [[(2, 1)]]))
        watched.proxy.lose(END_TXN, Loss.ANSWER, times=0)

    outcome, nothing = run_together(lambda: older.run((sink, [[(1, 1)]])), overtake)
    assert nothing is None
    assert isinstance(outcome, FencedError)
    assert "No answer came to this driver's commit of batch 0, so it may be committed" in str(outcome)
    assert "Nothing of this driver's batch" not in str(outcome)
    assert watched.harness.rows(sink) == [(1, 1), (2, 1)]


def test_a_late_endtxn_does_not_touch_the_next_batch(watched: Watched) -> None:
    """KAFKA-17754: sent, not heard of, sent again, answered; then the first one arrives in the middle of batch n+1."""
    sink, job = watched.sink(staged=True), watched.job()
    job.run((sink, [[(1, 1)]]))
    watched.proxy.lose(END_TXN, Loss.LATE)
    job.run((sink, [[(2, 1)]]))
    assert watched.proxy.lost == 1
    entry = job.next_entry()
    writes = [job.write(sink, job.batch(entry), [[(3, 1)], [(4, 1)]])]
    watched.proxy.release()
    assert watched.harness.stable_values(sink) == [(1, 1), (2, 1)]
    job.store.commit(entry, previous=job.last, writes=writes)
    assert watched.harness.rows(sink) == [(1, 1), (2, 1), (3, 1), (4, 1)]


# Second attempts.


def _share(job: Job, sink: KeyedRows, rows: list[tuple[int, int]]) -> tuple[Any, Any, Any]:
    """A batch whose transaction is open: its entry, its name, and a function that is one attempt of its only task."""
    sink.prepare(next(iter(batches_of([]))).schema)
    entry = job.next_entry()
    batch = job.batch(entry)
    store: Any = job.store
    writer = sink.task_writer(batch, next(iter(batches_of([]))).schema)
    phase = sink.second_phase(store.begin(batch, sink), batch, [writer(batches_of(rows))], writers_max=1)
    share_writer: Any = phase.writer

    def attempt(rows_of_attempt: list[tuple[int, int]], *, claims: Any = share_writer.claims) -> Any:
        return replace(share_writer, claims=claims)(phase.router(batches_of(rows_of_attempt)))

    return entry, batch, attempt


def test_a_second_attempt_raises_before_it_writes(harness: KafkaHarness) -> None:
    """Attempt 1 dies after its rows were acknowledged; attempt 2 has other rows. The batch is done again."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    _, batch, attempt = _share(job, sink, [(1, 1), (2, 1)])
    attempt([(1, 1), (2, 1)])
    with pytest.raises(SecondAttemptError, match="another attempt") as caught:
        attempt([(7, 7), (8, 8)])
    store: Any = job.store
    with pytest.raises(StoreUnavailableError):
        store.abort_with_cause(batch, caught.value)
    job.run((sink, [[(7, 7), (8, 8)]]))
    assert harness.rows(sink) == [(7, 7), (8, 8)]


def test_claims_get_a_tombstone_with_the_commit_and_the_ledgers_record_stays_the_newest(harness: KafkaHarness) -> None:
    """Each has a key of its own, so that compaction alone would keep them for ever."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    job.run((sink, [[(1, 1)], [(2, 1)]]))
    ledger = f"{harness.prefix}.ledger.flights"
    # Kafka answers a commit before readers see the end of the transaction.
    wait_until_stable(harness.servers, ledger)
    records = consume(harness.servers, ledger, isolation_level="read_committed")
    kept = {key: value for _, key, value, *_ in records}
    claims = [value for key, value in kept.items() if key is not None and key.startswith(CLAIM)]
    assert claims
    assert set(claims) == {None}
    assert records[-1][1] == b"flights"


class NoClaims(TransactionClaims):
    def claim_writing(self, share: int) -> None:
        """Let everybody write."""


@pytest.mark.slow
def test_without_claims_a_second_attempt_is_swallowed_and_all_counts_agree(harness: KafkaHarness) -> None:
    """What the rule is for: attempt 2 reports two rows, two rows are there, and they are attempt 1's."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    entry, batch, attempt = _share(job, sink, [(1, 1)])
    anybody = NoClaims(
        client=ClientOptions(bootstrap_servers=(harness.servers,)),
        ledger=TopicPartition("", 0),
        from_offset=0,
        name="",
    )
    attempt([(1, 1)], claims=anybody)
    report = attempt([(7, 7)], claims=anybody)
    job.store.commit(entry, previous=None, writes=[(sink, batch, [report])])
    assert harness.rows(sink) == [(1, 1)]


@pytest.mark.slow
def test_two_sinks_do_not_write_one_partition(harness: KafkaHarness) -> None:
    """One writes by tasks, the other from the driver: both would begin to count at 0."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    other = KafkaSink(harness.kafka_params(), sink.name, name_prefix=harness.prefix)
    harness.opened.append(other.store)
    entry = job.next_entry()
    batch = job.batch(entry)
    writes = [job.write(sink, batch, [[(1, 1)]]), job.write(KeyedRows(other, sink.name), batch, [[(1, 1)]])]
    with pytest.raises(OptionError, match="two sinks of one pipeline write to"):
        job.store.commit(entry, previous=None, writes=writes)
    assert harness.rows(sink) == []


def test_a_batch_that_is_given_up_leaves_nothing_open_and_another_try_of_it_as_it_is(harness: KafkaHarness) -> None:
    """Whatever ended it: until the broker's timeout, readers would wait behind it."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    entry = job.next_entry()
    first, second = job.batch(entry), job.batch(entry)
    store: Any = job.store
    job.write(sink, first, [[(1, 1)]])
    store.abort(first)
    assert harness.leftovers() == []
    write = job.write(sink, second, [[(2, 1)]])
    store.abort(first)
    store.commit(entry, previous=None, writes=[write])
    store.abort(second)
    assert harness.rows(sink) == [(2, 1)]


# Time.


@pytest.mark.slow
def test_a_batch_that_takes_too_long_is_aborted_and_says_what_to_do(harness: KafkaHarness) -> None:
    harness.params["transaction.timeout.ms"] = 1_000
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    entry = job.next_entry()
    batch = job.batch(entry)
    write = job.write(sink, batch, [[(1, 1)]])
    store: Any = job.store
    transaction = store.begin(batch, harness.sink("other"))
    until(lambda: transaction.budget_left_ms() < 0, "the budget does not run out")
    with pytest.raises(TransactionTooSlowError, match="Halve maxOffsetsPerTrigger"):
        job.store.commit(entry, previous=None, writes=[write])
    assert harness.rows(sink) == []
    job.run((sink, [[(1, 1)]]))
    assert harness.rows(sink) == [(1, 1)]


def test_a_timeout_that_the_brokers_do_not_allow_is_refused_at_the_fence(harness: KafkaHarness) -> None:
    harness.params["transaction.timeout.ms"] = 3_600_000
    with pytest.raises(OptionError, match=r"transaction\.max\.timeout\.ms"):
        harness.open_store().fence("flights")


@pytest.mark.slow
def test_what_the_broker_aborts_or_forgets_is_no_newer_driver() -> None:
    """Its timeout passes in the middle of a batch; then the transactional id expires. The driver goes on both times."""
    config = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "transactional.id.expiration.ms": 1_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
    }
    with KafkaBroker(config=config) as broker, closing(KafkaHarness(broker.bootstrap_servers)) as harness:
        harness.params["transaction.timeout.ms"] = 1_000
        sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
        entry = job.next_entry()
        write = job.write(sink, job.batch(entry), [[(1, 1)]])
        until(lambda: harness.leftovers() == [], "the broker does not give the transaction up")
        with pytest.raises(TransactionTooSlowError):
            job.store.commit(entry, previous=None, writes=[write])
        job.run((sink, [[(1, 1)]]))
        until(lambda: _is_forgotten(harness), "the transactional id does not expire")
        job.run((sink, [[(2, 1)]]))
        assert harness.rows(sink) == [(1, 1), (2, 1)]


def _is_forgotten(harness: KafkaHarness) -> bool:
    with closing(KafkaClient(ClientOptions(bootstrap_servers=(harness.servers,)))) as client:
        return client.call("ListTransactions", 1, state_filters=[], producer_id_filters=[]).transaction_states == []


# Epochs.


def test_every_transaction_has_an_epoch_of_its_own(harness: KafkaHarness) -> None:
    sink, job = harness.sink("flights"), Job(harness.open_store()).start()
    epochs = []
    for number in range(3):
        entry = job.next_entry()
        batch = job.batch(entry)
        store: Any = job.store
        write = job.write(sink, batch, [[(number, 1)]])
        epochs.append(store.begin(batch, sink).identity.epoch)
        job.last = store.commit(entry, previous=job.last, writes=[write])
    assert epochs == sorted(set(epochs))


@pytest.mark.slow
def test_a_producer_id_whose_epochs_are_used_up_is_replaced(harness: KafkaHarness) -> None:
    """Epoch 32,766 is the last one: the next transaction has a new producer id, and an older driver is still fenced."""
    sink, older = harness.sink("flights"), Job(harness.open_store()).start()
    older.run((sink, [[(1, 1)]]))
    with closing(KafkaClient(ClientOptions(bootstrap_servers=(harness.servers,)))) as client:
        coordinator = Coordinator(client, f"{harness.prefix}.flights", transaction_timeout_ms=30_000)
        identity = coordinator.take_over()
        used_up = identity.producer_id
        while identity.epoch < 32_763:
            identity = coordinator.bump_epoch(identity)
        newer = Job(harness.open_store()).start()
        ids = set()
        for number in range(2, 8):
            entry = newer.next_entry()
            batch = newer.batch(entry)
            store: Any = newer.store
            write = newer.write(sink, batch, [[(number, 1)]])
            ids.add(store.begin(batch, sink).identity.producer_id)
            newer.last = store.commit(entry, previous=newer.last, writes=[write])
        assert used_up in ids
        assert len(ids) == 2
    with pytest.raises(FencedError):
        older.run((sink, [[(9, 9)]]))
    assert harness.rows(sink) == [(number, 1) for number in range(1, 8)]


# The ledger's topic.


@pytest.mark.parametrize("is_heard_of", [True, False], ids=["known", "not heard of yet"])
@pytest.mark.parametrize(
    ("partitions", "policy", "message"),
    [(2, "compact", "has 2 partitions"), (1, "delete", "cleanup.policy=delete"), (1, "compact,delete", "are deleted")],
)
def test_a_ledger_topic_that_could_lose_entries_is_refused(
    harness: KafkaHarness,
    partitions: int,
    policy: str,
    message: str,
    is_heard_of: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker may not have heard yet of a topic that was made a moment ago."""
    name = f"{harness.prefix}.ledger.flights"
    topic = NewTopic(name, partitions, 1, config={"cleanup.policy": policy})
    admin = AdminClient({"bootstrap.servers": harness.servers})
    admin.create_topics([topic])[name].result(20)
    until(lambda: name in admin.list_topics(timeout=20).topics, "the topic does not come")
    store = harness.open_store()
    if not is_heard_of:
        calls: list[str] = []
        call, topics = KafkaClient.call, OurAdminClient.topics
        monkeypatch.setattr(KafkaClient, "call", lambda *asked, **body: calls.append(asked[1]) or call(*asked, **body))
        monkeypatch.setattr(OurAdminClient, "topics", lambda *asked: topics(*asked) if "CreateTopics" in calls else {})
    with pytest.raises(SchemaMismatchError, match=message):
        store.fence("flights")


def test_a_ledger_topic_that_no_broker_knows_in_time_may_come_later(
    harness: KafkaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("directkafka.sinks.kafka.ledger_topic._MADE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(OurAdminClient, "topics", lambda *_asked: {})
    with pytest.raises(StoreUnavailableError, match=r"flights is there, and has had no leader for 0.1 s"):
        harness.open_store().fence("flights")


@pytest.mark.slow
def test_a_ledger_that_is_gone_is_no_new_pipeline(harness: KafkaHarness) -> None:
    """Begun anew, it would write all its rows a second time."""
    job = Job(harness.open_store()).start()
    job.run((harness.sink("flights"), [[(1, 1)]]))
    name = f"{harness.prefix}.ledger.flights"
    admin = AdminClient({"bootstrap.servers": harness.servers})
    admin.delete_topics([name])[name].result(20)
    until(lambda: name not in admin.list_topics(timeout=20).topics, "the topic does not go")
    with pytest.raises(SchemaMismatchError, match="generation 0, this driver wrote 1"):
        job.store.read("flights")


@pytest.mark.slow
def test_the_newest_record_is_found_behind_much_that_is_none(harness: KafkaHarness) -> None:
    """Aborted batches and tasks' claims lie behind it."""
    sink, job = harness.sink("flights"), Job(harness.open_store()).start()
    committed = job.run((sink, [[(1, 1)]]))
    store: Any = job.store
    other = pa.record_batch({"key": pa.array([b"claim"] * 6_000), "value": pa.array([b""] * 6_000)})
    transaction = store.begin(job.batch(job.next_entry()), sink)
    transaction.add([transaction.ledger])
    transaction.write(other, [transaction.ledger], pa.array([0] * 6_000, pa.int32()).to_numpy())
    transaction.flush(store="")
    store.close()
    assert store.read("flights") == committed


def test_a_record_of_a_transaction_that_is_gone_counts_for_nothing(harness: KafkaHarness) -> None:
    """Reports of rows that were written under another epoch: they were aborted with it."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    entry = job.next_entry()
    _, batch, reports = job.write(sink, job.batch(entry), [[(1, 1)]])
    store: Any = job.store
    store.abort_with_cause(batch, RuntimeError("the driver thought better of it"))
    with pytest.raises(RowCountError):
        store.commit(entry, previous=None, writes=[(sink, batch, reports)])
    assert harness.rows(sink) == []


def test_a_driver_that_is_fenced_does_not_disturb_the_newer_ones_batch(harness: KafkaHarness) -> None:
    """The newer driver's transaction is open when the older one finds out: it stays open, and is committed."""
    sink = harness.sink("flights", staged=True)
    older = Job(harness.open_store()).start()
    newer = Job(harness.open_store()).start()
    entry = newer.next_entry()
    writes = [newer.write(sink, newer.batch(entry), [[(1, 1)]])]
    with pytest.raises(FencedError):
        older.run((sink, [[(2, 1)]]))
    newer.store.commit(entry, previous=None, writes=writes)
    assert harness.rows(sink) == [(1, 1)]


@pytest.mark.slow
def test_somebody_else_who_takes_the_name_is_no_newer_driver(harness: KafkaHarness) -> None:
    """A program that is no driver initialises the transactional id: the driver takes it back, and redoes the batch."""
    sink, job = harness.sink("flights", staged=True), Job(harness.open_store()).start()
    entry = job.next_entry()
    batch = job.batch(entry)
    write = job.write(sink, batch, [[(1, 1)]])
    with closing(KafkaClient(ClientOptions(bootstrap_servers=(harness.servers,)))) as client:
        Coordinator(client, f"{harness.prefix}.flights", transaction_timeout_ms=30_000).take_over()
    with pytest.raises(StoreUnavailableError):
        job.store.commit(entry, previous=None, writes=[write])
    job.run((sink, [[(1, 1)]]))
    assert harness.rows(sink) == [(1, 1)]
