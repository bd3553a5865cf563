"""The ledger's topic: one for each pipeline, compacted, with one partition, made by us.

A topic of its own, because an open transaction hides all that comes after it: in a shared topic one pipeline's
transaction would hide another's entry. Every record is the whole state of the pipeline, under the pipeline's name as
key. A fence is a record too; it repeats the last committed batch's entry, so that the newest record says all.

Two ways to read it:

- **settled**: after InitProducerId succeeded nothing is undecided; the high watermark taken then is read up to, under
  ``read_committed``. Not up to where a consumer says that the partition ends: that may be before an older transaction
  which is being committed.
- **as it stands**: up to the last stable offset, disturbing nobody. Whatever it shows is committed; there may be more.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.arrow_columns import column_of
from directkafka.errors import SchemaMismatchError, StoreUnavailableError
from directkafka.kafka.admin.admin_client import AdminClient, Leader
from directkafka.kafka.admin.configs import look_at_brokers
from directkafka.kafka.admin.known_topics import known_topics, leader_of
from directkafka.kafka.admin.topics import TopicDescription
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network.client import KafkaClient, raise_for
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.kafka.transactions.attempt_fencing import CLAIM
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.sinks.api import FORMAT_VERSION
from directkafka.sinks.kafka.requirements import ASKED, Replicas, in_sync_of, replicas_of
from directkafka.sinks.ledger import PipelineState, check_version, state_from_json, state_to_json

log = logging.getLogger("directkafka.sinks.kafka.store")

#: Of a topic made by us. Small segments, so that the cleaner, which leaves the newest one alone, has work to do; what
#: tasks write here (:mod:`directkafka.kafka.transactions.attempt_fencing`) must outlive any transaction.
_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
    "min.compaction.lag.ms": "3600000",
}
_TOPIC_RESOURCE: Final = 2
_MADE_TIMEOUT_S: Final = 30.0

#: How far back from the end the newest record is looked for first; aborted batches and tasks' claims may lie behind it.
_TAIL: Final = 256
_TAIL_GROWTH: Final = 16
_READ_TIMEOUT_MS: Final = 10_000


def record_of(pipeline: str, state: PipelineState) -> pa.RecordBatch:
    """A record of the ledger's topic: the key is the pipeline's name, the value its state as JSON."""
    version = state.entry.format_version if state.entry else FORMAT_VERSION
    value = json.dumps({"format_version": version, "pipeline": pipeline} | state_to_json(state), separators=(",", ":"))
    return pa.record_batch({"key": column_of([pipeline], pa.binary()), "value": column_of([value], pa.binary())})


def state_of(value: bytes, *, store: str) -> PipelineState:
    """The state in a record's value, as :func:`record_of` writes it.

    Raises:
        SchemaMismatchError: a newer program wrote it, in a format this one does not know; or it is no such record.
    """
    try:
        document = json.loads(value)
        check_version(document["format_version"], document["pipeline"], store=store)
        return state_from_json(document, store=store)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        detail = f"is no record of ours ({type(error).__name__}: {error}); another program writes this topic"
        raise SchemaMismatchError(store=store, sink="the ledger's newest record", detail=detail) from error


class LedgerTopic:
    """The ledger's topic of one pipeline.

    Args:
        client: the connections to use; stays open when this is done.
        topic: its name.
        pipeline: the key of its records.
        store: the store's label, for messages.
        replicas: how many the topic is given when it is made; None: see :mod:`directkafka.sinks.kafka.requirements`.

    Attributes:
        topic: its name.
        topic_partition: its only partition.
    """

    def __init__(
        self, client: KafkaClient, topic: str, pipeline: str, *, store: str, replicas: int | None = None
    ) -> None:
        self._client = client
        self._replicas = replicas
        self._key = column_of([pipeline], pa.binary())[0]
        self._store = store
        self._stable = AdminClient(client, isolation_level="read_committed")
        self._all = AdminClient(client, isolation_level="read_uncommitted")
        self._options: ClientOptions = replace(client.options, isolation_level="read_committed")
        self._uncommitted = replace(client.options, isolation_level="read_uncommitted")
        self.topic = topic
        self.topic_partition = TopicPartition(topic, 0)

    def exists(self) -> bool:
        """Whether the broker that is asked knows the topic."""
        return bool(self._all.topics([self.topic]))

    def is_known(self) -> bool:
        """Whether any broker knows the topic, which somebody had made; several are asked, for three seconds."""
        return bool(known_topics(self._all, [self.topic]))

    def ensure(self) -> None:
        """Make the topic if it is not there, and refuse one that is not as it must be.

        Raises:
            SchemaMismatchError: it has several partitions, or is not compacted; says how to correct that.
            StoreUnavailableError: fewer brokers are up than it is to have replicas, or it gets no leader in time.
            BrokerResponseError: it may not be made, or looked at.
        """
        described = self._all.topics([self.topic]).get(self.topic)
        if described is None:
            if self._make():
                return
            described = self._wait_until_made()
        if len(described.leaders) != 1:
            raise self.wrong(
                f"has {len(described.leaders)} partitions, and must have 1: it needs another name, or to go"
            )
        if (policy := self._cleanup_policy()) != "compact":
            raise self.wrong(
                f"has cleanup.policy={policy}, under which entries are deleted: run kafka-configs.sh --alter "
                f"--topic {self.topic} --add-config cleanup.policy=compact"
            )

    def topic_id(self) -> str:
        """Kafka's UUID of the topic; empty where it is not there."""
        described = known_topics(self._all, [self.topic]).get(self.topic)
        return "" if described is None else described.topic_id

    def has_only_failures(self) -> bool:
        """Of a topic without a committed record: whether it has records, from the first one on, that were aborted."""
        return self.end() > 0 and not self._all.offsets_at({self.topic_partition: -2})[self.topic_partition]

    def end(self) -> int:
        """The high watermark: one past the last record, of whatever fate."""
        offset = self._all.offsets_at({self.topic_partition: -1})[self.topic_partition]
        return offset or 0

    def read_committed_tail(self, end: int) -> PipelineState:
        """The newest committed record before ``end``, the high watermark taken when nothing was undecided.

        Raises:
            FetchTimeoutError: a transaction that is open in the topic hides records: another driver is at it.
        """
        return self._newest(end)

    def read_stable_tail(self) -> PipelineState:
        """The newest record that is committed for certain, without a fence; that of no driver without a topic."""
        if not self.exists():
            return PipelineState()
        stable_end = self._stable.offsets_at({self.topic_partition: -1})[self.topic_partition]
        return self._newest(stable_end or 0)

    def claims(self, start: int) -> pa.RecordBatch:
        """Tombstones for what tasks have claimed from this offset on: the columns of a record, one row for each claim.

        Written in the claims' own transaction, they hide no claim while it counts: nothing behind an open transaction's
        first record is compacted.
        """
        columns = [batch.column("key") for batch in self._records(start, self.end(), self._uncommitted)]
        keys = pa.chunked_array(columns, pa.binary())
        claim_keys = keys.filter(pc.starts_with(keys, CLAIM)).combine_chunks()
        return pa.record_batch({"key": claim_keys, "value": pa.nulls(len(claim_keys), pa.binary())})

    def check_is_newest(self, offset: int, known_end: int) -> None:
        """Refuse our record if records of this pipeline that were not read may lie before it (decision 74).

        Sequence of events that this prevents: a broker is cut off, and still believes that it leads the ledger. A new
        driver asks it where the ledger ends, and gets an old answer. The driver's record goes to the new leader, which
        has newer batches. The driver does not know them, and would write them again.

        Records with other keys may lie between: attempts of tasks write claims at any time. A record under the
        pipeline's key is refused, even if it was aborted.

        Args:
            offset: of the first record in the producer's batch that has ours, as all in-sync replicas have it; -1: the
                leader did not say.
            known_end: up to where the ledger was read before.

        Raises:
            StoreUnavailableError: there are such records; or the offset is unknown, or lower than the end.
            KafkaError: it cannot be looked.
        """
        unread = 0
        if known_end < offset:
            for batch in self._records(known_end, offset, self._uncommitted):
                unread += pc.sum(pc.equal(batch.column("key"), self._key)).as_py() or 0
        if offset < 0:
            cause = f"a leader of its ledger {self.topic_partition} has a record that was sent twice, and not where"
            raise StoreUnavailableError(store=self._store, cause=cause)
        if offset < known_end or unread:
            cause = (
                f"its ledger {self.topic_partition} ended at offset {known_end} when this driver read it, by the word "
                f"of the broker asked, and the next record got offset {offset}, with {unread} of this pipeline before "
                "it: a broker that is cut off from the others may have answered"
            )
            raise StoreUnavailableError(store=self._store, cause=cause)

    def leader(self) -> Leader:
        """Where the topic's partition is led.

        Raises:
            BrokerResponseError: no broker knows the topic; retriable.
        """
        return leader_of(self._all, self.topic_partition)

    def _newest(self, end: int) -> PipelineState:
        earliest = self._all.offsets_at({self.topic_partition: -2})[self.topic_partition] or 0
        tail, until = _TAIL, end
        while until > earliest:
            start = max(earliest, end - tail)
            value = self._last_value(start, until)
            if value is not None:
                return state_of(value, store=self._store)
            until, tail = start, tail * _TAIL_GROWTH
        return PipelineState()

    def _records(self, start: int, until: int, options: ClientOptions) -> Iterator[pa.RecordBatch]:
        leader = self.leader()
        task = RangeTask(
            range=OffsetRange(self.topic, 0, start, until),
            topic_id="",
            host=leader.host,
            port=leader.port,
            client=options,
            columns=("key", "value"),
            # Between the question for the start and this one the cleaner may have moved it.
            fail_on_data_loss=False,
            poll_timeout_ms=_READ_TIMEOUT_MS,
        )
        return read_range(task)

    def _last_value(self, start: int, until: int) -> bytes | None:
        last: bytes | None = None
        for batch in self._records(start, until, self._options):
            ours = batch.filter(pc.equal(batch.column("key"), self._key))
            if ours.num_rows:
                last = ours.column("value")[ours.num_rows - 1].as_py()
        return last

    def _make(self) -> bool:
        """Make the topic; False if it already exists."""
        replicas = self._choose_replicas()
        # Named, because a broker's own default may be more than there are replicas: then nothing could be written.
        config = _TOPIC_CONFIG | {"min.insync.replicas": str(in_sync_of(replicas.count))}
        known = self._client.call("Metadata", topics=[], allow_auto_topic_creation=False)
        response = self._client.call(
            "CreateTopics",
            known.controller_id if known.controller_id >= 0 else None,
            topics=[
                {
                    "name": self.topic,
                    "num_partitions": 1,
                    "replication_factor": replicas.count,
                    "assignments": [],
                    "configs": [{"name": name, "value": value} for name, value in config.items()],
                }
            ],
            timeout_ms=self._options.request_timeout_ms,
            validate_only=False,
        )
        code = response.topics[0].error_code
        if code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        self._raise_for("CreateTopics", code, "CREATE")
        self._wait_until_made()
        log_at_level = log.warning if replicas.is_guess else log.info
        log_at_level(
            "the ledger's topic %s is made with %d replica(s): %s", self.topic, replicas.count, replicas.reason
        )
        return True

    def _choose_replicas(self) -> Replicas:
        """As many as told, whichever brokers are up; those that are not are waited for.

        Raises:
            StoreUnavailableError: not so many brokers are up.
        """
        brokers = look_at_brokers(self._client, ASKED)
        replicas = replicas_of(self._replicas, brokers)
        if replicas.count > len(brokers):
            cause = (
                f"the ledger's topic {self.topic} is to have {replicas.count} replicas ({replicas.reason}), and "
                f"{len(brokers)} broker(s) are up. If there are no more, the sink's option ledger_replicas is for that"
            )
            raise StoreUnavailableError(store=self._store, cause=cause)
        return replicas

    def _wait_until_made(self) -> TopicDescription:
        """Wait until a broker knows the topic, and describe it. A broker may hear of it later than the controller."""
        deadline = time.monotonic() + _MADE_TIMEOUT_S
        while True:
            described = self._all.topics([self.topic]).get(self.topic)
            if described is not None and described.leaders[0].node_id is not None:
                return described
            if time.monotonic() > deadline:
                cause = f"the ledger's topic {self.topic} is there, and has had no leader for {_MADE_TIMEOUT_S:g} s"
                raise StoreUnavailableError(store=self._store, cause=cause)
            time.sleep(0.02)

    def _cleanup_policy(self) -> str:
        response = self._client.call(
            "DescribeConfigs",
            resources=[
                {
                    "resource_type": _TOPIC_RESOURCE,
                    "resource_name": self.topic,
                    "configuration_keys": ["cleanup.policy"],
                }
            ],
        )
        (result,) = response.results
        self._raise_for("DescribeConfigs", result.error_code, "DESCRIBE_CONFIGS")
        return ",".join(str(config.value) for config in result.configs)

    def _raise_for(self, api: str, code: int, right: str) -> None:
        raise_for(api, code, f"the ledger's topic {self.topic}", self._options, topic_right=right)

    def wrong(self, detail: str) -> SchemaMismatchError:
        """An error about this topic, to be raised by the caller."""
        return SchemaMismatchError(store=self._store, sink=f"the ledger's topic {self.topic}", detail=detail)
