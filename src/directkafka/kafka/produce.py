"""Writing encoded batches to the partitions' leaders, each exactly once in its partition, and in order.

API key 0 (Produce), versions 9 to 11, acks=all. Version 12 and above would add partitions to a transaction by
themselves (KIP-890), which here is the driver's to do. Relied on: a leader takes a producer's batches in the order
of their sequence numbers only, and knows the last five of each partition again (KIP-98), so that

- up to five requests may be on their way to a broker at once, each with at most one batch of a partition;
- a batch whose answer did not come is sent again as it is: written once, or answered as a duplicate.

Knows nothing of Spark, and runs on executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from directkafka.kafka.encode import ProducerIdentity
from directkafka.offsets import TopicPartition
from directkafka.options import ClientOptions
from directkafka.options.producer import ProducerOptions

__all__ = ["Producer", "new_identity"]

Int32s = np.ndarray[Any, np.dtype[np.int32]]


class Producer:
    """Writes rows to partitions, for one identity, from one thread.

    After an error everything else raises it again: what was on its way is in an unknown state, and the identity must
    not be used any more. (A transaction is aborted by whoever owns it.) As a context manager it is closed at the end.

    Args:
        client: addresses, security, timeouts.
        options: sizes, codec, time for delivery.
        identity: who writes; one producer only, for sequence numbers begin at 0.
    """

    def __init__(self, client: ClientOptions, options: ProducerOptions, identity: ProducerIdentity) -> None:
        raise NotImplementedError

    def write(self, rows: pa.RecordBatch, targets: Sequence[TopicPartition], target_of: Int32s) -> None:
        """Encode rows and put them on their way; waits while more than ``buffer.memory`` is on its way.

        Args:
            rows, targets, target_of: as for :meth:`directkafka.kafka.encode.RecordEncoder.encode`.

        Raises:
            RecordTooLargeError: a row is larger than ``max.request.size``; no row of this call was sent.
            OptionError: a column of another type; likewise.
            ProducerFencedError: a newer producer has this one's name (INVALID_PRODUCER_EPOCH 47, PRODUCER_FENCED 90).
            ProducerStateError: the broker's state of this producer or its transaction is another one (45, 48, 59...).
            TopicNotFoundError: a topic is not there, or has no such partition, for ``max.block.ms``.
            BrokerResponseError: a broker refused a batch for good (too large, no right to write...).
            DeliveryTimeoutError: no acknowledgement within ``delivery.timeout.ms``; whether it was written is not
                known.
            BrokerAccessError: TLS or the login failed.
        """
        raise NotImplementedError

    def flush(self) -> dict[TopicPartition, int]:
        """Wait until all that was written is acknowledged by all in-sync replicas.

        Returns:
            Records acknowledged, by partition, since the producer was made.

        Raises:
            KafkaError: as :meth:`write` does.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Stop sending, without waiting for answers. Calling it twice is harmless."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def new_identity(client: ClientOptions) -> ProducerIdentity:
    """An identity for an idempotent producer without transactions, from any broker (InitProducerId).

    Raises:
        BrokerUnreachableError: no broker answers.
        BrokerResponseError: the broker refuses it; needs the right (ACL) IDEMPOTENT_WRITE before Kafka 2.8.
    """
    raise NotImplementedError
