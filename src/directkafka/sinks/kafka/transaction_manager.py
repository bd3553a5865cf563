"""The transaction manager of one pipeline, for one driver: it keeps the transactional id, the epoch and the ledger.

How two drivers are kept from both writing. A fence takes the pipeline's transactional id over (InitProducerId), which
aborts what the older driver had open, and then commits a record with a higher generation to the ledger, in a
transaction. From then on the coordinator refuses each step of the older driver (error codes 47, 90): its epoch is not
the newest.

A refusal does not say why. The cause may be a newer driver, another driver's unfinished fence, or a broker that aborted
a transaction that took too long. So the refused driver first reads the ledger as it stands: if the generation there is
higher, it stops, and has not disturbed the newer driver. Otherwise it takes the id over, **once**, reads the settled
ledger, and stops if the generation is higher now. So two drivers take the id from each other only until one has fenced.

Every transaction has a fresh epoch. Sequence of events that this prevents: EndTxn of batch n is delayed; the driver
sends it again, which succeeds, and opens the transaction of batch n+1 at the same epoch; now the delayed EndTxn
arrives, and commits half of batch n+1 (KAFKA-17754).
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import replace
from typing import Final

from directkafka.errors import (
    BrokerAccessError,
    BrokerResponseError,
    BrokerUnreachableError,
    CommitUnknownError,
    EnvironmentFaultError,
    FencedError,
    FetchTimeoutError,
    KafkaError,
    OptionError,
    StoreUnavailableError,
)
from directkafka.errors.kafka import (
    ProducerFencedError,
    ProducerStateError,
    TransactionFencedError,
    TransactionStateError,
)
from directkafka.fault_points import fault_point
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.options.producer import TransactionOptions, ledger_topic
from directkafka.sinks.kafka.ledger_topic import LedgerTopic, record_of
from directkafka.sinks.kafka.lost_ledger import check_is_not_lost
from directkafka.sinks.kafka.transaction import KafkaTransaction
from directkafka.sinks.ledger import PipelineState

#: Errors of a driver that does not own the transaction any more, for whatever reason.
REFUSED_AS_OLD: Final = (ProducerFencedError, ProducerStateError, TransactionFencedError, TransactionStateError)

#: Errors after which it is not known whether EndTxn was applied.
_UNANSWERED: Final = (BrokerUnreachableError, BrokerResponseError, FetchTimeoutError)

#: Errors of a connection that was lost and cannot be made again: a login is refused, a certificate or a folder for it
#: is gone.
_NOT_CONNECTED: Final = (BrokerAccessError, OptionError, EnvironmentFaultError)

_FENCE_PAUSE_S_MAX: Final = 0.2

log = logging.getLogger("directkafka.sinks.kafka.store")


class TransactionManager:
    """Fences, opens transactions and ends them, for one pipeline.

    Args:
        client: the connections to use; stays open when this is done.
        options: connection, sizes, timeout.
        pipeline: the pipeline's name.
        name_prefix: what the names of the ledger's topic and of the transactional id begin with.
        driver: a UUID of the store object, as hex.
        store: the store's label, for messages.
        fence_timeout_s: bound on fencing while another driver does the same, in seconds.
        retry_ms_max: for how long a request to the coordinator is sent again, in milliseconds.
        ledger_replicas: number of replicas of the ledger's topic when it is made; None: see
            :mod:`directkafka.sinks.kafka.requirements`.
        accepted_ledger: id of the ledger's topic that may be empty; see :mod:`directkafka.sinks.kafka.lost_ledger`.
    """

    def __init__(
        self,
        client: KafkaClient,
        options: TransactionOptions,
        pipeline: str,
        *,
        name_prefix: str,
        driver: str,
        store: str,
        fence_timeout_s: float,
        retry_ms_max: int,
        ledger_replicas: int | None = None,
        accepted_ledger: str | None = None,
    ) -> None:
        #: Of the transactions that are opened from now on.
        self.options = options
        self._pipeline = pipeline
        self._driver = driver
        self._store = store
        self._fence_timeout_s = fence_timeout_s
        self._name_prefix = name_prefix
        self._retry_ms_max = retry_ms_max
        self._ledger_replicas = ledger_replicas
        self._accepted_ledger = accepted_ledger
        self.connect(client)
        #: The generation held; 0 before the fence.
        self.held = 0
        #: The generation of a fence that was sent and not answered.
        self._attempted: int | None = None
        #: The ledger as last read while nothing was undecided, or as last written.
        self.state = PipelineState()
        self._read_until = -1
        self._identity: ProducerIdentity | None = None
        #: Whether nothing was opened yet under the identity's epoch.
        self._is_fresh = False
        self._transaction: KafkaTransaction | None = None

    def connect(self, client: KafkaClient) -> None:
        """Use these connections from now on; what is held stays."""
        topic = ledger_topic(self._pipeline, self._name_prefix)
        self._ledger = LedgerTopic(client, topic, self._pipeline, store=self._store, replicas=self._ledger_replicas)
        self._coordinator = Coordinator(
            client,
            f"{self._name_prefix}.{self._pipeline}",
            transaction_timeout_ms=self.options.timeout_ms,
            retry_ms_max=self._retry_ms_max,
        )

    # Step 1.

    def fence(self, generation: int | None) -> int:
        """Take the pipeline over; the generation held from now on.

        Raises:
            FencedError: the ledger already has the generation given, or a higher one.
            SchemaMismatchError: the ledger is gone or empty, or its topic is not as it must be.
            StoreUnavailableError: another driver was fencing all the time.
            KafkaError: untranslated.
        """
        deadline = time.monotonic() + self._fence_timeout_s
        # Checked once, before the loop: each try below makes the id known, and two drivers raise its epoch by taking it
        # from each other.
        check_is_not_lost(self._ledger, self._coordinator, accepted=self._accepted_ledger)
        while True:
            try:
                self.held = self._fence_once(generation)
                self._attempted = None
                return self.held
            except FencedError:
                # The ledger is past it: a later run of this process takes the next one.
                self._attempted = None
                raise
            except REFUSED_AS_OLD as error:
                log.info("pipeline %s: another driver fences at the same time: %s", self._pipeline, error)
                if time.monotonic() > deadline:
                    cause = f"another driver has been fencing for {self._fence_timeout_s:g} s ({error})"
                    raise StoreUnavailableError(store=self._store, cause=cause) from error
                # Of different length, so that the two do not meet again.
                time.sleep(random.uniform(0.0, _FENCE_PAUSE_S_MAX))

    def _fence_once(self, generation: int | None) -> int:
        # If the answer to a fence was lost, in this try or an earlier one, the same generation is asked for again: the
        # next one could fence a newer driver.
        generation = self._attempted if generation is None else generation
        self._check_free(self._ledger.read_stable_tail(), generation)
        self._ledger.ensure()
        self.abort()
        self._take_over()
        fault_point("fence.taken")
        self._check_free(self.state, generation)
        if self._is_mine(self.state, generation):
            # The answer to this driver's own fence was lost.
            return self.state.generation
        wanted = self.state.generation + 1 if generation is None else generation
        state = replace(self.state, generation=wanted, driver=self._driver)
        transaction = self._open("fence")
        self._write(transaction, state)
        # Not before: what was never ended, nobody has.
        self._attempted = wanted
        transaction.end(commit=True)
        self._committed(transaction, state)
        return wanted

    def _is_mine(self, state: PipelineState, generation: int | None) -> bool:
        return state.generation == generation and state.driver == self._driver

    def _check_free(self, state: PipelineState, generation: int | None) -> None:
        if generation is not None and state.generation >= generation and not self._is_mine(state, generation):
            raise FencedError(store=self._store, pipeline=self._pipeline, held=generation, found=state.generation)

    # Step 2.

    def read(self) -> PipelineState:
        """The newest record's state; once this driver has fenced, read only when nothing is undecided.

        Raises:
            FencedError: a newer driver has fenced since.
            SchemaMismatchError: the ledger lacks this driver's own fence.
        """
        standing = self._ledger.read_stable_tail()
        if not self.held:
            return standing
        self.check_held(standing)
        if not self._ledger.is_known():
            self._check_is_there(PipelineState())
        # EndTxn is answered before its markers are written, so the last stable offset may lag behind.
        state = self._ledger.read_committed_tail(self._ledger.end())
        self.check_held(state)
        self._check_is_there(state)
        return state

    def check_held(self, state: PipelineState) -> None:
        """Raise when the record is of a newer driver."""
        if state.generation > self.held:
            raise FencedError(store=self._store, pipeline=self._pipeline, held=self.held, found=state.generation)

    def _check_is_there(self, state: PipelineState) -> None:
        """Refuse a ledger that has lost this driver's fence: to take it for a new one would write all rows again."""
        if state.generation < self.held:
            raise self._ledger.wrong(
                f"has generation {state.generation}, this driver wrote {self.held}: it was deleted or restored. Find "
                "out what is committed, and give the pipeline another name to begin anew"
            )

    # Steps 3 and 4.

    def begin(self, attempt: str) -> KafkaTransaction:
        """A transaction for one try of a batch; if one was begun for this try already, that one.

        Args:
            attempt: id of the try; with the empty text, a new transaction is begun in any case.

        Raises:
            FencedError: a newer driver owns the pipeline.
        """
        if self._transaction is not None and self._transaction.attempt == attempt != "":
            return self._transaction
        self.abort()
        if self._identity is None or not self._is_fresh:
            self._refresh()
        fault_point("transaction.fresh")
        end = self._ledger.end()
        if end != self._read_until:
            self.state, self._read_until = self._ledger.read_committed_tail(end), end
        self.check_held(self.state)
        return self._open(attempt)

    def commit(self, transaction: KafkaTransaction, state: PipelineState) -> None:
        """Write the ledger record into the transaction, and commit the transaction; it is committed when this returns.

        Raises:
            FencedError: a newer driver owns the pipeline; its ``fate`` says whether the batch may be committed.
            StoreUnavailableError: the batch is not committed, and another try may succeed.
            CommitUnknownError: no answer came, and the ledger cannot be read.
            RowCountError, KafkaError: not committed.
        """
        self._write(transaction, state)
        transaction.check_budget()
        fault_point("commit.ledger_produced")
        try:
            transaction.end(commit=True)
        except (*REFUSED_AS_OLD, *_UNANSWERED, *_NOT_CONNECTED) as error:
            self._settle(state, error)
        self._committed(transaction, state)

    def abort_with_cause(self, cause: BaseException) -> None:
        """Abort what is open after a failure. If ``cause`` is a refusal, find out why; otherwise just return.

        Raises:
            FencedError: a newer driver owns the pipeline.
            TransactionTooSlowError: the transaction has used up its time, so that the broker may have aborted it.
            StoreUnavailableError: neither, and another try may succeed.
        """
        transaction = self._transaction
        self.abort()
        is_old = isinstance(cause, REFUSED_AS_OLD) or isinstance(cause.__cause__, REFUSED_AS_OLD)
        # Without an open transaction, :meth:`begin` or :meth:`commit` has dealt with the failure.
        if transaction is not None and is_old:
            self._reacquire()
            transaction.check_budget()
            raise StoreUnavailableError(store=self._store, cause=str(cause).rstrip(".")) from cause

    def abort(self, attempt: str | None = None) -> None:
        """Abort the open transaction, if there is one; a broker that does not answer does so after the timeout.

        Args:
            attempt: abort only the transaction of this try; None: whichever is open.
        """
        if self._transaction is None or attempt not in (None, self._transaction.attempt):
            return
        transaction, self._transaction = self._transaction, None
        transaction.close()
        if transaction.is_open:
            try:
                transaction.end(commit=False)
            except (KafkaError, *_NOT_CONNECTED) as error:
                log.info("pipeline %s: its transaction could not be aborted: %s", self._pipeline, error)

    def _open(self, attempt: str) -> KafkaTransaction:
        assert self._identity is not None, "an identity comes first"
        self._is_fresh = False
        self._transaction = KafkaTransaction(
            self._coordinator,
            self._identity,
            self.options,
            attempt=attempt,
            ledger=self._ledger.topic_partition,
            ledger_end=self._read_until,
        )
        return self._transaction

    def _write(self, transaction: KafkaTransaction, state: PipelineState) -> None:
        transaction.add([self._ledger.topic_partition])
        if transaction.is_shared:
            transaction.write_ledger(self._ledger.claims(transaction.ledger_end))
        # Written last, so that the newest record is the state.
        transaction.write_ledger(record_of(self._pipeline, state))
        transaction.flush(store=self._store)
        self._read_until = -1
        self._ledger.check_is_newest(transaction.ledger_offset(), transaction.ledger_end)

    def _committed(self, transaction: KafkaTransaction, state: PipelineState) -> None:
        self.state = state
        # One record and its commit marker. If tasks have written claims too, the end is further on, and :meth:`begin`
        # reads again.
        self._read_until = transaction.ledger_end + 2
        self._transaction = None

    # Epochs.

    def _refresh(self) -> None:
        """Take a fresh epoch, which no other driver can have.

        A coordinator compares epochs only while no transaction is open. Asked by an older driver while the newer
        driver's transaction is open, it aborts that transaction, and only then refuses the older driver. So the ledger
        is read before the coordinator is asked.
        """
        if self._identity is not None:
            if self._ledger.end() != self._read_until:
                self.check_held(self._ledger.read_stable_tail())
            try:
                self._identity = self._coordinator.bump_epoch(self._identity)
            except REFUSED_AS_OLD as error:
                log.warning("pipeline %s: %s", self._pipeline, error)
            else:
                self._is_fresh = True
                return
        self._reacquire()

    def _reacquire(self) -> None:
        """Look whether a newer driver is there; if not, take the transactional id over, and look again."""
        self.check_held(self._ledger.read_stable_tail())
        self._take_over()
        self.check_held(self.state)

    def _take_over(self) -> None:
        self._identity = self._coordinator.take_over()
        self._is_fresh = True
        self._read_until = self._ledger.end()
        self.state = self._ledger.read_committed_tail(self._read_until)

    # The third outcome: no answer.

    def _settle(self, state: PipelineState, cause: Exception) -> None:
        """Decide what became of a transaction whose EndTxn was not answered with success; return if it is committed.

        Whoever takes the transactional id over has waited for the end of what was open, so the ledger is final then: it
        has this commit's id, or it never will. (A newer driver's fence keeps the id of the last commit.)
        """
        self._transaction = None
        assert state.entry is not None, "only a batch is settled"
        try:
            if self._ledger.read_stable_tail().commit_id != state.commit_id:
                self._reacquire()
                if self.state.commit_id != state.commit_id:
                    raise StoreUnavailableError(store=self._store, cause=str(cause).rstrip(".")) from cause
        except FencedError as fenced:
            # The newer driver may have committed since, so the last commit id in the ledger does not tell.
            fate = (
                f"No answer came to this driver's commit of batch {state.entry.batch_id}, so it may be committed or "
                "not; the newer driver has read which, and goes on from there: nothing is lost or doubled."
            )
            raise replace(fenced, fate=fate) from cause
        except (KafkaError, *_NOT_CONNECTED) as error:
            raise CommitUnknownError(
                store=self._store,
                pipeline=self._pipeline,
                batch_id=state.entry.batch_id,
                cause=f"{cause}; then {error}",
            ) from error
        log.info("pipeline %s: the answer to EndTxn was lost, the ledger has the commit", self._pipeline)
