"""The ledger in Kafka: a batch's rows and its ledger record in one transaction of the cluster.

The rules are told where they are kept: fresh epochs and two drivers in
:mod:`directkafka.sinks.kafka.transaction_manager`, how the ledger is read in
:mod:`directkafka.sinks.kafka.ledger_topic`, one writer for each partition in
:mod:`directkafka.sinks.kafka.transaction`, which attempt of a task may write in
:mod:`directkafka.kafka.transactions.attempt_fencing`.

Names: topic ``directkafka.ledger.<pipeline>``, transactional id ``directkafka.<pipeline>``; an option changes their
beginning. Rights (ACLs) the user needs: WRITE and DESCRIBE on the transactional id; CREATE, DESCRIBE,
DESCRIBE_CONFIGS, READ and WRITE on the ledger's topic; DESCRIBE and WRITE on the topics of the rows; READ on a group
that is committed to.

Brokers must be of 3.6 or later, which is looked at before anything is written; see
:mod:`directkafka.sinks.kafka.requirements`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

from directkafka.errors import BrokerResponseError, KafkaError, OptionError
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.admin.configs import look_at_brokers, topic_settings
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.offsets import TopicPartition
from directkafka.options.producer import NAME_PREFIX, TransactionOptions, is_ledger_topic, ledger_topic
from directkafka.options.texts import fault_of_topic
from directkafka.sinks.api import BatchAttempt, LedgerEntry, Sink, TaskReport, TransactionalStore
from directkafka.sinks.commit import LedgerStore, Write
from directkafka.sinks.kafka.errors import SIZE_LIMIT, refused_batch, translate, with_smaller_batches
from directkafka.sinks.kafka.requirements import ASKED, check_brokers
from directkafka.sinks.kafka.transaction import KafkaTransaction
from directkafka.sinks.kafka.transaction_manager import TransactionManager
from directkafka.sinks.ledger import PipelineState, check_stands


class TopicSink(Protocol):
    """What this store asks of a sink of its own; see :class:`directkafka.sinks.kafka.sink.KafkaSink`."""

    @property
    def own_topics(self) -> tuple[str, ...]:
        """Topics that are the sink's, whether a batch has rows for them or not."""


log = logging.getLogger("directkafka.sinks.kafka.store")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """A transaction on its way to its end, for whom, and what the ledger will have of it."""

    transaction: KafkaTransaction
    owner: TransactionManager
    commit_id: str
    #: What a consumer group is told.
    ends: Mapping[TopicPartition, int]


