"""Errors of reading records, in direct streams and RDDs above all: leaves of the tree in
:mod:`directkafka.errors`.

::

    DirectKafkaError
    ├── NonConsecutiveOffsetsError  a range has gaps, and the program said that it has none
    ├── BatchFailedError            a batch failed, and nothing runs after it
    ├── OffsetsNotCommittedError    offsets that were queued for the group are not there
    ├── MalformedPayloadError       a record's value or key is not what its format says
    ├── KafkaError
    │   └── DecompressionLimitError  a record batch decompresses to more than a task may hold
    └── StoreError
        ├── OffsetMismatchError
        │   └── StoredOffsetError   the offsets that a program stores itself are not its ranges' starts
        └── RowCountError
            └── RecordCountError    records that were processed differ from what the ranges have
"""

from __future__ import annotations

from directkafka.errors import DirectKafkaError, KafkaError, OffsetMismatchError, RowCountError


class NonConsecutiveOffsetsError(DirectKafkaError):
    """A range has offsets without a record, and the program's settings say that there are none.

    Attributes:
        range: the range as text.
        records: how many it has.
    """

    range: str
    records: int
    template = (
        "{range} has {records} records, fewer than offsets. Compaction and transactions leave such gaps, and they are "
        "no loss; but spark.streaming.kafka.allowNonConsecutiveOffsets = false says that there are none, and counts "
        "were taken from the ranges. Set it to true."
    )


class BatchFailedError(DirectKafkaError):
    """A batch of a direct stream has failed: no later one is planned, and no later offset is committed.

    Attributes:
        batch: the batch's time, in UTC.
        cause: what failed.
    """

    batch: str
    cause: str
    template = (
        "the batch of {batch} failed, and the stream stands still: nothing after it is read or committed. Stop "
        "the context and start again, from the checkpoint or from the offsets that were stored last. It failed with: "
        "{cause}"
    )


class OffsetsNotCommittedError(DirectKafkaError):
    """Offsets that were given to ``commit_async`` are not in the group.

    Attributes:
        offsets: which, as text.
        cause: why.
    """

    offsets: str
    cause: str = "the context stopped before their batch was done"
    template = (
        "offsets were not committed to the group: {offsets}: {cause}. A stream that starts from the group reads again "
        "from the last committed ones."
    )


class StoredOffsetError(OffsetMismatchError):
    """The offsets that a program stores itself are not the starts of its ranges.

    Attributes:
        is_done: whether each partition stands at its range's end, so that an earlier attempt has committed: the task
            may then roll back and succeed.
    """

    batch_id: int = -1
    is_done: bool = False
    template = (
        "stream {pipeline!r} at {store}: the ranges start with {expected}, stored is {found}. Records would be lost or "
        "come twice: roll the transaction back, and start again at the stored offsets (OffsetStore.load). A partition "
        "at 'nothing' was never preloaded: say where it starts (OffsetStore.preload)."
    )


class RecordCountError(RowCountError):
    """A program has processed other numbers of records than its ranges have."""

    template = (
        "stream {sink!r} at {store}: {reported} records were processed, the ranges have {found}. Roll the transaction "
        "back. Where the topic is compacted or written in transactions, ranges have gaps: give their real number of "
        "records (dk.record_counts(rdd))."
    )


class MalformedPayloadError(DirectKafkaError):
    """A record's value or key cannot be read as the format that the options say, or not as a whole.

    Attributes:
        column: ``value`` or ``key``.
        format: of the option.
        reason: what is wrong, and where.
    """

    topic: str
    partition: int
    offset: int
    column: str
    format: str
    reason: str
    template = (
        "the {column} of the record in topic {topic}, partition {partition} at offset {offset} cannot be read as "
        "{format}: {reason}. To go on with what can be read of such records, set {column}.on.error = null; to set them "
        "apart, dead-letter, in a pipeline with dead letters."
    )


class DecompressionLimitError(KafkaError):
    """A record batch decompresses to more than a task may hold. Brokers limit what a batch has compressed.

    Attributes:
        offset: base offset of the batch.
        codec: as ``compression.type`` spells it.
        compressed_bytes: the size of its records as they came.
        decompressed: what is known of their real size, as text.
        limit_bytes: the most that is allowed.
        option: the client setting that gives the limit.
    """

    topic: str
    partition: int
    offset: int
    codec: str
    compressed_bytes: int
    decompressed: str
    limit_bytes: int
    option: str
    template = (
        "the record batch in topic {topic}, partition {partition} at offset {offset} has {compressed_bytes} bytes "
        "compressed with {codec}, and decompresses to {decompressed}; {limit_bytes} are allowed. Nothing of it was "
        "read. If the producer means it so, raise the client setting {option} (kafka.{option} where options begin "
        "with kafka.), and give the executors memory for it: a task holds the bytes and the rows made of them. "
        "Else leave its offsets out and look for who wrote it."
    )
