"""Fencing of task attempts: only the first attempt that claims a task in a partition's log may count.

Within one transaction a target partition takes one writer's batches, counted from 0. If a task dies after some of its
batches were acknowledged and is run again, this happens: attempt 2 sends other rows as its first batch; the leader has
seen these sequence numbers, answers "duplicate", and the client takes it for success. Rows are lost, others are
written although nobody reported them, and all counts agree.

Spark's attempt number does not tell all attempts apart: a stage that is run again, as after the loss of an executor,
counts from 0 again, and a task of a lost executor may live on for a while. So an attempt appends a record, its claim,
to one partition, and reads back from where the transaction began. All readers see a log in the same order. An attempt
that finds another one's claim before its own raises.

**A retry and a twin are treated alike.** Sequence of events: attempt 1 claims, and is heard of no more; Spark starts
attempt 2. Nobody can tell whether 1 is dead (a retry) or only slow (a speculative twin, a task of an executor that was
given up), or whether it has written anything. So what is claimed stays claimed until the transaction ends: 2 raises,
the driver does the batch again under a new epoch, and brokers refuse what 1 still sends, because its epoch is old. An
attempt that dies *before* its claim costs nothing: 2 is the first one then.

**Each attempt has a key of its own.** Sequence of events that this prevents: attempt 1 claims, writes and dies; attempt
2 claims under the same key; the log is compacted, which leaves the newest record of each key; attempt 2 reads back,
finds only itself, and writes.

**A routing task claims at its end.** If the writers are no barrier stage, Spark may run single tasks again. Sequence of
events: writer A has fetched its share and written it; an executor is lost, and with it the routed rows of one routing
task; writer B fails to fetch them, and Spark runs that routing task again; upstream gives the rows in another order, so
keyless rows are routed otherwise; some rows that A has written go to B too, others go to nobody, and the total is
right. A routing task therefore claims after its last row and before Spark may take its output: of the attempts at one
task, one output only can ever be fetched. An attempt that died on its way has shown nothing to anybody, and its retry
goes through.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.arrow_columns import column_of
from directkafka.errors.kafka import SecondAttemptError
from directkafka.kafka.admin.admin_client import AdminClient, Leader
from directkafka.kafka.admin.known_topics import leader_of
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.producer.producer import Producer, new_identity
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.producer import ProducerOptions

#: What the keys of claims begin with. A commit writes a tombstone for each claim of its transaction; those of aborted
#: transactions stay.
CLAIM: Final = b"claim/"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionClaims:
    """Where the tasks of one sink claim, in one transaction. It is sent to executors.

    Attributes:
        client: addresses, security, timeouts.
        ledger: the partition of the ledger; its records must outlive the transaction.
        from_offset: the partition's high watermark when the transaction began.
        name: of the transaction and the sink; no other has the same.
    """

    client: ClientOptions
    ledger: TopicPartition
    from_offset: int
    name: str

    def claim_writing(self, share: int) -> None:
        """Claim a share of the writing for this attempt, before it writes.

        Raises:
            SecondAttemptError: another attempt has claimed it before.
            KafkaError: the claim could not be written or read back; nothing may be written.
        """
        self._claim(f"write/{share}")

    def claim_routing(self, partition: int) -> None:
        """Claim the routing of the rows of one of Spark's partitions for this attempt, behind the last row.

        Raises:
            SecondAttemptError: another attempt has claimed it before.
            KafkaError: the claim could not be written or read back; what was routed must not be fetched.
        """
        self._claim(f"route/{partition}")

    def _claim(self, task: str) -> None:
        key_prefix = CLAIM + f"{self.name}/{task}/".encode()
        own_key = key_prefix + uuid.uuid4().hex.encode()
        with closing(KafkaClient(self.client)) as client:
            # Under read_committed an open transaction in the ledger would hide the claims behind its first record.
            admin = AdminClient(client, isolation_level="read_uncommitted")
            leader = leader_of(admin, self.ledger)
            # An empty value is no tombstone.
            rows = pa.record_batch({"key": column_of([own_key], pa.binary()), "value": column_of([b""], pa.binary())})
            at_leader = {self.ledger: (leader.host, leader.port)}
            with Producer(self.client, ProducerOptions(), new_identity(client), at_leader) as producer:
                producer.write(rows, [self.ledger], np.zeros(1, np.int32))
                producer.flush()
            end = admin.offsets_at({self.ledger: -1})[self.ledger] or 0
        if self._first_claim(key_prefix, end, leader) != own_key:
            raise SecondAttemptError(transaction=self.name, task=task)

    def _first_claim(self, key_prefix: bytes, end: int, leader: Leader) -> bytes | None:
        read_task = RangeTask(
            range=OffsetRange(self.ledger.topic, self.ledger.partition, self.from_offset, end),
            topic_id="",
            host=leader.host,
            port=leader.port,
            client=replace(self.client, isolation_level="read_uncommitted"),
            columns=("key",),
        )
        for batch in read_range(read_task):
            claims = batch.filter(pc.starts_with(batch.column("key"), key_prefix))
            if claims.num_rows:
                key: bytes = claims.column("key")[0].as_py()
                return key
        return None
