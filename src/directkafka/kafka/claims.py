"""Which attempt of a task may write: the first one that says so in a partition's log.

Within one transaction a target partition takes one writer's batches, counted from 0. If a task dies after some of its
batches were acknowledged and is run again, this happens: attempt 2 sends other rows as its first batch; the leader has
seen these sequence numbers, answers "duplicate", and the client takes it for success. Rows are lost, others are
written although nobody reported them, and all counts agree.

Spark's attempt number does not tell all attempts apart: a stage that is run again, as after the loss of an executor,
counts from 0 again, and a task of a lost executor may live on for a while. So each attempt appends a record to one
partition, and reads back from where the transaction began. The order in a log is the same for all who read it: who
finds another one's record before its own has lost, and raises before it writes anything.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.kafka.client import KafkaClient
from directkafka.kafka.metadata import Leader, Metadata
from directkafka.kafka.produce import Producer, new_identity
from directkafka.kafka.range_task import RangeTask
from directkafka.kafka.reader import read_range
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options import ClientOptions
from directkafka.options.producer import ProducerOptions
from directkafka.producer_errors import SecondAttemptError

__all__ = ["ClaimPlace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlace:
    """Where the tasks of one transaction claim; travels to executors.

    Attributes:
        client: addresses, security, timeouts.
        place: the partition; its records must outlive the transaction.
        from_offset: the partition's high watermark when the transaction began.
        name: of the transaction, unlike any other's.
    """

    client: ClientOptions
    place: TopicPartition
    from_offset: int
    name: str

    def claim(self, share: int) -> None:
        """Claim a share of the writing for this attempt.

        Raises:
            SecondAttemptError: another attempt has claimed it before.
            KafkaError: it cannot be said; nothing may be written.
        """
        key, mine = f"claim/{self.name}/{share}".encode(), uuid.uuid4().hex.encode()
        with closing(KafkaClient(self.client)) as client:
            # Nobody can be sure yet that the records before this one are committed: they are not meant to be.
            metadata = Metadata(client, isolation_level="read_uncommitted")
            leader = metadata.topics([self.place.topic])[self.place.topic].leaders[self.place.partition]
            rows = pa.record_batch({"key": pa.array([key], pa.binary()), "value": pa.array([mine], pa.binary())})
            at_leader = {self.place: (leader.host, leader.port)}
            with Producer(self.client, ProducerOptions(), new_identity(client), at_leader) as producer:
                producer.write(rows, [self.place], np.zeros(1, np.int32))
                producer.flush()
            end = metadata.offsets_at({self.place: -1})[self.place] or 0
        if self._first_value(key, end, leader) != mine:
            raise SecondAttemptError(transaction=self.name, share=share)

    def _first_value(self, key: bytes, end: int, leader: Leader) -> bytes | None:
        task = RangeTask(
            range=OffsetRange(self.place.topic, self.place.partition, self.from_offset, end),
            topic_id="",
            host=leader.host,
            port=leader.port,
            client=replace(self.client, isolation_level="read_uncommitted"),
            columns=("key", "value"),
        )
        for batch in read_range(task):
            found = batch.filter(pc.equal(batch.column("key"), pa.scalar(key, pa.binary())))
            if found.num_rows:
                value: bytes = found.column("value")[0].as_py()
                return value
        return None
