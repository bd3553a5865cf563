"""Transactions as their coordinator sees them: who owns a transactional id, what is in its transaction, how it ends.

API keys: FindCoordinator 10 (key type 1), InitProducerId 22 (v3 to v4), AddPartitionsToTxn 24 (v3), AddOffsetsToTxn 25,
TxnOffsetCommit 28 (v3), EndTxn 26 (v3), DescribeTransactions 65 (KIP-664).

Relied on, and tried on a real broker (``tests/real/kafka/test_transactions.py``):

- InitProducerId without producer id and epoch is a *take-over*: what was open is aborted, the old owner is fenced.
  Until that is done the answer is CONCURRENT_TRANSACTIONS, so once it succeeds nothing is undecided.
- With them it is a *compare-and-bump* (KIP-360): the next epoch, or PRODUCER_FENCED if somebody took over. Sent twice
  because an answer was lost, it gives the same epoch. An epoch that is used up (32,766) gives a new producer id.
- EndTxn sent twice at one epoch succeeds twice, **as long as nobody opens another transaction at this epoch**: a second
  EndTxn would end that one (KAFKA-17754). Hence a fresh epoch for every transaction, and resending is safe.
- AddPartitionsToTxn opens the transaction. Only the driver sends it.
- DescribeTransactions answers 105 for an id that nobody has initialised, or that has expired.

Every request here may be sent again when its answer does not come, and is, for a limited time. What that limit leaves
open is the caller's to settle: a lost answer is no failure.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.errors.kafka import TransactionFencedError, TransactionStateError
from directkafka.kafka.admin.topics import check_answered
from directkafka.kafka.network.auth_errors import rights_needed
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.protocol.error_codes import ErrorClass, ErrorCode, broker_error, error_class_of, error_name
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.offsets import TopicPartition

_TRANSACTION = 1
#: The right that a request needs on its topics, where that is not WRITE.
_RIGHTS = {"TxnOffsetCommit": "READ"}
#: Codes that are about single topics.
_ABOUT_TOPICS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})

#: Waits between two tries, in seconds: a coordinator that finishes the transaction before needs some milliseconds.
_BUSY_S = 0.01
_BUSY_S_MAX = 0.5

_COMMITTED = ("PrepareCommit", "CompleteCommit")


class Coordinator:
    """Asks the coordinator of one transactional id; finds it, and finds it again when it has moved.

    Every method raises, beside what it names itself:

    - :class:`TransactionFencedError`: another producer owns the id (47, 49, 90), or the broker gave the transaction up.
    - :class:`TransactionStateError`: the transaction is in another state (48).
    - :class:`BrokerResponseError`: a refusal, for example 53 without the right; or no other answer in time.
    - :class:`BrokerUnreachableError`: **no answer in time: the request may have been applied**.

    Args:
        client: the connections to use; stays open when this is done.
        transactional_id: whose transactions.
        transaction_timeout_ms: after which the broker gives an open transaction up, in milliseconds.
        retry_ms_max: how long a request is sent again, in milliseconds.
    """

    def __init__(
        self, client: KafkaClient, transactional_id: str, *, transaction_timeout_ms: int, retry_ms_max: int = 60_000
    ) -> None:
        self._client = client
        self._id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._retry_s_max = retry_ms_max / 1000
        self._nodes: dict[tuple[str, int], int] = {}

    def take_over(self) -> ProducerIdentity:
        """Become the owner, whoever was; when this returns, nothing of an older owner is open or undecided."""
        return self._init_producer_id(ProducerIdentity(producer_id=-1, epoch=-1, transactional_id=self._id))

    def is_known(self) -> bool:
        """Whether the id was ever used; it is forgotten after ``transactional.id.expiration.ms``, 7 days by default."""
        return self._described() is not None

    def may_have_committed(self) -> bool:
        """Whether a transaction of the id may have been committed; not if it is not known (any more).

        A transaction that is committed leaves its mark until the next one, which has a higher epoch here.
        """
        state = self._described()
        return state is not None and (state.producer_epoch > 0 or state.transaction_state in _COMMITTED)

    def _described(self) -> Any:
        nobody = ProducerIdentity(producer_id=-1, epoch=-1, transactional_id=self._id)
        try:
            response = self._ask(
                "DescribeTransactions",
                nobody,
                lambda response: response.transaction_states[0].error_code,
                transactional_ids=[self._id],
            )
        except BrokerResponseError as error:
            if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            raise
        return response.transaction_states[0]

    def bump_epoch(self, identity: ProducerIdentity) -> ProducerIdentity:
        """A fresh epoch for the owner; its transaction must have been ended before.

        Raises:
            TransactionFencedError: it is the owner no more.
        """
        return self._init_producer_id(identity)

    def add_partitions(self, identity: ProducerIdentity, partitions: Collection[TopicPartition]) -> None:
        """Take partitions into the transaction, which the first of them opens: all of them, or none.

        Raises:
            BrokerResponseError: also a topic that may not be written to, or is not there for too long; it is named.
        """
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic_partition in sorted(partitions):
            by_topic[topic_partition.topic].append(topic_partition.partition)

        answered: dict[TopicPartition, int] = {}

        def code(response: Any) -> int:
            answered.clear()
            for topic in response.results_by_topic_v3_and_below:
                for partition in topic.results_by_partition:
                    answered[TopicPartition(topic.name, partition.partition_index)] = partition.partition_error_code
            return _worst(answered.values())

        with _naming_topics(answered):
            self._ask(
                "AddPartitionsToTxn",
                identity,
                code,
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=[{"name": name, "partitions": indexes} for name, indexes in by_topic.items()],
            )
        check_answered("AddPartitionsToTxn", partitions, answered)

    def commit_offsets(
        self, identity: ProducerIdentity, group: str, offsets: Mapping[TopicPartition, int]
    ) -> frozenset[TopicPartition]:
        """Commit a consumer group's offsets with the transaction, without being a member of the group (KIP-98).

        Returns:
            Those that the group did not get because the cluster has no such partition; it has the others.

        Raises:
            BrokerResponseError: the group, or one of the topics, may not be used so. The transaction stays as it was,
                and can be committed: it has the other topics' offsets, or none.
        """
        who: dict[str, Any] = {
            "transactional_id": self._id,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
            "group_id": group,
        }
        self._ask("AddOffsetsToTxn", identity, lambda response: response.error_code, **who)
        by_topic: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for topic_partition, offset in sorted(offsets.items()):
            by_topic[topic_partition.topic].append(
                {"partition_index": topic_partition.partition, "committed_offset": offset, "committed_metadata": ""}
            )
        answered: dict[TopicPartition, int] = {}

        def code(response: Any) -> int:
            answered.clear()
            for topic in response.topics:
                for partition in topic.partitions:
                    answered[TopicPartition(topic.name, partition.partition_index)] = partition.error_code
            # A topic that is gone does not come back by being waited for.
            return _worst(code for code in answered.values() if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

        with _naming_topics(answered):
            self._ask(
                "TxnOffsetCommit",
                identity,
                code,
                node_of=(group, 0),
                generation_id=-1,
                member_id="",
                topics=[
                    {"name": name, "partitions": partition_entries} for name, partition_entries in by_topic.items()
                ],
                **who,
            )
        check_answered("TxnOffsetCommit", offsets, answered)
        return frozenset(
            partition for partition, code in answered.items() if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    def end(self, identity: ProducerIdentity, *, commit: bool) -> None:
        """Commit or abort the transaction of this epoch; a repeated call at the same epoch changes nothing."""
        self._ask(
            "EndTxn",
            identity,
            lambda response: response.error_code,
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )

    def _init_producer_id(self, identity: ProducerIdentity) -> ProducerIdentity:
        response = self._ask(
            "InitProducerId",
            identity,
            lambda answer: answer.error_code,
            transactional_id=self._id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
        )
        return ProducerIdentity(
            producer_id=response.producer_id, epoch=response.producer_epoch, transactional_id=self._id
        )

    def _ask(
        self,
        api: str,
        identity: ProducerIdentity,
        code_of: Callable[[Any], int],
        *,
        node_of: tuple[str, int] | None = None,
        **values: Any,
    ) -> Any:
        """Send a request until its answer is a decision, or time is up."""
        key = node_of or (self._id, _TRANSACTION)
        group = values.get("group_id")
        subject = f"transactional id {self._id}" + (f", group {group}" if group else "")
        deadline = time.monotonic() + self._retry_s_max
        pause_s = _BUSY_S
        while True:
            unanswered: BrokerUnreachableError | None = None
            code: int = ErrorCode.NONE
            try:
                code = self._find(key)
                if code == ErrorCode.NONE:
                    response = self._client.call(api, self._nodes[key], **values)
                    code = code_of(response)
            except BrokerUnreachableError as error:
                unanswered = error
            error_class = ErrorClass.MOVED if unanswered else error_class_of(code)
            if error_class is ErrorClass.DONE:
                return response
            if error_class is ErrorClass.MOVED:
                self._nodes.pop(key, None)
            elif error_class is not ErrorClass.AGAIN:
                raise self._refusal(api, code, identity, subject)
            if time.monotonic() + pause_s > deadline:
                raise unanswered or self._refusal(api, code, identity, subject)
            time.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(_BUSY_S_MAX, pause_s * 2)

    def _find(self, key: tuple[str, int]) -> int:
        """Find who coordinates a transactional id or a group, if that is not known; the answer's error code."""
        if key in self._nodes:
            return ErrorCode.NONE
        name, kind = key
        response = self._client.call("FindCoordinator", key=name, key_type=kind)
        if response.error_code == ErrorCode.NONE:
            # A coordinator is one of the brokers, but its address may not be known yet.
            self._client.call("Metadata", topics=[], allow_auto_topic_creation=False)
            self._nodes[key] = int(response.node_id)
        return int(response.error_code)

    def _refusal(
        self, api: str, code: int, identity: ProducerIdentity, subject: str
    ) -> BrokerResponseError | TransactionFencedError | TransactionStateError:
        error_class = error_class_of(code)
        if error_class in (ErrorClass.FENCED, ErrorClass.STATE):
            kind = TransactionFencedError if error_class is ErrorClass.FENCED else TransactionStateError
            return kind(
                api=api,
                transactional_id=self._id,
                producer_id=identity.producer_id,
                epoch=identity.epoch,
                code=code,
                name=error_name(code),
            )
        remedy = rights_needed(code, self._client.options, topic_right=_RIGHTS.get(api, "WRITE"))
        error = broker_error(api, code, subject, remedy=remedy)
        return replace(error, retriable=error_class is not ErrorClass.REFUSED)


@contextmanager
def _naming_topics(answered: Mapping[TopicPartition, int]) -> Iterator[None]:
    """Put the topics' names into a refusal that is about some of them."""
    try:
        yield
    except BrokerResponseError as error:
        if error.code not in _ABOUT_TOPICS:
            raise
        topics = sorted({topic_partition.topic for topic_partition, code in answered.items() if code == error.code})
        raise replace(error, subject=f"{error.subject}, topic {', '.join(topics)}") from None


def _worst(codes: Iterable[int]) -> int:
    """The code that decides: one that cannot pass before one that may."""
    failed = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    passing = (ErrorClass.AGAIN, ErrorClass.MOVED)
    return min(failed, key=lambda code: error_class_of(code) in passing, default=ErrorCode.NONE)
