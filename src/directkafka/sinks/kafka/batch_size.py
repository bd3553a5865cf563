"""A record batch that a topic does not take for its size: the rows are written again in smaller ones.

Java's producer splits such a batch and sends its parts. Here all rows of the transaction are written again, under a
fresh epoch, which is what any failure leads to, and from then on in batches that are small enough: so it costs a try or
two in the driver's life, and sequence numbers stay as plain as they are. A single record is not made smaller.
"""

from __future__ import annotations

from dataclasses import replace

from directkafka.options.transaction import TransactionOptions
from directkafka.producer_errors import BatchTooLargeError

__all__ = ["SIZE_LIMIT", "refused_batch", "with_batch_size", "with_smaller_batches"]

#: The topic's setting, in bytes of a batch as it is sent.
SIZE_LIMIT = "max.message.bytes"


def refused_batch(error: BaseException | None) -> BatchTooLargeError | None:
    """The batch that a failure is about, if it is about one that can be made smaller."""
    while error is not None:
        if isinstance(error, BatchTooLargeError):
            return error if error.records > 1 else None
        error = error.__cause__
    return None


def with_smaller_batches(
    options: TransactionOptions, refused: BatchTooLargeError, limit_bytes: int | None
) -> TransactionOptions:
    """Options under which batches are at most half as large, or as much less as the limit asks for.

    Args:
        options: those under which the batch was made.
        refused: the batch.
        limit_bytes: what the topic takes, if that may be seen.
    """
    half = refused.raw_bytes // 2
    # Compressed batches shrink about as their content does.
    wanted = half if limit_bytes is None else min(half, refused.raw_bytes * limit_bytes // refused.size_bytes)
    return with_batch_size(options, max(1, wanted))


def with_batch_size(options: TransactionOptions, size_bytes: int) -> TransactionOptions:
    """Options under which batches have at most so many bytes before compression."""
    size_bytes = min(size_bytes, options.producer.batch_size_bytes)
    return replace(options, producer=replace(options.producer, batch_size_bytes=size_bytes))