class KafkaStore(LedgerStore[_Commit], TransactionalStore):
    """A Kafka cluster as the place where a pipeline commits; see the module's text.

    Args:
        kafka_params: Kafka's dotted client names, those of producers included.
        name_prefix: what the names of the ledger's topic and of the transactional id begin with.
        ledger_replicas: of the ledger's topic when it is made; None: as many as the cluster's own log of transactions.
        accept_empty_ledger: id of the ledger's topic, where it is empty although the pipeline has run before, and the
            pipeline is to begin anew; the error that refuses it names the id.
        fence_timeout_s: bound on fencing, in seconds, while another driver does the same.
        resolve_timeout_s: how long a coordinator is asked again, in seconds, before its answer counts as lost.

    Raises:
        OptionError: a name that nobody knows, or a value out of bounds.
    """

    def __init__(
        self,
        kafka_params: Mapping[str, object],
        *,
        name_prefix: str = NAME_PREFIX,
        ledger_replicas: int | None = None,
        accept_empty_ledger: str | None = None,
        fence_timeout_s: float = 30.0,
        resolve_timeout_s: float = 30.0,
    ) -> None:
        super().__init__()
        self.options = TransactionOptions.from_kafka_params(kafka_params, where="a Kafka sink")
        if ledger_replicas is not None and ledger_replicas < 1:
            reason = f"a topic has 1 replica or more, not {ledger_replicas}"
            raise OptionError(option="ledger_replicas", where="a Kafka sink", reason=reason)
        if fault := fault_of_topic(ledger_topic("", name_prefix)):
            raise OptionError(option="name_prefix", where="a Kafka sink", reason=fault)
        self.label = f"kafka {','.join(self.options.client.bootstrap_servers)}"
        self._ledger_replicas = ledger_replicas
        self._accepted_ledger = accept_empty_ledger
        self._name_prefix = name_prefix
        self._fence_timeout_s = fence_timeout_s
        self._resolve_timeout_s = resolve_timeout_s
        self._driver = uuid.uuid4().hex
        self._owners: dict[str, TransactionManager] = {}
        self._client: KafkaClient | None = None
        self._cluster_id = ""
        self._is_checked = False
        #: Why a group's offsets were last refused; empty if they were not.
        self._group_refusals: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"KafkaStore({self.label!r})"

    @property
    def client(self) -> KafkaClient:
        """The connections; made again after :meth:`close`."""
        if self._client is None:
            self._client = KafkaClient(self.options.client)
            for owner in self._owners.values():
                owner.connect(self._client)
        return self._client

    @property
    def identity(self) -> str:
        """The cluster's id, and what its names begin with; asked once."""
        return f"kafka/{self.cluster_id}/{self._name_prefix}"

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster; asked once."""
        if not self._cluster_id:
            with translate(self.label):
                admin = AdminClient(self.client)
                admin.topics([])
                self._cluster_id = admin.cluster_id
        return self._cluster_id

    def check(self) -> None:
        """Look whether the brokers can do what is asked of them, once; nothing is written.

        Raises:
            EnvironmentFaultError: they are too old, or too new.
            StoreUnavailableError, StoreAccessError: they cannot be asked.
        """
        if not self._is_checked:
            with translate(self.label):
                for warning in check_brokers(look_at_brokers(self.client, ASKED)):
                    log.warning("%s: %s", self.label, warning)
            self._is_checked = True

    def is_ledger(self, topic: str) -> bool:
        """Whether a topic is a pipeline's ledger, by its name: this one's, or another's."""
        return is_ledger_topic(topic, self._name_prefix)

    def ledger_of(self, pipeline: str) -> str:
        """The topic of a pipeline's ledger."""
        return ledger_topic(pipeline, self._name_prefix)

    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        """Step 1; see :meth:`directkafka.sinks.api.Store.fence`.

        Raises:
            FencedError: the ledger already has the generation given, or a higher one.
            SchemaMismatchError: the ledger's topic was deleted or emptied, is not compacted, or has several partitions.
            OptionError: ``transaction.timeout.ms`` is more than the brokers allow.
            EnvironmentFaultError: the brokers are too old.
            StoreAccessError: a right is missing.
        """
        self.check()
        with translate(self.label):
            return self._owner(pipeline).fence(generation)

    def state(self, pipeline: str) -> PipelineState:
        """What the ledger says by now; once fenced, with nothing left undecided."""
        with translate(self.label):
            return self._owner(pipeline).read()

    def begin(self, batch: BatchAttempt, sink: Sink) -> KafkaTransaction:
        """Open the batch's transaction before its tasks write; see :class:`directkafka.sinks.api.TransactionalStore`.

        Raises:
            FencedError: a newer driver owns the pipeline.
        """
        with translate(self.label):
            owner = self._owner(batch.pipeline)
            transaction = owner.begin(batch.attempt)
            if transaction.has_writer(sink.name):
                owner.abort()
                transaction = owner.begin(batch.attempt)
            return transaction

    def abort_with_cause(self, batch: BatchAttempt, cause: BaseException) -> None:
        """Abort the batch's transaction after a failure; see :class:`directkafka.sinks.api.TransactionalStore`.

        Raises:
            FencedError: the failure was a newer driver's doing.
            StoreUnavailableError: the broker gave the transaction up; the batch may be tried again.
        """
        with translate(self.label):
            self._owner(batch.pipeline).abort_with_cause(cause)
            self._learn(self._owner(batch.pipeline), cause)
            if isinstance(cause, KafkaError):
                raise cause

    def abort(self, batch: BatchAttempt) -> None:
        """Abort the batch's transaction if it is open still; see :class:`directkafka.sinks.api.TransactionalStore`."""
        if batch.pipeline in self._owners:
            self._owners[batch.pipeline].abort(batch.attempt)

    @contextmanager
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> Iterator[_Commit]:
        """Begin, or join the transaction that the batch's tasks have written in; an error aborts it.

        Raises:
            TransactionTooSlowError: the rows took longer than the transaction may; rolled back.
        """
        owner = self._owner(entry.pipeline)
        with translate(self.label):
            try:
                transaction = owner.begin(writes[0][1].attempt if writes else "")
                for sink, _, _ in writes:
                    # Before any row is looked at: what is refused does not depend on which sinks have rows.
                    transaction.reserve(cast("TopicSink", sink).own_topics, sink=sink.name)
                yield _Commit(transaction=transaction, owner=owner, commit_id=commit_id, ends=entry.ends())
            except BaseException as error:
                owner.abort_with_cause(error)
                self._learn(owner, error)
                raise

    def advance(self, transaction: _Commit, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        """Look at the record that the transaction was begun behind."""
        check_stands(entry, previous, transaction.owner.state, store=self.label)

    def apply(self, transaction: _Commit, sink: Sink, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Write what the tasks have not, and tell the sink's consumer group."""
        with translate(self.label, sink=sink.name):
            rows = sink.apply(transaction.transaction, batch, reports)
        # A replay's entry has no ends: its records were read by the pipeline, which has told of them.
        group = sink.capabilities.offsets_group
        if group and transaction.ends:
            self._tell_group(transaction.transaction, group, transaction.ends)
        return rows

    def end(self, transaction: _Commit, committed: LedgerEntry) -> None:
        """The ledger's record, and EndTxn; an answer that did not come is settled there."""
        state = PipelineState(
            generation=committed.generation, driver=self._driver, commit_id=transaction.commit_id, entry=committed
        )
        transaction.owner.commit(transaction.transaction, state)

    def is_undecided(self, error: BaseException, *, was_asked: bool) -> bool:
        """Never: :meth:`TransactionManager.commit` settles."""
        return False

    def pipelines(self) -> tuple[str, ...]:
        """Those that have a ledger's topic with a batch in it."""
        with translate(self.label):
            start = self.ledger_of("")
            names = [topic.removeprefix(start) for topic in AdminClient(self.client).topics() if self.is_ledger(topic)]
            return tuple(name for name in sorted(names) if self.state(name).entry is not None)

    def force_durable(self) -> None:
        """Nothing to do: every write waits for all in-sync replicas. How many there must be is the topics' setting."""

    def close(self) -> None:
        """Abort what is open and close the connections; the fence stays."""
        for owner in self._owners.values():
            owner.abort()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _owner(self, pipeline: str) -> TransactionManager:
        client = self.client
        if pipeline not in self._owners:
            self._owners[pipeline] = TransactionManager(
                client,
                self.options,
                pipeline,
                name_prefix=self._name_prefix,
                driver=self._driver,
                store=self.label,
                fence_timeout_s=self._fence_timeout_s,
                retry_ms_max=round(self._resolve_timeout_s * 1000),
                ledger_replicas=self._ledger_replicas,
                accepted_ledger=self._accepted_ledger,
            )
        return self._owners[pipeline]

    def _tell_group(self, transaction: KafkaTransaction, group: str, ends: Mapping[TopicPartition, int]) -> None:
        """Commit the source's offsets for lag tools; what is refused is said once, and stops nothing.

        Java's producer must abort the transaction then: its position is these offsets. Here it is the ledger.
        The broker's side is in order either way: the group's part of the transaction has what was taken, or nothing.
        (Not without an answer: offsets that arrive late would be in no transaction. The batch is then tried again.)
        """
        try:
            missing = transaction.commit_offsets(group, ends)
        except BrokerResponseError as error:
            if error.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
            refusal = str(error)
        else:
            topics = sorted({partition.topic for partition in missing})
            refusal = f"the cluster has no longer all partitions of {', '.join(topics)}" if topics else ""
        if refusal and self._group_refusals.get(group) != refusal:
            log.warning("group %s lacks offsets of committed batches, which changes nothing else: %s", group, refusal)
        self._group_refusals[group] = refusal

    def _learn(self, owner: TransactionManager, cause: BaseException) -> None:
        """From a record batch that was too large: the next try has smaller ones."""
        if (refused := refused_batch(cause)) is None:
            return
        size_limit = topic_settings(self.client, refused.topic, [SIZE_LIMIT]).get(SIZE_LIMIT)
        owner.options = with_smaller_batches(owner.options, refused, None if size_limit is None else int(size_limit))
        log.warning(
            "topic %s takes no record batch of %d bytes (its %s is %s): the rows are written again, from now on in "
            "batches of %d bytes before compression. Set kafka.batch.size so to spare the first try",
            refused.topic, refused.size_bytes, SIZE_LIMIT, size_limit or "not to be seen by this user",
            owner.options.producer.batch_size_bytes,
        )  # fmt: skip
