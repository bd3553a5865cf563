"""The Kafka sink: a DataFrame's rows into topics, in the transaction of the ledger.

Readers see a batch whole or not at all **if they read with** ``isolation.level=read_committed``; Kafka's own default,
and that of Spark's ``kafka`` format, is ``read_uncommitted``, which shows rows of batches that are aborted later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from directkafka.errors import OptionError, RowRejectedError, SchemaMismatchError
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.admin.known_topics import known_topics
from directkafka.kafka.admin.topics import TopicDescription
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.transactions.attempt_fencing import TransactionClaims
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.written_payloads import written_params
from directkafka.payloads.encode import ColumnEncoding, column_encodings, encoded_schema, encoding_problems
from directkafka.sinks.api import BatchAttempt, SecondPhase, TaskReport
from directkafka.sinks.capabilities import SinkCapabilities, TableCount
from directkafka.sinks.kafka.config import KafkaConfig
from directkafka.sinks.kafka.errors import translate, with_batch_size
from directkafka.sinks.kafka.rows import (
    RECORD_COLUMNS,
    TOPIC,
    TargetRouter,
    destinations_from_payload,
    destinations_of,
    merge_destinations,
    problems_of,
)
from directkafka.sinks.kafka.store import KafkaStore
from directkafka.sinks.kafka.task_writer import EncodingRouter, KafkaShareWriter, KafkaTaskWriter, acknowledged
from directkafka.sinks.kafka.transaction import KafkaTransaction
from directkafka.sinks.routing import Routing, names_for_message
from directkafka.sinks.wrapped_sink import Clonable

_IS_READ = (
    "is read by this very pipeline, so that each row would come back as a record, without end: choose another topic, "
    "or a subscription without this one"
)
_IS_A_LEDGER = "is where a pipeline keeps its ledger, and only its driver writes there: choose another topic"


class KafkaSink(KafkaConfig, Clonable):
    """Rows into Kafka, exactly once: the columns ``value`` and, if they are there, ``key``, ``headers``, ``timestamp``,
    ``topic`` and ``partition``.

    Raises:
        OptionError: a name that nobody knows, or a value out of bounds.
    """

    @classmethod
    def store_at(cls, url: str) -> KafkaStore:
        """The store of ``kafka://HOST:PORT``."""
        servers = url.partition(":")[2].strip("/")
        if "@" in servers:
            raise OptionError(option="--store", reason="kafka://HOST:PORT takes no user: name a pipeline file instead")
        return KafkaStore({"bootstrap.servers": servers})

    def __post_init__(self) -> None:
        if self.topic_from in RECORD_COLUMNS and self.topic_from != TOPIC:
            reason = f"{self.topic_from} is a part of the record itself: give the topic's name a column of its own"
            raise OptionError(option="topic_from", where="a Kafka sink", reason=reason)
        if self.topics is not None:
            routing = Routing.parse(self._topic_from, self.topics, names=("topic_from", "topics"))
            self.topics = routing.tables
        if self.topic is not None and (self.topics is not None or self.topic_from is not None):
            raise OptionError(option="topic", where="a Kafka sink", reason="rows name their topics: keep one of both")
        if self.topic_from is not None and self.topics is None:
            reason = "expected a list of the topics that rows may name"
            raise OptionError(option="topics", where="a Kafka sink", reason=reason)
        self._store = KafkaStore(
            self.kafka_params,
            name_prefix=self.name_prefix,
            ledger_replicas=self.ledger_replicas,
            accept_empty_ledger=self.accept_empty_ledger,
        )
        self._written = written_params(self.payloads or {}, where="a Kafka sink")
        #: What values and keys become, once the registry was asked.
        self._encodings: tuple[ColumnEncoding, ...] = ()
        self._reads: Callable[[str, Callable[[], str]], bool] = _nothing_is_read
        self._ledger: str | None = None

    def __repr__(self) -> str:
        return f"KafkaSink({self._store.label!r}, {self.name!r})"

    @property
    def name(self) -> str:
        """The topic, or those that rows may name; ``kafka`` where they may name any."""
        return self.topic or ",".join(self.topics or ()) or "kafka"

    @property
    def capabilities(self) -> SinkCapabilities:
        """Its rows are records: bytes and headers, not columns of a table."""
        return SinkCapabilities(
            inline_bytes_max=self.inline_bytes_max,
            has_second_phase=True,
            takes_records=True,
            offsets_group=self.offsets_group,
        )

    def leave_alone(self, is_read: Callable[[str, Callable[[], str]], bool], *, pipeline: str) -> None:
        """Refuse from now on to write to topics that the pipeline of this name reads, and to its ledger."""
        self._reads, self._ledger = is_read, self._store.ledger_of(pipeline)

    @property
    def own_topics(self) -> tuple[str, ...]:
        """Topics that are this sink's, whether a batch has rows for them or not."""
        return tuple(self.topics or ()) if self.topic is None else (self.topic,)

    @property
    def _topic_from(self) -> str:
        return self.topic_from or TOPIC

    @property
    def store(self) -> KafkaStore:
        """The cluster's ledger."""
        return self._store

    def check(self, schema: pa.Schema) -> None:
        """Compare the columns with what a record is made of, and look at the brokers and for the topic.

        Raises:
            SchemaMismatchError: all that does not fit, in one message; or there is no such topic.
            OptionError: the topic is a pipeline's ledger, or the pipeline reads it, or its own ledger; or the registry
                has another schema.
            RegistryError: the registry does not answer, refuses, or does not have the schema.
            EnvironmentFaultError: the brokers are too old.
        """
        for name in filter(self._store.is_ledger, self.own_topics):
            raise OptionError(option="topic", where="a Kafka sink", reason=f"{name} {_IS_A_LEDGER}")
        for name in filter(None, (*self.own_topics, self._ledger)):
            if self._is_read(name):
                raise OptionError(option="topic", where="a Kafka sink", reason=f"{name} {_IS_READ}")
        self._store.check()
        encodings = column_encodings(self._written, self.topic, may_register=False)
        problems = encoding_problems(schema, encodings)
        made = encoded_schema(schema, encodings)
        if problems := problems + problems_of(made, topic=self.topic, topic_from=self._topic_from):
            self._refuse("; ".join(problems))
        if self.own_topics:
            self._partition_counts(self.own_topics)

    def prepare(self, schema: pa.Schema) -> None:
        """The same, and ask the registry: no topic is made, since its partitions are not ours to choose.

        Raises:
            SchemaMismatchError: see :meth:`check`.
        """
        self.check(schema)
        self._encodings = column_encodings(self._written, self.topic)

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> KafkaTaskWriter:
        """What each task of the first job runs: it hands over its rows, or says how many they are and where they go."""
        return KafkaTaskWriter(
            topic=self.topic,
            inline_bytes_max=self.inline_bytes_max // max(1, task_count),
            topic_from=self._topic_from,
            encodings=self._encodings,
        )

    def needs_second_phase(self, reports: Sequence[TaskReport]) -> bool:
        """Whether a task had more rows than it could hand over: then all are written in a second job."""
        return any(report.staged for report in reports)

    def second_phase(
        self, transaction: KafkaTransaction, batch: BatchAttempt, reports: Sequence[TaskReport], *, writers_max: int
    ) -> SecondPhase:
        """Take the targets of all rows into the transaction, and share them among writers.

        Rows that name no partition may go to any of their topic's, so all of these are taken in.

        Raises:
            SchemaMismatchError: a row's topic is not there.
            RowRejectedError: a row's partition is not there.
        """
        router = self._router(reports)
        transaction.reserve(router.partition_counts, sink=self.name)
        with translate(self._store.label, sink=self.name):
            transaction.add(router.targets, writer=self.name)
        writer_count = max(1, min(self.tasks_max or writers_max, writers_max, len(router.targets)))
        identity = transaction.identity
        claims = TransactionClaims(
            client=self._store.options.client,
            ledger=transaction.ledger,
            from_offset=transaction.ledger_end,
            name=f"{identity.transactional_id}/{identity.producer_id}/{identity.epoch}/{self.name}",
        )
        writer = KafkaShareWriter(
            options=with_batch_size(self._store.options, transaction.options.producer.batch_size_bytes),
            identity=identity,
            targets=router.targets,
            writer_count=writer_count,
            claims=claims,
        )
        return SecondPhase(
            router=EncodingRouter(router, self._encodings) if self._encodings else router,
            claim_routing=claims.claim_routing,
            writer=writer,
            writer_count=writer_count,
            limit_ms=max(0, transaction.budget_left_ms()),
            too_slow=transaction.too_slow,
        )

    def apply(self, transaction: KafkaTransaction, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Inside the store's transaction: write the rows that came with the reports, or count those that are written.

        Raises:
            KafkaError: untranslated; the store knows what it says of the transaction.
            SchemaMismatchError, RowRejectedError: a row's topic or partition is not there, or is a ledger.
            OptionError: a row's topic is another sink's.
        """
        if self.needs_second_phase(reports):
            return sum(acknowledged(report, transaction.identity) for report in reports if report.staged)
        # They are gone through twice: for their topics, and to be written.
        reports = [replace(report, inline=tuple(report.inline)) for report in reports]
        router = self._router(reports)
        transaction.reserve(router.partition_counts, sink=self.name)
        rows = 0
        for report in reports:
            for arrow_batch in report.inline:
                target_of = router.target_of(arrow_batch, first=rows)
                rows += arrow_batch.num_rows
                transaction.add([router.targets[number] for number in np.unique(target_of)])
                transaction.write(arrow_batch, router.targets, target_of)
        return rows

    def recount(self) -> TableCount:
        """Committed records of the topic, whoever wrote them, as far as retention has kept them.

        Where each row has its own topic there is nothing to count: 0, and not comparable.

        Raises:
            SchemaMismatchError: there is no such topic.
            StoreUnavailableError: the cluster cannot be reached.
        """
        if self.topic is None:
            return TableCount(rows=0, is_folded=True)
        client = self._store.client
        options = replace(self._store.options.client, isolation_level="read_committed")
        with translate(self._store.label, sink=self.name):
            admin = AdminClient(client, isolation_level="read_committed")
            topics = self._described([self.topic])
            partitions = [TopicPartition(self.topic, number) for number in topics[self.topic].leaders]
            snapshot = admin.snapshot(partitions, topics)
            rows = 0
            for topic_partition, seen in snapshot.partitions.items():
                task = RangeTask(
                    range=OffsetRange(topic_partition.topic, topic_partition.partition, seen.earliest, seen.latest),
                    topic_id=seen.topic_id,
                    host=seen.leader_host,
                    port=seen.leader_port,
                    client=options,
                    columns=("partition",),
                    fail_on_data_loss=False,
                )
                rows += sum(batch.num_rows for batch in read_range(task))
        return TableCount(rows=rows)

    def _router(self, reports: Sequence[TaskReport]) -> TargetRouter:
        destinations = merge_destinations(
            destinations
            for report in reports
            for destinations in (
                (destinations_from_payload(report.payload),)
                if report.staged
                else (destinations_of(batch, self.topic, self._topic_from) for batch in report.inline)
            )
        )
        for name in filter(self._store.is_ledger, destinations):
            raise RowRejectedError(store=self._store.label, sink=self.name, detail=f"its topic {name} {_IS_A_LEDGER}")
        for name in filter(self._is_read, filter(None, destinations)):
            raise RowRejectedError(store=self._store.label, sink=self.name, detail=f"its topic {name} {_IS_READ}")
        if self.topics and (lost := sorted(name for name in destinations if name not in self.topics)):
            shown = names_for_message([name or None for name in lost])
            detail = (
                f"column {self._topic_from} has {shown}, not in topics ({', '.join(self.topics)}): add it to topics, "
            )
            detail += "or filter these rows out"
            raise RowRejectedError(store=self._store.label, sink=self.name, detail=detail)
        counts = self._partition_counts([name for name in destinations if name])
        return TargetRouter.of(
            destinations, counts, store=self._store.label, sink=self.name, topic=self.topic, topic_from=self._topic_from
        )

    def _partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """How many partitions the topics have now: a topic may be given more of them at any time."""
        return {name: len(described.leaders) for name, described in self._described(topics).items()} if topics else {}

    def _described(self, topics: Collection[str]) -> dict[str, TopicDescription]:
        """The topics; one that no broker knows for three seconds is not there."""
        with translate(self._store.label, sink=self.name):
            described_topics = known_topics(AdminClient(self._store.client), topics)
        if missing := sorted(set(topics) - set(described_topics)):
            self._refuse(f"there is no topic {', '.join(missing)}: create it with as many partitions as it shall have")
        return described_topics

    def _is_read(self, topic: str) -> bool:
        return self._reads(topic, lambda: self._store.cluster_id)

    def _refuse(self, detail: str) -> None:
        raise SchemaMismatchError(store=self._store.label, sink=self.name, detail=detail)


def _nothing_is_read(_topic: str, _cluster_id: Callable[[], str]) -> bool:
    return False
