"""One range as Arrow record batches: what a task does."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from directkafka.errors import RangeNotReadError
from directkafka.kafka.consumer.fetcher import RangeFetch
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.records.decoder import RecordDecoder


def read_range(task: RangeTask) -> Iterator[pa.RecordBatch]:
    """Read exactly the records of one range, in order.

    Memory is bounded by the fetch buffers and one output batch, however long the range is. A generator that is
    closed early stops its fetch.

    Args:
        task: the range, where its leader was, and how to read.

    Yields:
        Record batches of the task's columns, see :mod:`directkafka.kafka.records.arrow`.

    Raises:
        DataLossError: offsets of the range are not in the log any more.
        FetchTimeoutError: no progress within the task's limit.
        MalformedBatchError: bytes that are not records.
        DecompressionLimitError: a record batch decompresses to more than ``max.decompressed.batch.bytes``.
        RangeNotReadError: the range ended early; cannot happen unless this library is wrong.
    """
    if task.range.count() == 0:
        return
    decoder = RecordDecoder(
        task.range.topic,
        task.range.partition,
        task.range.from_offset,
        task.range.until_offset,
        include_headers=task.include_headers,
        read_committed=task.client.isolation_level == "read_committed",
        check_crcs=task.client.check_crcs,
        decompressed_bytes_max=task.client.max_decompressed_batch_bytes,
    )
    fetch, columns = RangeFetch(task), list(task.columns)
    try:
        for fetched in fetch:
            # Past offsets that are lost: the batch that is cut by the log's new start may still hold some of them.
            decoder.position = max(decoder.position, fetched.from_offset)
            for batch in decoder.decode(fetched.records, fetched.index, fetched.aborted):
                # Columns are shared, not copied; and what is not selected is not sent to Spark.
                yield batch.select(columns)
            # The thread has gone on from its own reading of the batch headers: the decoder must agree with it.
            if decoder.position < min(fetched.index.next_offset, task.range.until_offset):
                raise RangeNotReadError(ranges=(str(task.range),))
            fetch.recycle(fetched)
    finally:
        fetch.close()
    if fetch.position < task.range.until_offset:
        raise RangeNotReadError(ranges=(str(task.range),))
