"""The write task of the format ``directkafka``, on executors: it writes Arrow batches of rows to Kafka, at least once.

Each task has its own producer, idempotent and without transactions, and ends when all its rows are acknowledged. If a
task fails, Spark runs it again, and its rows may then be in Kafka twice. Executors import this module without
``pyspark.sql``.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import tenacity

from directkafka.errors.transport import Notes
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.network import connection_pool
from directkafka.kafka.producer.partitioner import Router
from directkafka.kafka.producer.producer import Producer, new_identity
from directkafka.kafka.producer.sender import unknown_topic
from directkafka.offsets import TopicPartition
from directkafka.options.producer import SinkOptions
from directkafka.options.read_policy import HEADERS
from directkafka.payloads.encode import ColumnEncoding, encoded
from directkafka.python_worker import freeze_imports

_PAUSE_S: Final = 0.1
_DEALT_MAX: Final = 2**31


def write_rows(
    options: SinkOptions,
    batches: Iterator[pa.RecordBatch],
    notes: Notes,
    encodings: Sequence[ColumnEncoding] = (),
) -> int:
    """Write all rows, and wait for their acknowledgement.

    Args:
        options: the topic, the columns to write, and the producer's settings.
        batches: rows with the columns that :func:`directkafka.spark.schema.check_written` has accepted.
        notes: signs errors on their way to the driver.
        encodings: what values and keys become that are no bytes.

    Returns:
        How many rows were written.

    Raises:
        DirectKafkaError: with its fields as a note, so that they reach the driver.
    """
    freeze_imports("write")
    with notes.signing():
        # Without rows there is nothing to connect for.
        first = next((batch for batch in batches if batch.num_rows), None)
        return 0 if first is None else _write(options, encoded(itertools.chain([first], batches), encodings))


def _write(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> int:
    first = next(batches)
    topics = _Topics(options)
    if options.topic is not None:
        topics.count([options.topic])
    with connection_pool.borrowed_client(options.client) as client:
        identity = new_identity(client, options.producer.topic_timeout_ms)
    # Tasks begin at different partitions, so that small ones do not all write to the first.
    router = Router(options.topic, topics.count, random.randrange(_DEALT_MAX))
    columns = _columns(options, first)
    with Producer(options.client, options.producer, identity, topics.leaders) as producer:
        for batch in itertools.chain([first], batches):
            places, target_of = router.route(batch)
            producer.write(batch.select(columns), places, target_of)
        return sum(producer.flush().values())


def _columns(options: SinkOptions, rows: pa.RecordBatch) -> list[str]:
    """Names of the columns that go into records."""
    wanted = ["key", "value"] + [HEADERS] * options.include_headers + ["timestamp"] * options.include_timestamp
    return [name for name in wanted if name in rows.schema.names]


class _Topics:
    """Asks how many partitions topics have, and remembers who leads them.

    Attributes:
        leaders: host and port, of partitions that have a leader.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self.leaders: dict[TopicPartition, tuple[str, int]] = {}

    def count(self, names: Collection[str]) -> Mapping[str, int]:
        """The number of partitions, by topic; waits for a topic that does not exist yet.

        Raises:
            BrokerResponseError: a topic does not exist after ``max.block.ms``, or this user may not describe it.
            BrokerUnreachableError: no broker answers.
        """
        partition_counts = tenacity.Retrying(
            stop=tenacity.stop_after_delay(self._options.producer.topic_timeout_ms / 1000),
            wait=tenacity.wait_fixed(_PAUSE_S),
            retry=tenacity.retry_if_result(lambda counts: len(counts) < len(names)),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else {},
        )(self._ask, names)
        missing = sorted(set(names) - set(partition_counts))
        if missing:
            raise unknown_topic(f"topic {missing[0]}")
        return partition_counts

    def _ask(self, names: Collection[str]) -> dict[str, int]:
        with connection_pool.borrowed_client(self._options.client) as client:
            topics = AdminClient(client).topics(names)
        for name, topic in topics.items():
            for number, leader in topic.leaders.items():
                if leader.node_id is not None:
                    self.leaders[TopicPartition(name, number)] = (leader.host, leader.port)
        return {name: len(topic.leaders) for name, topic in topics.items()}
