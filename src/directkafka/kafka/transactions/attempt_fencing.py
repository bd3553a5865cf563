"""Fencing of task attempts: only the first one that says so in a partition's log may count.

Within one transaction a target partition takes one writer's batches, counted from 0. If a task dies after some of its
batches were acknowledged and is run again, this happens: attempt 2 sends other rows as its first batch; the leader has
seen these sequence numbers, answers "duplicate", and the client takes it for success. Rows are lost, others are
written although nobody reported them, and all counts agree.

Spark's attempt number does not tell all attempts apart: a stage that is run again, as after the loss of an executor,
counts from 0 again, and a task of a lost executor may live on for a while. So each attempt appends a record to one
partition, and reads back from where the transaction began. The order in a log is the same for all who read it: who
finds another attempt's record before its own has lost, and raises.

**A retry and a twin are treated alike.** Sequence of events: attempt 1 claims, and is heard of no more; Spark starts
attempt 2. Whether 1 is dead (a retry) or only slow (a speculative twin, a task of an executor that was given up) nobody
can tell, nor whether it has written anything. So what is claimed stays claimed until the transaction ends: 2 raises,
the batch is done again under a fresh epoch, and what 1 may still send is refused by its old one. An attempt that dies
*before* its claim costs nothing: 2 is the first one then.

**Each attempt has a key of its own.** Sequence of events that this prevents: attempt 1 claims, writes and dies; attempt
2 claims under the same key; the log is compacted, which leaves the newest record of each key; attempt 2 reads back,
finds only itself, and writes.

**Who deals the rows claims at its end.** Where writers are no barrier stage, Spark may run single tasks again. Sequence
of events: writer A has fetched its share and written it; an executor is lost, and with it the dealt rows of one routing
task; writer B fails to fetch them, and Spark runs that routing task again; upstream gives the rows in another order, so
keyless rows are dealt otherwise; some that A has written now go to B, others to nobody, and the number of all is
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
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.producer.producer import Producer, new_identity
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.producer import ProducerOptions

#: What the keys of claims begin with; the driver leaves a tombstone for each one when it commits.
CLAIM: Final = b"claim/"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionClaims:
    """Where the tasks of one transaction claim; travels to executors.

    Attributes:
        client: addresses, security, timeouts.
        topic_partition: the ledger's; its records must outlive the transaction.
        from_offset: the partition's high watermark when the transaction began.
        name: of the transaction, unlike any other's.
    """

    client: ClientOptions
    topic_partition: TopicPartition
    from_offset: int
    name: str

    def claim_writing(self, share: int) -> None:
        """Claim a share of the writing for this attempt, before it writes.

        Raises:
            SecondAttemptError: another attempt has claimed it before.
            KafkaError: it cannot be said; nothing may be written.
        """
        self._claim(f"write/{share}")

    def claim_routing(self, partition: int) -> None:
        """Claim the dealing of a partition's rows for this attempt, when it has dealt them all.

        Raises:
            SecondAttemptError: another attempt has claimed it before.
            KafkaError: it cannot be said; what was dealt must not be fetched.
        """
        self._claim(f"route/{partition}")

    def _claim(self, task: str) -> None:
        of_task = CLAIM + f"{self.name}/{task}/".encode()
        ledger, mine = self.topic_partition, of_task + uuid.uuid4().hex.encode()
        with closing(KafkaClient(self.client)) as client:
            # Nobody can be sure yet that the records before this one are committed: they are not meant to be.
            admin = AdminClient(client, isolation_level="read_uncommitted")
            leader = admin.topics([ledger.topic])[ledger.topic].leaders[ledger.partition]
            # An empty value is no tombstone.
            rows = pa.record_batch({"key": column_of([mine], pa.binary()), "value": column_of([b""], pa.binary())})
            at_leader = {ledger: (leader.host, leader.port)}
            with Producer(self.client, ProducerOptions(), new_identity(client), at_leader) as producer:
                producer.write(rows, [ledger], np.zeros(1, np.int32))
                producer.flush()
            end = admin.offsets_at({ledger: -1})[ledger] or 0
        if self._first_claim(of_task, end, leader) != mine:
            raise SecondAttemptError(transaction=self.name, task=task)

    def _first_claim(self, of_task: bytes, end: int, leader: Leader) -> bytes | None:
        task = RangeTask(
            range=OffsetRange(self.topic_partition.topic, self.topic_partition.partition, self.from_offset, end),
            topic_id="",
            host=leader.host,
            port=leader.port,
            client=replace(self.client, isolation_level="read_uncommitted"),
            columns=("key",),
        )
        for batch in read_range(task):
            claims = batch.filter(pc.starts_with(batch.column("key"), of_task))
            if claims.num_rows:
                key: bytes = claims.column("key")[0].as_py()
                return key
        return None
